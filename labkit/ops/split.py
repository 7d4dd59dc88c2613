"""Views that come several at a time: split, chunk, tensor_split, unbind.

Source   aten/src/ATen/native/TensorShape.cpp
"""

from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.view import select, slice_

Views = tuple[TensorImpl, ...]


def split(self: TensorImpl, split_size: int, dim: int = 0) -> Views:
    """Pieces of `split_size` positions, the last one possibly smaller.

    Raises   RuntimeError   a 0-dim tensor, a negative size, or size 0 of a dimension that is not
    """
    if not self.sizes:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    dim = maybe_wrap_dim(dim, self.dim())
    size = self.sizes[dim]
    if split_size == 0 and size != 0:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        )
    starts = range(0, size, split_size) if split_size and size else [0]
    return tuple([slice_(self, dim, start, start + split_size) for start in starts])


def split_with_sizes(self: TensorImpl, split_sizes: Ints, dim: int = 0) -> Views:
    """Pieces of the stated sizes, which add up to the dimension."""
    if not self.sizes:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = maybe_wrap_dim(dim, self.dim())
    pieces = []
    start = 0
    for length in split_sizes:
        if length < 0:
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(split_sizes)}"
            )
        pieces.append((start, length))
        start += length
    if start != self.sizes[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.sizes[dim]} (input "
            f"tensor's size at dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    return tuple([slice_(self, dim, first, first + length) for first, length in pieces])


def chunk(self: TensorImpl, chunks: int, dim: int = 0) -> Views:
    """At most `chunks` pieces of equal size, the last one possibly smaller."""
    if not self.sizes:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = maybe_wrap_dim(dim, self.dim())
    size = self.sizes[dim]
    if size == 0:  # there is no piece size that would give the right number of empty pieces
        return split_with_sizes(self, (0,) * chunks, dim)
    return split(self, -(-size // chunks), dim)


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
    return tuple([slice_(self, dim, start, end) for start, end in zip(starts, ends, strict=True)])


def _numpy_split(self: TensorImpl, sections: int | Ints, dim: int, name: str, least: int) -> Views:
    if self.dim() < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension"
            f"{'s' if least > 1 else ''}, but got a tensor with {self.dim()} dimensions!"
        )
    size = self.sizes[dim]
    if isinstance(sections, int) and (sections == 0 or size % sections):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the "
            f"dimension {size} is not divisible by the split_size {sections}!"
        )
    return tensor_split(self, sections, dim)


def hsplit(self: TensorImpl, sections: int | Ints) -> Views:
    """Equal pieces of the columns (of the only dimension for a vector)."""
    return _numpy_split(self, sections, 0 if self.dim() == 1 else 1, "hsplit", 1)


def vsplit(self: TensorImpl, sections: int | Ints) -> Views:
    """Equal pieces of the rows."""
    return _numpy_split(self, sections, 0, "vsplit", 2)


def dsplit(self: TensorImpl, sections: int | Ints) -> Views:
    """Equal pieces of the third dimension."""
    return _numpy_split(self, sections, 2, "dsplit", 3)


def unbind(self: TensorImpl, dim: int = 0) -> Views:
    """One view per position of a dimension, which disappears."""
    dim = maybe_wrap_dim(dim, self.dim())
    if not self.sizes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return tuple([select(self, dim, index) for index in range(self.sizes[dim])])
