"""Which bucket numbers fall into, and how many fall into each.

Source   aten/src/ATen/native/Bucketization.cpp
         aten/src/ATen/native/SummaryOps.cpp
         aten/src/ATen/native/cpu/HistogramKernel.cpp
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.formats import compute_dtype
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.random.cpu_distributions import rounded
from labkit.ops.reduction.reduction import refuse_unordered
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]


def _side(right: bool, side: str | None) -> bool:
    """Whether equals go to the right.

    Raises   RuntimeError   `side` is neither word, or contradicts `right`
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "side and right can't be set to opposites, got side of left while right was True"
        )
    return right or side == "right"


def _found(boundaries: Array, values: Array, right: bool, out_int32: bool) -> TensorImpl:
    """Positions in the last dimension by halving it; a boundary that is NaN counts as smaller.

    Source   aten/src/ATen/native/Bucketization.cpp  cus_lower_bound, cus_upper_bound
    """
    first = np.zeros(values.shape, np.int64)
    if not values.size:
        return new_tensor(first, dtypes.int32 if out_int32 else dtypes.int64)
    last = np.full(values.shape, boundaries.shape[-1], np.int64)
    while (searching := first < last).any():
        middle = first + (last - first) // 2
        asked = np.minimum(middle, boundaries.shape[-1] - 1)
        found = (
            boundaries[asked] if boundaries.ndim == 1 else np.take_along_axis(boundaries, asked, -1)
        )
        beyond = ~(found > values) if right else ~(found >= values)
        first = np.where(searching & beyond, middle + 1, first)
        last = np.where(searching & ~beyond, middle, last)
    return new_tensor(first, dtypes.int32 if out_int32 else dtypes.int64)


@kernel(
    "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, "
    "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    variants="function",
)
def searchsorted(
    sorted_sequence: TensorImpl,
    self: TensorImpl,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: TensorImpl | None = None,
) -> TensorImpl:
    """Where each value would go into the sorted last dimension.

    right   after equal elements instead of before them
    sorter  the order that sorts the sequence

    Source   aten/src/ATen/native/BucketizationUtils.h  searchsorted_pre_check
    """
    right = _side(right, side)
    if sorted_sequence.dim() == 0:
        raise RuntimeError("boundaries tensor should have positive dimension, but got 0 dimension")
    if sorted_sequence.dim() != 1 and sorted_sequence.sizes[:-1] != self.sizes[:-1]:
        raise RuntimeError(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sorted_sequence.sizes)} and input value tensor {list(self.sizes)}"
        )
    if self.sizes == () and sorted_sequence.dim() != 1:
        raise RuntimeError(
            "input value can be a scalar only when boundaries tensor dimension is 1, got "
            f"{sorted_sequence.dim()}"
        )
    sequence = copy.values(sorted_sequence)
    if sorter is not None:
        sequence = _resorted(sorted_sequence, sequence, sorter)
    values = copy.values(self)
    common = promotion.result_type(sorted_sequence, self)
    if self.numel():
        refuse_unordered("searchsorted_out_cpu", common)
        if common.kind == "bool":
            raise NotImplementedError("'searchsorted_out_cpu' not implemented for bool")
    kind = compute_dtype(common)
    return _found(sequence.astype(kind), values.astype(kind), right, out_int32)


def _resorted(sorted_sequence: TensorImpl, sequence: Array, sorter: TensorImpl) -> Array:
    if sorter.sizes != sorted_sequence.sizes:
        raise RuntimeError(
            f"torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(sorted_sequence.sizes)} and got sorter tensor {list(sorter.sizes)}"
        )
    if sorter.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{sorter.dtype.name}"
        )
    places = copy.values(sorter)
    if places.size and not 0 <= places.min() <= places.max() < sequence.shape[-1]:
        raise IndexError("torch.searchsorted(): sorter index out of range")
    return np.take_along_axis(sequence, places, -1)


def _number_like(value: complex, like: TensorImpl) -> TensorImpl:
    dtype = promotion.dtype_of_number(value)
    return new_tensor(
        np.asarray(value), promotion.result_type(like, value) if like.sizes else dtype
    )


@kernel(
    "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, "
    "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    variants="function",
)
def searchsorted_scalar(
    sorted_sequence: TensorImpl,
    self: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: TensorImpl | None = None,
) -> TensorImpl:
    """Where a number would go into a sorted sequence."""
    return searchsorted(
        sorted_sequence,
        _number_like(self, sorted_sequence),
        out_int32=out_int32,
        right=right,
        side=side,
        sorter=sorter,
    )


@kernel(
    "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) "
    "-> Tensor",
    variants="function",
)
def bucketize(
    self: TensorImpl, boundaries: TensorImpl, *, out_int32: bool = False, right: bool = False
) -> TensorImpl:
    """The bucket each value falls into."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


@kernel(
    "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) "
    "-> Tensor",
    variants="function",
)
def bucketize_scalar(
    self: float, boundaries: TensorImpl, *, out_int32: bool = False, right: bool = False
) -> TensorImpl:
    """The bucket a number falls into."""
    return bucketize(_number_like(self, boundaries), boundaries, out_int32=out_int32, right=right)


@kernel("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor")
def bincount(self: TensorImpl, weights: TensorImpl | None = None, minlength: int = 0) -> TensorImpl:
    """How often each whole number occurs, or the sum of its weights.

    Source   aten/src/ATen/native/SummaryOps.cpp  _bincount_cpu_template
    """
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if not self.dtype.is_integral:
        raise NotImplementedError(f"'bincount_cpu' not implemented for {self.dtype.name}")
    if self.dim() == 1 and self.numel() == 0:
        return new_tensor(np.zeros(minlength, np.int64), dtypes.int64)
    values = copy.values(self)
    if self.dim() != 1 or values.min() < 0:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got sizes {list(self.sizes)}"
        )
    if weights is None:
        return new_tensor(np.bincount(values, minlength=minlength), dtypes.int64)
    if weights.sizes != self.sizes:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input, got {list(weights.sizes)} "
            f"for {list(self.sizes)}"
        )
    counts = np.bincount(values, wide(weights).astype(np.float64), minlength)
    single = weights.dtype is dtypes.float32
    return new_tensor(counts, dtypes.float32 if single else dtypes.float64)


@kernel("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor")
def histc(self: TensorImpl, bins: int = 100, low: float = 0, high: float = 0) -> TensorImpl:
    """How many elements fall into each of `bins` equal parts of a range; elements outside do not.

    low, high  the range; the smallest and the largest element when they are equal

    Source   aten/src/ATen/native/cpu/HistogramKernel.cpp  histogramdd_linear_kernel
    """
    if bins <= 0:
        raise RuntimeError(f"bins must be > 0, got {bins}")
    if not self.dtype.is_floating_point or self.dtype.is_float8:
        raise NotImplementedError(f"'histogram_cpu' not implemented for {self.dtype.name}")
    values = wide(self).ravel()
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histc: max must be larger than min, got [{low}, {high}]")
    low, high = values.dtype.type(low), values.dtype.type(high)
    inside = values[(values >= low) & (values <= high)]
    shifted, width = rounded(inside - low, self.dtype), rounded(np.asarray(high - low), self.dtype)
    place = rounded(rounded(shifted * values.dtype.type(bins), self.dtype) / width, self.dtype)
    place = place.astype(np.int64)
    counts = np.bincount(np.minimum(place, bins - 1), minlength=bins)
    return new_tensor(counts, self.dtype)


def _isin(elements: Array, test: Array, invert: bool) -> TensorImpl:
    return new_tensor(np.isin(elements, test, invert=invert), dtypes.bool_)


_IS_IN = ", *, bool assume_unique=False, bool invert=False) -> Tensor"


@kernel(f"isin.Tensor_Tensor(Tensor elements, Tensor test_elements{_IS_IN}", variants="function")
def isin(
    elements: TensorImpl,
    test_elements: TensorImpl,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> TensorImpl:
    """Whether each element is among others; with `invert`, whether it is not.

    Source   aten/src/ATen/native/TensorCompare.cpp  isin_Tensor_Tensor_out
    """
    return _isin(wide(elements), wide(test_elements), invert)


@kernel(f"isin.Tensor_Scalar(Tensor elements, Scalar test_element{_IS_IN}", variants="function")
def isin_scalar(
    elements: TensorImpl, test_element: Any, *, assume_unique: bool = False, invert: bool = False
) -> TensorImpl:
    """Whether each element is the number."""
    return _isin(wide(elements), np.asarray(test_element), invert)
