"""A tensor shown differently from now on: `squeeze_`, which moves no byte.

Source   aten/src/ATen/native/TensorShape.cpp
"""

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel
from labkit.ops.shape import view

EXPLICIT = "CompositeExplicitAutograd"


@kernel("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", EXPLICIT, variants="method")
def squeeze_dim_(self: TensorImpl, dim: int) -> TensorImpl:
    """`self` without that dimension, when it has size 1."""
    shown = view.squeeze(self, dim)
    self.set_sizes_and_strides(shown.sizes, shown.strides, shown.storage_offset())
    self.bump_version()
    return self
