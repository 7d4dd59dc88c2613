"""The arithmetic of sizes, strides and offsets: pure functions on tuples of integers.

Sizes and strides are in elements, one per dimension; offsets are in elements from the start of
the storage unless the name says bytes.
"""

from collections.abc import Sequence

from labkit.core.memory_format import (
    Ints,
    contiguous_strides,
    is_channels_last_contiguous,
    is_contiguous,
)

_INT64_LIMIT = 1 << 63
_SIZE_LIMIT = 1 << 64


def checked_numel(sizes: Ints) -> int:
    """How many elements.

    Raises   RuntimeError   the product does not fit in 63 bits, whatever size is 0
    """
    total = 1
    for size in sizes:
        total *= size
        if total >= _INT64_LIMIT:
            raise RuntimeError(f"numel: integer multiplication overflow for sizes {list(sizes)}")
    return total


def storage_nbytes(sizes: Ints, strides: Ints, itemsize: int, storage_offset: int = 0) -> int:
    """Bytes a storage must have so that the last element is inside; 0 for an empty tensor.

    Raises   RuntimeError   the number does not fit in 64 bits, or a size is negative

    Source   aten/src/ATen/EmptyTensor.cpp  computeStorageNbytes
    """
    if 0 in sizes:
        return 0
    elements = storage_offset + 1
    for size, stride in zip(sizes, strides, strict=True):
        elements += stride * (size - 1)
        if size < 0 or elements * itemsize >= _SIZE_LIMIT:
            raise RuntimeError(
                f"Storage size calculation overflowed with sizes={list(sizes)} and "
                f"strides={list(strides)}"
            )
    return elements * itemsize


def check_in_bounds(
    sizes: Ints, strides: Ints, storage_offset: int, itemsize: int, nbytes: int
) -> None:
    """Return when every element lies inside a storage of `nbytes` bytes.

    Raises   RuntimeError   one does not; negative offset or stride

    Source   aten/src/ATen/native/Resize.h  checkInBoundsForStorage
    """
    if any(stride < 0 for stride in strides):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(strides)}"
        )
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"as_strided: sizes must not be negative: {list(sizes)}")
    needed = storage_nbytes(sizes, strides, itemsize, storage_offset)
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    if storage_nbytes(sizes, strides, itemsize) == 0:
        return
    if needed > nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset "
            f"{storage_offset}, and itemsize {itemsize} requiring a storage size of {needed} "
            f"are out of bounds for storage of size {nbytes}"
        )


def maybe_wrap_dim(dim: int, ndim: int, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front; a 0-dim tensor is treated as having one dimension.

    Raises   IndexError   there is no such dimension

    Source   c10/core/WrapDimMinimal.h  maybe_wrap_dim
    """
    if ndim == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        ndim = 1
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
            f"but got {dim})"
        )
    return dim + ndim if dim < 0 else dim


def infer_size(shape: Ints, elements: int) -> Ints:
    """`shape` with its -1, if any, replaced so that it holds `elements` elements.

    Raises   RuntimeError   two unknowns, a negative size, or no such size exists

    Source   aten/src/ATen/InferSize.h  infer_size
    """
    unknown = None
    known = 1
    for dim, size in enumerate(shape):
        if size == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = dim
        elif size >= 0:
            known *= size
        else:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {dim} of shape {list(shape)}"
            )
    fits = known == elements or (unknown is not None and known > 0 and elements % known == 0)
    if not fits:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {elements}")
    if unknown is None:
        return tuple(shape)
    if known == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    return (*shape[:unknown], elements // known, *shape[unknown + 1 :])


def compute_view_strides(sizes: Ints, strides: Ints, new_sizes: Ints) -> Ints | None:
    """The strides that show the same elements in a new shape, or None when a copy is needed.

    Neighbouring dimensions that follow each other in memory form one chunk; every chunk must be
    cut by the new shape exactly at its ends.

    Source   aten/src/ATen/TensorUtils.cpp  computeStride_impl
    """
    if not sizes:
        return (1,) * len(new_sizes)
    if 0 in sizes:
        return strides if sizes == new_sizes else contiguous_strides(new_sizes)
    new_strides = [0] * len(new_sizes)
    new_dim = len(new_sizes) - 1
    base = strides[-1]
    chunk = placed = 1
    for dim in range(len(sizes) - 1, -1, -1):
        chunk *= sizes[dim]
        follows = dim > 0 and (sizes[dim - 1] == 1 or strides[dim - 1] == chunk * base)
        if follows:
            continue
        while new_dim >= 0 and (placed < chunk or new_sizes[new_dim] == 1):
            new_strides[new_dim] = placed * base
            placed *= new_sizes[new_dim]
            new_dim -= 1
        if placed != chunk:
            return None
        if dim > 0:
            base = strides[dim - 1]
            chunk = placed = 1
    return tuple(new_strides) if new_dim == -1 else None


def broadcast_shapes(*shapes: Sequence[int]) -> Ints:
    """The shape all of them stretch to: aligned at the right, equal or 1.

    Raises   RuntimeError   two sizes of one dimension differ and neither is 1

    Source   aten/src/ATen/ExpandUtils.cpp  infer_size_impl
    """
    first = tuple(shapes[0]) if shapes else ()
    if all(shape == first or not shape for shape in shapes[1:]):
        return first
    result: list[int] = []
    for shape in shapes:
        ndim = max(len(result), len(shape))
        merged = [0] * ndim
        for dim in range(ndim - 1, -1, -1):
            from_end = ndim - dim
            a = result[-from_end] if from_end <= len(result) else 1
            b = shape[-from_end] if from_end <= len(shape) else 1
            if a != b and a != 1 and b != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                    f"non-singleton dimension {dim}"
                )
            merged[dim] = b if a == 1 else a
        result = merged
    return tuple(result)


def is_expandable_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    """True when broadcasting can stretch the shape to the desired one.

    Source   aten/src/ATen/ExpandUtils.h  is_expandable_to
    """
    if len(shape) > len(desired):
        return False
    pairs = zip(reversed(shape), reversed(desired), strict=False)
    return all(size in (1, wanted) for size, wanted in pairs)


def expand_strides(sizes: Ints, strides: Ints, target: Sequence[int]) -> tuple[Ints, Ints]:
    """Sizes and strides of an expanded view: stretched dimensions get stride 0.

    target  a size per dimension; -1 keeps the existing one

    Raises   RuntimeError   a size that is not 1 would have to change

    Source   aten/src/ATen/ExpandUtils.cpp  inferExpandGeometryImpl
    """
    ndim = len(target)
    if not sizes:  # a new dimension of a 0-dim tensor always has stride 0, even of size 1
        for dim, size in enumerate(target):
            if size == -1:
                _refuse_leading_minus_one(size, dim)
        return tuple(target), (0,) * ndim
    new_sizes = [0] * ndim
    new_strides = [0] * ndim
    for i in range(ndim - 1, -1, -1):
        dim = len(sizes) - 1 - (ndim - 1 - i)
        if dim >= 0:
            size, stride = sizes[dim], strides[dim]
        else:
            size, stride = 1, new_sizes[i + 1] * new_strides[i + 1]
        wanted = target[i]
        if wanted == -1:
            if dim < 0:
                _refuse_leading_minus_one(wanted, i)
            wanted = size
        if size != wanted:
            if size != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({wanted}) must match the existing size "
                    f"({size}) at non-singleton dimension {i}.  Target sizes: {list(target)}.  "
                    f"Tensor sizes: {list(sizes)}"
                )
            size, stride = wanted, 0
        new_sizes[i] = size
        new_strides[i] = stride
    return tuple(new_sizes), tuple(new_strides)


def _refuse_leading_minus_one(size: int, dim: int) -> None:
    raise RuntimeError(
        f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing "
        f"dimension {dim}"
    )


def is_non_overlapping_and_dense(sizes: Ints, strides: Ints) -> bool:
    """True when some order of the dimensions is contiguous: every byte between is used once.

    Source   c10/core/TensorImpl.h  TensorImpl::compute_non_overlapping_and_dense
    """
    if is_contiguous(sizes, strides) or is_channels_last_contiguous(sizes, strides):
        return True
    if len(sizes) == 1:
        return sizes[0] < 2 or strides[0] == 1
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def infer_dense_strides(sizes: Ints, strides: Ints) -> Ints:
    """Packed strides in the same order of dimensions, for a copy of a tensor with gaps.

    Source   aten/src/ATen/ExpandUtils.cpp  infer_dense_strides
    """
    order = list(range(len(sizes) - 1, -1, -1))
    for i in range(1, len(order)):
        moving = i
        for other in range(i - 1, -1, -1):
            compared = _compare_dims(order[other], order[moving], sizes, strides)
            if compared > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif compared < 0:
                break
    packed = [0] * len(sizes)
    step = 1
    for dim in order:
        packed[dim] = step
        step *= sizes[dim]
    return tuple(packed)


def _compare_dims(a: int, b: int, sizes: Ints, strides: Ints) -> int:
    """Positive when `a` must come after `b`, counted from the fastest-varying; 0 for no opinion."""
    if 0 in (strides[a], strides[b]):
        return 0
    if strides[a] != strides[b]:
        return -1 if strides[a] < strides[b] else 1
    return 1 if sizes[a] > sizes[b] else 0
