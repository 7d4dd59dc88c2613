"""Variances and norms.

Source   aten/src/ATen/native/ReduceOps.cpp
         aten/src/ATen/native/Sorting.cpp
         aten/src/ATen/native/LinearAlgebra.cpp
"""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.aten import aten
from labkit.ops.reduction.reduction import (
    Dims,
    in_dtype,
    reduce,
    reduced_dims,
    refuse_barebones,
)
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]
Pair = tuple[TensorImpl, TensorImpl]


def _divided(total: Array, count: int) -> Array:
    """Part by part: NumPy's complex division lets an infinite part spoil the other one."""
    if total.dtype.kind != "c":
        return np.asarray(np.true_divide(total, count))
    result = np.empty_like(total)
    result.real, result.imag = total.real / np.float64(count), total.imag / np.float64(count)
    return result


def _variance(self: TensorImpl, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    """In double precision."""
    if not self.dtype.is_inexact:
        raise RuntimeError(
            f"std and var only support floating point and complex dtypes, got {self.dtype.name}"
        )
    refuse_barebones("std_cpu", self.dtype)
    dims = reduced_dims(self, dim)
    values = copy.values(self).astype(np.complex128 if self.dtype.is_complex else np.float64)
    count = int(np.prod([self.sizes[each] for each in dims]))
    freedom = max(count - (1 if correction is None else correction), 0)
    if freedom == 0 and self.numel():
        warnings.warn(
            "std and var(): degrees of freedom is <= 0. Correction should be strictly less than "
            f"the reduction factor (input numel divided by output numel): {correction} of {count}",
            UserWarning,
            stacklevel=3,
        )
    with np.errstate(all="ignore"):
        mean = _divided(reduce(np.add, values, dims, True), count)
        squares = [np.square(values.real - mean.real)]
        if self.dtype.is_complex:  # each part by itself: a part that never varies is 0 / 0
            squares.append(np.square(values.imag - mean.imag))
        parts = [np.true_divide(reduce(np.add, s, dims, keepdim), freedom) for s in squares]
        variance: Array = np.add.reduce(parts)
    return variance


@kernel(
    "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
    "bool keepdim=False) -> Tensor"
)
def var(
    self: TensorImpl, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> TensorImpl:
    """The variance over some dimensions.

    correction  subtracted from the number of elements before dividing by it; None for 1
    """
    variance = _variance(self, dim, correction, keepdim)
    return new_tensor(variance, dtypes.to_real(self.dtype))


@composite("var(Tensor self, bool unbiased=True) -> Tensor")
def var_unbiased(self: TensorImpl, unbiased: bool = True) -> Any:
    """The variance of all elements."""
    return aten.var.correction(self, None, correction=int(unbiased))


@composite("var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor")
def var_dim(self: TensorImpl, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Any:
    """The variance over some dimensions."""
    return aten.var.correction(self, dim, correction=int(unbiased), keepdim=keepdim)


def _power_mean(values: Array, order: float, dims: Ints, keepdim: bool) -> Array:
    """The norm of magnitudes.

    Source   aten/src/ATen/native/cpu/ReduceOpsKernel.cpp  norm_kernel_tensor_iterator_impl
    """
    with np.errstate(all="ignore"):
        if math.isinf(order):
            return reduce(np.maximum if order > 0 else np.minimum, values, dims, keepdim)
        if order == 0:
            return reduce(np.add, values != 0, dims, keepdim, np.float64)
        if order == 1:
            return reduce(np.add, values, dims, keepdim)
        if order == 2:
            return np.asarray(np.sqrt(reduce(np.add, values * values, dims, keepdim)))
        total = reduce(np.add, np.power(values, order), dims, keepdim)
        return np.asarray(np.power(total, 1.0 / order))


def _check_norm_dtype(name: str, dtype: DType, source: DType) -> None:
    if not dtype.is_inexact:
        raise RuntimeError(
            f"{name}: dtype should be floating point or complex, but got {dtype.name}"
        )
    if dtype.is_complex != source.is_complex:
        raise RuntimeError(
            f"{name}: dtype should be {'complex' if source.is_complex else 'real'} for "
            f"{'complex' if source.is_complex else 'real'} inputs, but got {dtype.name}"
        )
    narrower = (
        np.finfo(dtypes.to_real(dtype).numpy or np.float32).nmant
        < np.finfo(dtypes.to_real(source).numpy or np.float32).nmant
    )
    if narrower and not source.itemsize <= dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({source.name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.name})"
        )


@kernel(
    "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    variants="function",
)
def linalg_vector_norm(
    self: TensorImpl,
    order: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> TensorImpl:
    """The vector norm over some dimensions.

    Source   aten/src/ATen/native/LinearAlgebra.cpp  linalg_vector_norm
    """
    if not self.dtype.is_inexact:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {self.dtype.name}"
        )
    if isinstance(order, complex):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a non-complex scalar as the order of norm: {order}"
        )
    order = float(order)
    if dtype is not None:
        _check_norm_dtype("linalg.vector_norm", dtype, self.dtype)
    if order < 0 or math.isinf(order):
        _refuse_empty("linalg.vector_norm", self, order, dim)
    dims = reduced_dims(self, dim)
    chosen = dtype or self.dtype
    refuse_barebones("norm_kernel", chosen)
    with np.errstate(all="ignore"):
        magnitudes = np.abs(wide(in_dtype(self, chosen))).astype(np.float64)
    return new_tensor(_power_mean(magnitudes, order, dims, keepdim), dtypes.to_real(chosen))


def _refuse_empty(name: str, self: TensorImpl, order: float, dim: Dims) -> None:
    named = [dim] if isinstance(dim, int) else dim or range(self.dim())
    if any(self.sizes and self.sizes[maybe_wrap_dim(each, self.dim())] == 0 for each in named):
        raise RuntimeError(
            f"{name} cannot compute the {order:g} norm on an empty dimension because the "
            f"operation does not have an identity: sizes {list(self.sizes)}, dims {list(named)}"
        )
