"""Elements turned about.

Source   aten/src/ATen/native/TensorTransformations.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


@kernel("flip(Tensor self, int[] dims) -> Tensor")
def flip(self: TensorImpl, dims: Sequence[int]) -> TensorImpl:
    """Elements in reverse order along the dimensions."""
    axes = [maybe_wrap_dim(dim, self.dim()) for dim in dims]
    for axis in axes:
        if axes.count(axis) > 1:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    raw = np.flip(self.raw(), tuple(axes)) if self.sizes else self.raw()
    return new_raw(raw, self.dtype, copy.empty_like(self).strides)
