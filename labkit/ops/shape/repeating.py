"""Elements repeated, rolled round and turned about.

Source   aten/src/ATen/native/TensorShape.cpp  repeat
         aten/src/ATen/native/Repeat.cpp
         aten/src/ATen/native/TensorTransformations.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


@kernel("repeat(Tensor self, SymInt[] repeats) -> Tensor", variants="method")
def repeat(self: TensorImpl, repeats: Sequence[int]) -> TensorImpl:
    """The whole tensor repeated along every dimension; new ones come in front.

    Raises   RuntimeError   fewer numbers than dimensions, or a negative one
    """
    if len(repeats) < self.dim():
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor, got {list(repeats)} for {self.dim()} dimensions"
        )
    padded = (1,) * (len(repeats) - self.dim()) + self.sizes
    sizes = [size * count for size, count in zip(padded, repeats, strict=True)]
    if any(size < 0 for size in sizes) or any(count < 0 for count in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {sizes}")
    return new_raw(np.tile(self.raw(), tuple(repeats)), self.dtype)


@kernel("flip(Tensor self, int[] dims) -> Tensor")
def flip(self: TensorImpl, dims: Sequence[int]) -> TensorImpl:
    """Elements in reverse order along the dimensions."""
    axes = [maybe_wrap_dim(dim, self.dim()) for dim in dims]
    for axis in axes:
        if axes.count(axis) > 1:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    raw = np.flip(self.raw(), tuple(axes)) if self.sizes else self.raw()
    return new_raw(raw, self.dtype, copy.empty_like(self).strides)
