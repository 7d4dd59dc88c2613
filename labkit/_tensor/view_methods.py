"""The methods of `Tensor` that make views: each calls the operator of its name in `labkit.ops`."""

from typing import Any, Self, cast

from labkit._tensor.arguments import impl_of, integer, integers
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


class ViewMethods(TensorImpl):
    """What a tensor can show of itself.

    Source   tools/autograd/templates/python_variable_methods.cpp
    """

    __slots__ = ()

    def _face(self, impl: TensorImpl) -> Self:
        return cast(Self, impl)

    def _faces(self, impls: list[TensorImpl]) -> tuple[Self, ...]:
        return tuple(cast(list[Self], impls))

    def view(self, *shape: Any) -> Self:
        """The same elements in a new shape, or the same bytes as another element type."""
        if len(shape) == 1 and isinstance(shape[0], DType):
            return self._face(aten.view.dtype(self, shape[0]))
        if not shape:
            raise TypeError("view() expects sizes or a dtype")
        return self._face(aten.view.default(self, integers(shape, "view")))

    def reshape(self, *shape: Any) -> Self:
        """The same elements in a new shape: a view where possible, else a copy."""
        if not shape:
            raise TypeError("reshape() expects sizes")
        return self._face(aten.reshape.default(self, integers(shape, "reshape")))

    def view_as(self, other: Any) -> Self:
        """A view in the shape of another tensor."""
        return self._face(aten.view_as.default(self, impl_of(other, "view_as")))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Several dimensions as one."""
        start, end = integers((start_dim, end_dim), "flatten")
        return self._face(aten.flatten.using_ints(self, start, end))

    def ravel(self) -> Self:
        """One dimension, row-major."""
        return self._face(aten.ravel.default(self))

    def permute(self, *dims: Any) -> Self:
        """The dimensions in a new order."""
        return self._face(aten.permute.default(self, integers(dims, "permute")))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Two dimensions change places."""
        return self._face(aten.transpose.int(self, *integers((dim0, dim1), "transpose")))

    def t(self) -> Self:
        """The transpose of a matrix."""
        return self._face(aten.t.default(self))

    @property
    def T(self) -> Self:
        """All dimensions in reverse order."""
        return self._face(aten.numpy_T.default(self))

    @property
    def mT(self) -> Self:
        """The last two dimensions change places."""
        return self._face(aten.mT.default(self))

    def expand(self, *sizes: Any) -> Self:
        """Dimensions of size 1, and new ones in front, stretched by a stride of 0."""
        return self._face(aten.expand.default(self, integers(sizes, "expand")))

    broadcast_to = expand

    def squeeze(self, *dim: Any) -> Self:
        """Without the dimensions of size 1: all, or those named."""
        dims = None if not dim else integers(dim, "squeeze")
        if dims is not None and not isinstance(dim[0], tuple | list):
            if len(dims) > 1:
                raise TypeError(f"squeeze() takes one dim or a tuple of them, got {dim}")
            return self._face(aten.squeeze.dim(self, dims[0]))
        chosen = aten.squeeze.default(self) if dims is None else aten.squeeze.dims(self, dims)
        return self._face(chosen)

    def unsqueeze(self, dim: int) -> Self:
        """A new dimension of size 1."""
        return self._face(aten.unsqueeze.default(self, integer(dim, "unsqueeze")))

    def select(self, dim: int, index: int) -> Self:
        """One position of a dimension, which disappears."""
        return self._face(aten.select.int(self, *integers((dim, index), "select")))

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """`length` positions of a dimension from `start`."""
        return self._face(aten.narrow.default(self, *integers((dim, start, length), "narrow")))

    def slice(
        self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """Every step-th position of a dimension, as the operator aten::slice."""
        first = None if start is None else integer(start, "slice")
        last = None if end is None else integer(end, "slice")
        dim, step = integers((dim, step), "slice")
        return self._face(aten.slice.Tensor(self, dim, first, last, step))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal of two dimensions as one new last dimension."""
        return self._face(aten.diagonal.default(self, *integers((offset, dim1, dim2), "diagonal")))

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Windows of a dimension as a new last dimension."""
        return self._face(aten.unfold.default(self, *integers((dimension, size, step), "unfold")))

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Self:
        """Any sizes, strides and offset that stay inside the storage."""
        offset = None if storage_offset is None else integer(storage_offset, "as_strided")
        sizes, strides = integers((size,), "as_strided"), integers((stride,), "as_strided")
        return self._face(aten.as_strided.default(self, sizes, strides, offset))

    def split(self, split_size: Any, dim: int = 0) -> tuple[Self, ...]:
        """Pieces of one size, or of stated sizes."""
        dim = integer(dim, "split")
        if isinstance(split_size, tuple | list):
            return self.split_with_sizes(split_size, dim)
        return self._faces(aten.split.Tensor(self, integer(split_size, "split"), dim))

    def split_with_sizes(self, split_sizes: Any, dim: int = 0) -> tuple[Self, ...]:
        """Pieces of stated sizes."""
        sizes = integers((split_sizes,), "split_with_sizes")
        return self._faces(aten.split_with_sizes.default(self, sizes, integer(dim, "split")))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most `chunks` pieces of equal size."""
        return self._faces(aten.chunk.default(self, *integers((chunks, dim), "chunk")))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One view per position of a dimension."""
        return self._faces(aten.unbind.int(self, integer(dim, "unbind")))

    @property
    def real(self) -> Self:
        """The real parts."""
        return self._face(aten.real.default(self))

    @property
    def imag(self) -> Self:
        """The imaginary parts."""
        return self._face(aten.imag.default(self))

    def view_as_real(self) -> Self:
        """Complex numbers as pairs."""
        return self._face(aten.view_as_real.default(self))

    def view_as_complex(self) -> Self:
        """Pairs as complex numbers."""
        return self._face(aten.view_as_complex.default(self))
