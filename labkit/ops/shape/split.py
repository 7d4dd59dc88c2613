"""Views that come several at a time; what is made of them is in `labkit.ops.shape.shape`.

Source   aten/src/ATen/native/TensorShape.cpp
"""

from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel
from labkit.ops.shape.view import select, slice_

Views = list[TensorImpl]


@kernel(
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "CompositeExplicitAutograd",
)
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
    return [slice_(self, dim, start, start + split_size) for start in starts]


@kernel(
    "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    "CompositeExplicitAutograd",
)
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
    return [slice_(self, dim, first, first + length) for first, length in pieces]


@kernel(
    "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "CompositeExplicitAutograd",
)
def unbind(self: TensorImpl, dim: int = 0) -> Views:
    """One view per position of a dimension, which disappears."""
    dim = maybe_wrap_dim(dim, self.dim())
    if not self.sizes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return [select(self, dim, index) for index in range(self.sizes[dim])]
