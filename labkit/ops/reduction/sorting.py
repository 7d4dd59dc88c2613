"""Order along a dimension.

NaN is larger than every number. Among equals `sort` keeps the order they came in.

Source   aten/src/ATen/native/Sorting.cpp
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import strides as stride_rules
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor
from labkit.ops.reduction.statistics import nan_last_order
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]
Pair = tuple[TensorImpl, TensorImpl]
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]


def order_of(rows: Array, descending: bool) -> Array:
    """Positions along the last dimension in the order of the values, ties as they came."""
    if not descending:
        return nan_last_order(rows)
    backwards: Array = rows.shape[-1] - 1 - nan_last_order(rows[..., ::-1])[..., ::-1]
    return backwards


@kernel(
    "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
    "(Tensor values, Tensor indices)"
)
def sort_stable(
    self: TensorImpl, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    """The elements in order along a dimension, and where each was.

    stable  no difference here

    Differs  always stable; PyTorch, not asked for it, leaves equals in an order that its release
             and the processor decide
    """
    dim = maybe_wrap_dim(dim, self.dim())
    if self.dtype.is_complex:
        raise RuntimeError(
            f"Sort currently does not support complex dtypes on CPU, got {self.dtype.name}"
        )
    strides = self.strides
    if not self.is_non_overlapping_and_dense:
        strides = stride_rules.infer_dense_strides(self.sizes, self.strides)
    if not self.sizes or not self.numel():
        places = np.zeros(self.sizes, np.int64)
        return (
            new_tensor(copy.values(self), self.dtype, strides),
            new_tensor(places, dtypes.int64, strides),
        )
    if self.dtype.is_float8:
        raise NotImplementedError(f"'sort_stable' not implemented for {self.dtype.name}")
    rows = np.moveaxis(copy.values(self), dim, -1)
    places = order_of(rows, descending)
    values = np.moveaxis(np.take_along_axis(rows, places, -1), -1, dim)
    return (
        new_tensor(values, self.dtype, strides),
        new_tensor(np.moveaxis(places, -1, dim), dtypes.int64, strides),
    )


@kernel("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
def sort(self: TensorImpl, dim: int = -1, descending: bool = False) -> Pair:
    """The elements in order along a dimension, and where each was."""
    return sort_stable(self, stable=False, dim=dim, descending=descending)
