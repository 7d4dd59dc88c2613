"""A tensor shown differently from now on: `squeeze_` and its kin, which move no byte.

Source   aten/src/ATen/native/TensorShape.cpp
"""

from collections.abc import Sequence

from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel
from labkit.ops.shape import view

EXPLICIT = "CompositeExplicitAutograd"


def _become(self: TensorImpl, shown: TensorImpl) -> TensorImpl:
    self.set_sizes_and_strides(shown.sizes, shown.strides, shown.storage_offset())
    self.bump_version()
    return self


@kernel("squeeze_(Tensor(a!) self) -> Tensor(a!)", EXPLICIT, variants="method")
def squeeze_(self: TensorImpl) -> TensorImpl:
    """`self` without its dimensions of size 1."""
    return _become(self, view.squeeze(self))


@kernel("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", EXPLICIT, variants="method")
def squeeze_dim_(self: TensorImpl, dim: int) -> TensorImpl:
    """`self` without that dimension, when it has size 1."""
    return _become(self, view.squeeze(self, dim))


@kernel("squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", EXPLICIT, variants="method")
def squeeze_dims_(self: TensorImpl, dim: Sequence[int]) -> TensorImpl:
    """`self` without those dimensions that have size 1."""
    return _become(self, view.squeeze(self, tuple(dim)))


@kernel("unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", EXPLICIT, variants="method")
def unsqueeze_(self: TensorImpl, dim: int) -> TensorImpl:
    """`self` with a new dimension of size 1."""
    return _become(self, view.unsqueeze(self, dim))


@kernel("t_(Tensor(a!) self) -> Tensor(a!)", EXPLICIT, variants="method")
def t_(self: TensorImpl) -> TensorImpl:
    """`self` with its two dimensions exchanged."""
    return _become(self, view.t(self))


@kernel(
    "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", EXPLICIT, variants="method"
)
def transpose_(self: TensorImpl, dim0: int, dim1: int) -> TensorImpl:
    """`self` with two dimensions exchanged."""
    return _become(self, view.transpose(self, dim0, dim1))


@composite("swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)", variants="method")
@composite("swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", variants="method")
def swapaxes_(self: TensorImpl, dim0: int, dim1: int) -> TensorImpl:
    """`self` with two dimensions exchanged."""
    return aten.transpose_.default(self, dim0, dim1)


@kernel(
    "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
    "-> Tensor(a!)",
    EXPLICIT,
    variants="method",
)
def as_strided_(
    self: TensorImpl, size: Ints, stride: Ints, storage_offset: int | None = None
) -> TensorImpl:
    """`self` with any sizes, strides and offset that stay inside the storage."""
    return _become(self, view.as_strided(self, tuple(size), tuple(stride), storage_offset))
