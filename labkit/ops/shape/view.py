"""The view operations: new sizes, strides and offset over the same storage; no byte moves.

One function each, named as in PyTorch, from `TensorImpl` to `TensorImpl`. Dimensions count from the
back when negative. What is made of several of these is in `labkit.ops.shape.shape`.

Source   aten/src/ATen/native/TensorShape.cpp
"""

from collections.abc import Sequence

from labkit.core import strides as stride_rules
from labkit.core import tensor_impl
from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


def wrap_distinct(dims: Sequence[int], ndim: int) -> list[int]:
    """The dimensions, counted from the front.

    Raises   IndexError     no such dimension
             RuntimeError   one named twice
    """
    wrapped: list[int] = []
    for dim in dims:
        wrapped.append(maybe_wrap_dim(dim, ndim))
        if wrapped[-1] in wrapped[:-1]:
            raise RuntimeError(f"dim {wrapped[-1]} appears multiple times in the list of dims")
    return wrapped


@kernel(
    "alias(Tensor(a) self) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def alias(self: TensorImpl) -> TensorImpl:
    """A view of everything, unchanged."""
    return self.alias(self.sizes, self.strides, self.storage_offset())


@kernel(
    "detach(Tensor(a) self) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def detach(self: TensorImpl) -> TensorImpl:
    """The same elements and version counter, in a tensor that is nobody's view."""
    return self.shallow_copy_and_detach(self.version_counter)


@kernel(
    "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def view(self: TensorImpl, sizes: Ints) -> TensorImpl:
    """The same elements in a new shape, in the same order.

    sizes  one of them may be -1: whatever is left

    Raises   RuntimeError   another number of elements, or the strides cannot show that shape
    """
    inferred = stride_rules.infer_size(sizes, self.numel())
    strides = stride_rules.compute_view_strides(self.sizes, self.strides, inferred)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead. "
            f"Asked for {list(sizes)} of sizes {list(self.sizes)}, strides {list(self.strides)}"
        )
    return self.alias(inferred, strides, self.storage_offset())


def reshape(self: TensorImpl, sizes: Ints) -> TensorImpl:
    """The same elements in a new shape: a view where the strides allow, else a copy.

    For kernels; `aten.reshape` is the operator.
    """
    inferred = stride_rules.infer_size(sizes, self.numel())
    strides = stride_rules.compute_view_strides(self.sizes, self.strides, inferred)
    if strides is None:
        return _unsafe_view(copy.clone(self, copy.contiguous_format), inferred)
    return self.alias(inferred, strides, self.storage_offset())


@kernel(
    "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    "CompositeExplicitAutograd",
    variants="",
)
def _reshape_alias(self: TensorImpl, sizes: Ints, strides: Ints) -> TensorImpl:
    """What `reshape` makes of a tensor with gaps when no copy is needed."""
    return self.alias(tuple(sizes), tuple(strides), self.storage_offset())


@kernel(
    "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
    "CompositeExplicitAutograd",
)
def _unsafe_view(fresh: TensorImpl, sizes: Ints) -> TensorImpl:
    """A new shape for a tensor nobody else has seen, so it need not count as a view.

    Raises   as `view`
    Source   aten/src/ATen/native/TensorShape.cpp  _unsafe_view
    """
    shown = view(fresh, sizes)
    offset = fresh.storage_offset()
    return tensor_impl.make(fresh.storage(), fresh.dtype, shown.sizes, shown.strides, offset)


@kernel(
    "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def permute(self: TensorImpl, dims: Ints) -> TensorImpl:
    """The dimensions in a new order: dimension i of the result is `dims[i]` of the input."""
    if len(dims) != self.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions i.e. "
            f"input.dim() = {self.dim()} is not equal to len(dims) = {len(dims)}"
        )
    order: list[int] = []
    for dim in dims:
        wrapped = maybe_wrap_dim(dim, self.dim())
        if wrapped in order:
            raise RuntimeError(f"permute(): duplicate dims are not allowed: {list(dims)}")
        order.append(wrapped)
    return self.alias(
        tuple([self.sizes[dim] for dim in order]),
        tuple([self.strides[dim] for dim in order]),
        self.storage_offset(),
    )


@kernel(
    "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def transpose(self: TensorImpl, dim0: int, dim1: int) -> TensorImpl:
    """Two dimensions change places."""
    dim0, dim1 = maybe_wrap_dim(dim0, self.dim()), maybe_wrap_dim(dim1, self.dim())
    sizes, strides = list(self.sizes), list(self.strides)
    if dim0 != dim1:
        sizes[dim0], sizes[dim1] = sizes[dim1], sizes[dim0]
        strides[dim0], strides[dim1] = strides[dim1], strides[dim0]
    return self.alias(tuple(sizes), tuple(strides), self.storage_offset())


@kernel(
    "t(Tensor(a) self) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def t(self: TensorImpl) -> TensorImpl:
    """The transpose of a matrix; a vector or a 0-dim tensor as it is."""
    if self.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.dim()}D")
    return transpose(self, 0, 0 if self.dim() < 2 else 1)


@kernel(
    "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def expand(self: TensorImpl, sizes: Ints, *, implicit: bool = False) -> TensorImpl:
    """Dimensions of size 1, and new ones in front, stretched by a stride of 0.

    sizes     -1 keeps the existing size
    implicit  True when an operator broadcasts; it changes nothing

    Raises   RuntimeError   fewer dimensions than before, or a size other than 1 would change
    """
    if len(sizes) < self.dim():
        raise RuntimeError(
            f"expand({list(self.sizes)}, size={list(sizes)}): the number of sizes provided "
            f"({len(sizes)}) must be greater or equal to the number of dimensions in the tensor "
            f"({self.dim()})"
        )
    new_sizes, new_strides = stride_rules.expand_strides(self.sizes, self.strides, sizes)
    if any(size < 0 for size in new_sizes):
        raise RuntimeError(f"sizes must not be negative: {list(new_sizes)}")
    stride_rules.checked_numel(new_sizes)
    return self.alias(new_sizes, new_strides, self.storage_offset())


@kernel("squeeze(Tensor(a) self) -> Tensor(a)", "CompositeExplicitAutograd")
@kernel("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", "CompositeExplicitAutograd")
@kernel("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", "CompositeExplicitAutograd")
def squeeze(self: TensorImpl, dim: int | Ints | None = None) -> TensorImpl:
    """Without the dimensions of size 1: all of them, or those named."""
    if dim is None:
        dropped = set(range(self.dim()))
    elif isinstance(dim, int):
        dropped = {maybe_wrap_dim(dim, self.dim())}
    else:
        dropped = set(wrap_distinct(dim, self.dim()))
    kept = [i for i, size in enumerate(self.sizes) if size != 1 or i not in dropped]
    return self.alias(
        tuple([self.sizes[i] for i in kept]),
        tuple([self.strides[i] for i in kept]),
        self.storage_offset(),
    )


@kernel(
    "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def unsqueeze(self: TensorImpl, dim: int) -> TensorImpl:
    """A new dimension of size 1 before `dim`."""
    dim = maybe_wrap_dim(dim, self.dim() + 1)
    stride = self.sizes[dim] * self.strides[dim] if dim < self.dim() else 1
    return self.alias(
        (*self.sizes[:dim], 1, *self.sizes[dim:]),
        (*self.strides[:dim], stride, *self.strides[dim:]),
        self.storage_offset(),
    )


@kernel(
    "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def select(self: TensorImpl, dim: int, index: int) -> TensorImpl:
    """One position of a dimension, which disappears.

    Raises   IndexError   a 0-dim tensor, no such dimension, or no such position
    """
    if not self.sizes:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = maybe_wrap_dim(dim, self.dim())
    size = self.sizes[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.sizes)} at "
            f"dimension {dim}"
        )
    position = index + size if index < 0 else index
    return self.alias(
        self.sizes[:dim] + self.sizes[dim + 1 :],
        self.strides[:dim] + self.strides[dim + 1 :],
        self.storage_offset() + position * self.strides[dim],
    )


@kernel(
    "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? "
    "end=None, SymInt step=1) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def slice_(
    self: TensorImpl,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> TensorImpl:
    """Every `step`-th position from start to before end; positions outside are clamped.

    Raises   IndexError     a 0-dim tensor, or no such dimension
             RuntimeError   a step below 1

    Source   aten/src/ATen/native/TensorShape.cpp  slice
    """
    if not self.sizes:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = maybe_wrap_dim(dim, self.dim())
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    size = self.sizes[dim]
    first, last, _ = slice(start, end).indices(size)
    count = -(-max(last - first, 0) // step)
    stride = self.strides[dim] * step
    if stride >> 63:  # the product wraps around in 64 bits, and may come out negative
        stride = (stride + (1 << 63)) % (1 << 64) - (1 << 63)
        if stride < 0:
            raise RuntimeError(f"slice: stride {self.strides[dim]} times step {step} overflows")
    return self.alias(
        (*self.sizes[:dim], count, *self.sizes[dim + 1 :]),
        (*self.strides[:dim], stride, *self.strides[dim + 1 :]),
        self.storage_offset() + first * self.strides[dim],
    )


@kernel(
    "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def diagonal(self: TensorImpl, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorImpl:
    """The diagonal of two dimensions as one new last dimension, `offset` columns to the right."""
    dim1, dim2 = maybe_wrap_dim(dim1, self.dim()), maybe_wrap_dim(dim2, self.dim())
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = self.sizes[dim1], self.sizes[dim2]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    start = self.storage_offset()
    if length:  # an empty diagonal keeps the offset: it may lie outside the storage
        start += offset * self.strides[dim2] if offset >= 0 else -offset * self.strides[dim1]
    kept = [i for i in range(self.dim()) if i not in (dim1, dim2)]
    return self.alias(
        (*[self.sizes[i] for i in kept], length),
        (*[self.strides[i] for i in kept], self.strides[dim1] + self.strides[dim2]),
        start,
    )


@kernel(
    "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def unfold(self: TensorImpl, dimension: int, size: int, step: int) -> TensorImpl:
    """Windows of `size` every `step` positions; the window becomes a new last dimension.

    Raises   RuntimeError   the window is larger than the dimension, or step is below 1
    """
    dim = maybe_wrap_dim(dimension, self.dim())
    length, stride = (self.sizes[dim], self.strides[dim]) if self.sizes else (1, 1)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {length} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.sizes:
        return self.alias((size,), (1,), self.storage_offset())
    windows = (length - size) // step + 1
    return self.alias(
        (*self.sizes[:dim], windows, *self.sizes[dim + 1 :], size),
        (*self.strides[:dim], step * stride, *self.strides[dim + 1 :], stride),
        self.storage_offset(),
    )


@kernel(
    "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? "
    "storage_offset=None) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def as_strided(
    self: TensorImpl, sizes: Ints, strides: Ints, storage_offset: int | None = None
) -> TensorImpl:
    """Any sizes, strides and offset over the storage, as long as every element is inside it.

    storage_offset  elements from the start of the storage; None keeps the tensor's own

    Raises   RuntimeError   lengths differ, a number is negative, or an element lies outside
    """
    result = alias(self)
    result.set_sizes_and_strides(tuple(sizes), tuple(strides), storage_offset)
    return result
