"""Whether any or all elements are not zero, and how many are.

Source   aten/src/ATen/native/ReduceOps.cpp
"""

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor
from labkit.ops.reduction.reduction import Dims, UFunc, is_empty_list, reduce, reduced_dims
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


def _truth(ufunc: UFunc, self: TensorImpl, dim: Dims, keepdim: bool) -> TensorImpl:
    dims = reduced_dims(self, dim)
    found = reduce(ufunc, copy.values(self) != 0, dims, keepdim)
    return new_tensor(found, _truth_dtype(self))


def _truth_dtype(self: TensorImpl) -> DType:
    """Bool; uint8 is older, stood for truth values, and stays what it is."""
    return dtypes.uint8 if self.dtype is dtypes.uint8 else dtypes.bool_


def _truth_of_each(self: TensorImpl) -> TensorImpl:
    return new_tensor(copy.values(self) != 0, _truth_dtype(self))


@kernel("any(Tensor self) -> Tensor")
def any_all(self: TensorImpl) -> TensorImpl:
    """Whether an element is not zero."""
    return _truth(np.logical_or, self, None, False)


@kernel("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor")
def any_dim(self: TensorImpl, dim: int, keepdim: bool = False) -> TensorImpl:
    """Whether an element along a dimension is not zero."""
    return _truth(np.logical_or, self, dim, keepdim)


@kernel("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor")
def any_dims(self: TensorImpl, dim: Dims = None, keepdim: bool = False) -> TensorImpl:
    """Whether an element over some dimensions is not zero; each for itself over none."""
    if is_empty_list(dim):
        return _truth_of_each(self)
    return _truth(np.logical_or, self, dim, keepdim)


@kernel("all(Tensor self) -> Tensor")
def all_all(self: TensorImpl) -> TensorImpl:
    """Whether no element is zero."""
    return _truth(np.logical_and, self, None, False)


@kernel("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor")
def all_dim(self: TensorImpl, dim: int, keepdim: bool = False) -> TensorImpl:
    """Whether no element along a dimension is zero."""
    return _truth(np.logical_and, self, dim, keepdim)


@kernel("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor")
def all_dims(self: TensorImpl, dim: Dims = None, keepdim: bool = False) -> TensorImpl:
    """Whether no element over some dimensions is zero; each for itself over none."""
    if is_empty_list(dim):
        return _truth_of_each(self)
    return _truth(np.logical_and, self, dim, keepdim)
