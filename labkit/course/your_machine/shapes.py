"""Seats of the shape arithmetic: broadcasting, strides, element types."""

import functools
from typing import Any

from labkit.autograd.variables.variable import requires_grad
from labkit.core import dtype as dtypes
from labkit.core.promotion import WrappedNumber, get_default_dtype
from labkit.core.tensor_impl import TensorImpl
from labkit.course.your_machine.seat import Place, Seat, place
from labkit.ops.aten import aten

Ints = tuple[int, ...]
PROMOTED = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128",
}  # fmt: skip
NUMBERS = {"bool": True, "int64": 1, "float64": 1.0, "complex128": 1j}
"""Any number of a kind promotes as any other."""


def seen(sizes: Ints, strides: Any) -> list[int]:
    """The strides of the dimensions along which anybody can step."""
    return [] if 0 in sizes else [s for n, s in zip(sizes, strides, strict=True) if n != 1]


def _strip(
    size: int, window: int, stride: int, padding: int, dilation: int, ceil: bool
) -> tuple[int, int, int]:
    return size + 2 * padding, dilation * (window - 1) + 1, stride


def _view(sizes: Ints, strides: Ints, itemsize: int, storage_offset: int = 0) -> Any:
    return tuple(sizes), tuple(strides), storage_offset


def _same_view(mine: Any, right: Any, sizes: Ints, strides: Ints, wanted: Ints) -> bool:
    if mine is None or right is None:
        return mine is right
    return len(mine) == len(wanted) and seen(wanted, mine) == seen(wanted, right)


def _slowest_first(shape: Ints, order: Any) -> tuple[Ints, Ints]:
    return tuple(shape), tuple(reversed(order))


def _by_view(item: Any) -> bool:
    """Whether an item of an index makes a view, and is one that the exercise has."""
    return item is None or item is Ellipsis or type(item) in (int, slice)


def _basic(self: TensorImpl, items: tuple[Any, ...], scalar_mask: bool = True) -> bool:
    """Whether the index is a basic one, of a tensor that records nothing."""
    bounds = [b for one in items if isinstance(one, slice) for b in (one.start, one.stop, one.step)]
    plain = all(bound is None or type(bound) is int for bound in bounds)
    return plain and all(map(_by_view, items)) and not requires_grad(self)


def _place_of(view: TensorImpl) -> tuple[Ints, Ints, int]:
    return view.sizes, view.strides, view.storage_offset()


def _same_place(mine: Any, right: Any, *args: Any) -> bool:
    sizes, strides, offset = mine
    if tuple(sizes) != right[0] or len(strides) != len(sizes):
        return False
    return seen(sizes, strides) == seen(*right[:2]) and (0 in sizes or offset == right[2])


def _operands(*operands: Any) -> tuple[list[tuple[str, Any]], str]:
    found: list[tuple[str, Any]] = []
    for operand in operands:
        if isinstance(operand, bool | int | float | complex):
            operand = WrappedNumber(operand)
        if operand.is_wrapped_number:
            found.append(("number", NUMBERS.get(operand.dtype.name, 1.0)))
        else:
            found.append(("dimensioned" if operand.sizes else "zero-dim", operand.dtype.name))
    return found, get_default_dtype().name


def _in_the_lattice(*operands: Any) -> bool:
    """Whether the exercise knows all their dtypes."""
    names = [getattr(getattr(operand, "dtype", None), "name", "bool") for operand in operands]
    return bool(names) and PROMOTED.issuperset(names)


@functools.cache
def _named() -> dict[str, Any]:
    found = [value for value in vars(dtypes).values() if isinstance(value, dtypes.DType)]
    return {dtype.name: dtype for dtype in found}


SEATS = (
    Seat(
        "tensors.promote",
        "the common dtype",
        "shapes",
        "From the dtypes of all operands comes the one in which the operator computes.",
        "aten/src/ATen/native/TypeProperties.cpp  result_type",
        (
            place(
                "labkit.core.promotion.result_type",
                _operands,
                lambda name, *operands: _named().get(name, name),
                covers=_in_the_lattice,
            ),
        ),
    ),
    Seat(
        "broadcasting.broadcast_shapes",
        "the common shape",
        "shapes",
        "From the shapes of all operands comes the shape that they stretch to, or an error.",
        "aten/src/ATen/ExpandUtils.cpp  infer_size_impl",
        (
            place(
                "labkit.core.strides.broadcast_shapes",
                lambda *shapes: ([tuple(shape) for shape in shapes],),
                lambda value, *shapes: tuple(value[0]),
            ),
        ),
    ),
    Seat(
        "broadcasting.loop_strides",
        "strides of the loop",
        "shapes",
        "A dimension in which an operand is repeated gets stride 0.",
        "aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::compute_strides",
        (
            place(
                "labkit.ops.iterator.iteration_order.broadcast_strides",
                lambda sizes, strides, shape: (tuple(sizes), tuple(strides), tuple(shape)),
                lambda value, *args: tuple(value),
                same=lambda mine, right, sizes, strides, shape: (
                    len(mine) == len(right) and seen(shape, mine) == seen(shape, right)
                ),
            ),
        ),
    ),
    Seat(
        "indexing.basic_index",
        "a part of a tensor",
        "shapes",
        "An index of integers, slices, None and ... becomes sizes, strides and offset of a view.",
        "torch/csrc/autograd/python_variable_indexing.cpp  applySlicing",
        (
            Place(
                "labkit.ops.indexing.indexing._apply",
                lambda ask, self, items, *mask: ask(*_place_of(self), tuple(items)),
                right=lambda function, *args: _place_of(function(*args)[0]),
                same=_same_place,
                commit=lambda value, self, *rest: (aten.as_strided.default(self, *value), []),
                covers=_basic,
            ),
        ),
    ),
    Seat(
        "strides.needed",
        "bytes of a storage",
        "shapes",
        "From sizes, strides and offset comes how much memory a tensor needs.",
        "aten/src/ATen/EmptyTensor.cpp  computeStorageNbytes",
        (
            place(
                "labkit.core.strides.storage_nbytes",
                _view,
                lambda value, sizes, strides, itemsize, *offset: value * itemsize,
                covers=lambda sizes, strides, itemsize, offset=0: (
                    min((*sizes, *strides, offset)) >= 0
                ),
            ),
        ),
    ),
    Seat(
        "strides.view_strides",
        "can it be a view?",
        "shapes",
        "The strides that show the same memory in another shape, or a refusal: then it is copied.",
        "aten/src/ATen/TensorUtils.cpp  computeStride_impl",
        (
            place(
                "labkit.core.strides.compute_view_strides",
                lambda sizes, strides, wanted: (tuple(sizes), tuple(strides), tuple(wanted)),
                lambda value, *args: tuple(value),
                same=_same_view,
                refuses=lambda *args: None,
            ),
        ),
    ),
    Seat(
        "strides.layout_from_order",
        "strides of a result",
        "shapes",
        "A new result is packed in the order in which the loop walks it.",
        "aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::allocate_or_resize_outputs",
        (
            place(
                "labkit.ops.iterator.iteration_order.packed_strides",
                _slowest_first,
                lambda value, *args: tuple(value),
                which=0,
                same=lambda mine, right, shape, order: (
                    len(mine) == len(right) and seen(shape, mine) == seen(shape, right)
                ),
                covers=lambda shape, order: 0 not in shape,
            ),
        ),
    ),
    Seat(
        "memory_layout.format_of",
        "is it contiguous?",
        "shapes",
        "Sizes and strides tell whether memory can be walked element by element.",
        "c10/core/Contiguity.h  _compute_contiguous",
        (
            place(
                "labkit.core.memory_format.is_contiguous",
                lambda sizes, strides: (tuple(sizes), tuple(strides)),
                lambda value, *args: "contiguous" in value[0],
            ),
        ),
    ),
    Seat(
        "strides_views_transfers.windows_that_fit",
        "how many windows fit",
        "shapes",
        "How many windows of a pooling lie inside the image.",
        "aten/src/ATen/native/Pool.h  pooling_output_shape",
        (
            place(
                "labkit.ops.convolution.windows._count", _strip, covers=lambda *args: not args[-1]
            ),
        ),
    ),
)
