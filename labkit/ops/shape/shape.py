"""Views made of other views: they call operators by name, so autograd sees each of them.

Source   aten/src/ATen/native/TensorShape.cpp
"""

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


@composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def reshape_as(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """`reshape` to the shape of another tensor."""
    return aten.reshape.default(self, other.sizes)


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
    merged = stride_rules.numel(self.sizes[start : end + 1])
    return aten.reshape.default(self, (*self.sizes[:start], merged, *self.sizes[end + 1 :]))


@composite("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)")
def unflatten(self: TensorImpl, dim: int, sizes: Ints) -> TensorImpl:
    """One dimension as several, which multiply up to it; one of them may be -1."""
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    dim = maybe_wrap_dim(dim, self.dim())
    if not self.sizes:
        raise RuntimeError("unflatten() cannot be applied to a 0-dim tensor")
    size = self.sizes[dim]
    try:
        inferred = stride_rules.infer_size(sizes, size)
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({size}) in the input tensor"
        ) from None
    return aten.view.default(self, (*self.sizes[:dim], *inferred, *self.sizes[dim + 1 :]))


@composite("numpy_T(Tensor(a) self) -> Tensor(a)")
def numpy_T(self: TensorImpl) -> TensorImpl:
    """All dimensions in reverse order: what `.T` gives."""
    return aten.permute.default(self, tuple(range(self.dim() - 1, -1, -1)))


@composite("matrix_H(Tensor(a) self) -> Tensor(a)")
def matrix_H(self: TensorImpl) -> TensorImpl:
    """The transpose of a real matrix: what `.H` gives. The lab has no lazy conjugate."""
    if self.dim() == 0:
        return self
    if self.dim() != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor."
        )
    _refuse_conjugate(self, "H")
    return aten.transpose.int(self, 0, 1)


@composite("mT(Tensor(a) self) -> Tensor(a)")
def mT(self: TensorImpl) -> TensorImpl:
    """The last two dimensions change places."""
    if self.dim() == 1:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return aten.transpose.int(self, -2, -1) if self.dim() else self


@composite("adjoint(Tensor(a) self) -> Tensor(a)")
def adjoint(self: TensorImpl) -> TensorImpl:
    """The last two dimensions of a real tensor change places."""
    if self.dim() == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    _refuse_conjugate(self, "adjoint")
    return aten.transpose.int(self, -2, -1) if self.dim() else self


def _refuse_conjugate(self: TensorImpl, name: str) -> None:
    if self.dtype.is_complex:
        raise NotImplementedError(f"{name} of {self.dtype}: labkit has no lazy conjugate bit")


@composite("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)")
@composite("moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)")
def movedim(self: TensorImpl, source: Ints, destination: Ints) -> TensorImpl:
    """Some dimensions go to stated places; the others keep their order around them."""
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should "
            f"contain the same number of dims as destination ({list(destination)} dims)"
        )
    sources = _wrap_distinct_for_movedim(source, self.dim(), "source")
    destinations = _wrap_distinct_for_movedim(destination, self.dim(), "destination")
    if not self.sizes:
        return aten.alias.default(self)
    order = dict(zip(destinations, sources, strict=True))
    rest = iter([dim for dim in range(self.dim()) if dim not in sources])
    return aten.permute.default(
        self, tuple([order[i] if i in order else next(rest) for i in range(self.dim())])
    )


@composite("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)")
@composite("moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)")
def _movedim_int(self: TensorImpl, source: int, destination: int) -> TensorImpl:
    return movedim(self, (source,), (destination,))


def _wrap_distinct_for_movedim(dims: Ints, ndim: int, role: str) -> list[int]:
    wrapped = [maybe_wrap_dim(dim, ndim) for dim in dims]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"movedim: repeated dim in `{role}` ({list(dims)})")
    return wrapped


@composite("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)")
@composite("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
def swapaxes(self: TensorImpl, dim0: int, dim1: int) -> TensorImpl:
    """Two dimensions change places."""
    return aten.transpose.int(self, dim0, dim1)


@composite("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")
def broadcast_to(self: TensorImpl, size: Ints) -> TensorImpl:
    """Dimensions of size 1, and new ones in front, stretched by a stride of 0."""
    return aten.expand.default(self, size)


@composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def expand_as(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """`expand` to the shape of another tensor."""
    return aten.expand.default(self, other.sizes)


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


@composite(
    "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, "
    "Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]"
)
def tensor_split_at(self: TensorImpl, sections: TensorImpl, dim: int = 0) -> Views:
    """`tensor_split` with the number, or the positions, in a tensor.

    Raises   RuntimeError   not whole numbers, or more than one dimension
    """
    if sections.dim() > 1 or not sections.dtype.is_integral:
        raise RuntimeError(
            "tensor_split expected a 0-dim or 1-dim tensor of int64, got "
            f"{sections.dtype} of sizes {list(sections.sizes)}"
        )
    numbers = sections.raw().tolist()
    return tensor_split(self, numbers, dim)


@composite("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]")
@composite("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]")
def tensor_split(self: TensorImpl, sections: int | Ints, dim: int = 0) -> Views:
    """`sections` pieces whose sizes differ by at most one, or pieces cut at stated positions."""
    if not self.sizes:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = maybe_wrap_dim(dim, self.dim())
    size = self.sizes[dim]
    if isinstance(sections, int):
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        least, larger = divmod(size, sections)
        cuts = [least * i + min(i, larger) for i in range(1, sections)]
    else:
        cuts = list(sections)
    ends = [*cuts, size]
    starts = [0, *cuts]
    return [
        aten.slice.Tensor(self, dim, start, end) for start, end in zip(starts, ends, strict=True)
    ]


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
