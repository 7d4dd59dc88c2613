"""Whether any or all elements are not zero, and how many are.

Source   aten/src/ATen/native/ReduceOps.cpp
"""

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor
from labkit.ops.reduction.reduction import Dims, UFunc, is_empty_list, reduce, reduced_dims
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


def _truth(ufunc: UFunc, self: TensorImpl, dim: Dims, keepdim: bool) -> TensorImpl:
    """In bool; uint8 is older, stood for truth values, and stays what it is."""
    found = copy.values(self) != 0
    if not is_empty_list(dim):
        found = reduce(ufunc, found, reduced_dims(self, dim), keepdim)
    return new_tensor(found, dtypes.uint8 if self.dtype is dtypes.uint8 else dtypes.bool_)


@kernel("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor")
@kernel("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor")
@kernel("any(Tensor self) -> Tensor")
def any_true(self: TensorImpl, dim: Dims = None, keepdim: bool = False) -> TensorImpl:
    """Whether an element, over all or some dimensions, is not zero; each for itself over none."""
    return _truth(np.logical_or, self, dim, keepdim)


@kernel("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor")
@kernel("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor")
@kernel("all(Tensor self) -> Tensor")
def all_true(self: TensorImpl, dim: Dims = None, keepdim: bool = False) -> TensorImpl:
    """Whether no element, over all or some dimensions, is zero; each for itself over none."""
    return _truth(np.logical_and, self, dim, keepdim)
