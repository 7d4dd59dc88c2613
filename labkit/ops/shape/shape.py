"""Views made of other views: they call operators by name, so autograd sees each of them.

Source   aten/src/ATen/native/TensorShape.cpp
"""

import math

from labkit.core import strides as stride_rules
from labkit.core.memory_format import Ints, MemoryFormat
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite

Views = list[TensorImpl]


@composite("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)")
def reshape(self: TensorImpl, sizes: Ints) -> TensorImpl:
    """The same elements in a new shape: a view where the strides allow, else a copy."""
    if self.is_contiguous():
        return aten.view.default(self, sizes)
    inferred = stride_rules.infer_size(sizes, self.numel())
    strides = stride_rules.compute_view_strides(self.sizes, self.strides, inferred)
    if strides is None:
        packed = aten.clone.default(self, memory_format=MemoryFormat.contiguous_format)
        return aten._unsafe_view.default(packed, inferred)
    return aten._reshape_alias.default(self, inferred, strides)


@composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def view_as(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """A view in the shape of another tensor."""
    return aten.view.default(self, other.sizes)


@composite("ravel(Tensor(a) self) -> Tensor(a)")
def ravel(self: TensorImpl) -> TensorImpl:
    """One dimension, row-major: a view where the strides allow, else a copy."""
    return aten.view.default(aten.contiguous.default(self), (-1,))


@composite("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)")
def flatten(self: TensorImpl, start_dim: int = 0, end_dim: int = -1) -> TensorImpl:
    """The dimensions from start to end, both included, as one; the tensor itself for just one."""
    start, end = maybe_wrap_dim(start_dim, self.dim()), maybe_wrap_dim(end_dim, self.dim())
    if start > end:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim ({start_dim}) cannot come after end_dim "
            f"({end_dim})"
        )
    if not self.sizes:
        return aten.reshape.default(self, (1,))
    if start == end:
        return self
    merged = math.prod(self.sizes[start : end + 1])
    return aten.reshape.default(self, (*self.sizes[:start], merged, *self.sizes[end + 1 :]))


@composite("numpy_T(Tensor(a) self) -> Tensor(a)")
def numpy_T(self: TensorImpl) -> TensorImpl:
    """All dimensions in reverse order: what `.T` gives."""
    return aten.permute.default(self, tuple(range(self.dim() - 1, -1, -1)))


@composite("mT(Tensor(a) self) -> Tensor(a)")
def mT(self: TensorImpl) -> TensorImpl:
    """The last two dimensions change places."""
    if self.dim() == 1:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return aten.transpose.int(self, -2, -1) if self.dim() else self


@composite("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")
def broadcast_to(self: TensorImpl, size: Ints) -> TensorImpl:
    """Dimensions of size 1, and new ones in front, stretched by a stride of 0."""
    return aten.expand.default(self, size)


@composite("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")
def narrow(self: TensorImpl, dim: int, start: int, length: int) -> TensorImpl:
    """`length` positions of a dimension from `start`; nothing is clamped.

    Raises   IndexError     start lies outside
             RuntimeError   a 0-dim tensor, a negative length, or the end lies outside
    """
    if not self.sizes:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}")
    size = self.sizes[maybe_wrap_dim(dim, self.dim())]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    if start < 0:
        start += size
    if start > size - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return aten.slice.Tensor(self, dim, start, start + length)


@composite("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]")
def chunk(self: TensorImpl, chunks: int, dim: int = 0) -> Views:
    """At most `chunks` pieces of equal size, the last one possibly smaller."""
    if not self.sizes:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = maybe_wrap_dim(dim, self.dim())
    size = self.sizes[dim]
    if size == 0:  # there is no piece size that would give the right number of empty pieces
        return aten.split_with_sizes.default(self, (0,) * chunks, dim)
    return aten.split.Tensor(self, -(-size // chunks), dim)


@composite("real(Tensor(a) self) -> Tensor(a)")
def real(self: TensorImpl) -> TensorImpl:
    """The real parts; the tensor itself when it is not complex."""
    return (
        aten.select.int(aten.view_as_real.default(self), -1, 0) if self.dtype.is_complex else self
    )


@composite("imag(Tensor(a) self) -> Tensor(a)")
def imag(self: TensorImpl) -> TensorImpl:
    """The imaginary parts.

    Raises   RuntimeError   not a complex tensor
    """
    if not self.dtype.is_complex:
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes, got {self.dtype}"
        )
    return aten.select.int(aten.view_as_real.default(self), -1, 1)
