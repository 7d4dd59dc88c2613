"""Elements turned about.

Source   aten/src/ATen/native/TensorTransformations.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.registration import kernel
from labkit.ops.shape.view import wrap_distinct
from labkit.ops.tensors import copy


@kernel("flip(Tensor self, int[] dims) -> Tensor")
def flip(self: TensorImpl, dims: Sequence[int]) -> TensorImpl:
    """Elements in reverse order along the dimensions."""
    axes = wrap_distinct(dims, self.dim())
    raw = np.flip(self.raw(), tuple(axes)) if self.sizes else self.raw()
    return new_raw(raw, self.dtype, copy.empty_like(self).strides)
