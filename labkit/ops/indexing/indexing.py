"""What `x[...]` means: integers, slices, None and Ellipsis make views, tensors and lists gather.

The items are worked off from left to right: each basic one narrows the view at once, each tensor
is noted with the dimension it stands at. What was noted is then one call of `index`.

Source   torch/csrc/autograd/python_variable_indexing.cpp
         aten/src/ATen/TensorIndexing.h
"""

from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.device import CPU
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.indexing.advanced_indexing import MASKS, Index
from labkit.ops.tensors import copy, tensor_new

_SEQUENCES = (list, tuple, range, str, bytes, np.ndarray)
_INT64 = np.iinfo(np.int64)


def getitem(self: TensorImpl, item: Any) -> TensorImpl:
    """`self[item]`: a view for basic items, a new tensor as soon as one is a tensor or a list.

    Raises   IndexError   too many items, positions outside, masks of another shape
             ValueError   a slice step below 1
             TypeError    something that is no index
    """
    sliced, indices = _apply(self, _as_tuple(item))
    if indices:
        return aten.index.Tensor(sliced, indices)
    return aten.alias.default(self) if sliced is self else sliced


def setitem(self: TensorImpl, item: Any, value: Any) -> None:
    """`self[item] = value`: a copy into the view, or an `index_put_`.

    value  a `TensorImpl` or a Python number

    Raises   as `getitem`, `copy_` and `index_put_`
    """
    source = _value(self, value)
    if item is False:
        return
    sliced, indices = _apply(self, _as_tuple(item), scalar_mask=item is not True)
    if not indices:
        _copy_to(sliced, source)
        return
    shown = _without_leading_ones(source.sizes)
    values = source if shown == source.sizes else aten.view.default(source, shown)
    aten.index_put_.default(sliced, indices, values)


def _value(self: TensorImpl, value: Any) -> TensorImpl:
    if isinstance(value, TensorImpl):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(f"can't assign a {type(value).__name__} to a tensor of {self.dtype}")
    if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        raise ValueError(f"Overflow when unpacking long long: {value}")
    raw = copy.scalar_raw(value, self.dtype, check_small_floats=False)
    result = tensor_new.tensor(0, self.dtype)
    copy.store(result, raw)
    return result


def _copy_to(destination: TensorImpl, source: TensorImpl) -> None:
    """Copy, letting the source have more dimensions as long as the extra ones are of size 1.

    Source   aten/src/ATen/TensorIndexing.h  copy_to
    """
    if destination.sizes != source.sizes and source.sizes:
        source = aten.view.default(source, _without_leading_ones(source.sizes))
        if source.sizes != destination.sizes:
            source = aten.expand.default(source, destination.sizes)
    if source.sizes or not destination.sizes or source.device != CPU:
        aten.copy_.default(destination, source)
    else:
        aten.fill_.Tensor(destination, source)


def _without_leading_ones(sizes: Ints) -> Ints:
    first = next((dim for dim, size in enumerate(sizes) if size != 1), len(sizes))
    return sizes[first:]


def _as_tuple(item: Any) -> tuple[Any, ...]:
    """The items of an index; a list counts as a tuple when it holds anything but plain numbers.

    Source   torch/csrc/autograd/python_variable_indexing.cpp  treatSequenceAsTuple
    """
    if isinstance(item, tuple):
        return item
    if not isinstance(item, list | range) or len(item) >= 32:
        return (item,)
    nested = any(
        isinstance(each, (TensorImpl, slice, *_SEQUENCES)) or each is Ellipsis or each is None
        for each in item
    )
    return tuple(item) if nested else (item,)


def _count_specified(items: tuple[Any, ...]) -> int:
    """How many dimensions the items name; a mask counts for all of its own only as a tensor."""
    specified = 0
    for item in items:
        if isinstance(item, TensorImpl):
            specified += item.dim() if item.dtype in MASKS else 1
        elif item is not None and item is not Ellipsis and not isinstance(item, bool):
            specified += 1
    return specified


def _apply(
    self: TensorImpl, items: tuple[Any, ...], scalar_mask: bool = True
) -> tuple[TensorImpl, list[Index]]:
    """The view after all basic items, and the index list of the others (empty when none).

    Source   torch/csrc/autograd/python_variable_indexing.cpp  applySlicing
    """
    specified = _count_specified(items)
    if specified > self.dim() and not (len(items) == 1 and isinstance(items[0], int | slice)):
        raise IndexError(f"too many indices for tensor of dimension {self.dim()} (got {specified})")
    result = self
    noted: list[tuple[int, TensorImpl]] = []
    dim = 0
    for place, given in enumerate(items):
        item = _normalized(given)
        if isinstance(item, TensorImpl) and not item.sizes and item.dtype in MASKS:
            item = bool(copy.item(item))
        if isinstance(item, bool):
            result = aten.unsqueeze.default(result, dim)
            if scalar_mask:
                noted.append((dim, _position_list([0] if item else [])))
            dim += 1
        elif isinstance(item, int):
            result = _select(result, dim, item, place)
        elif isinstance(item, slice):
            result = _slice(result, dim, item)
            dim += 1
        elif item is Ellipsis:
            dim += self.dim() - specified
        elif item is None:
            result = aten.unsqueeze.default(result, dim)
            dim += 1
        else:
            noted.append((dim, item))
            dim += item.dim() if item.dtype in MASKS else 1
    return result, _index_list(noted)


def _index_list(noted: list[tuple[int, TensorImpl]]) -> list[Index]:
    indices: list[Index] = []
    dim = 0
    for place, tensor in noted:
        indices += [None] * (place - dim)
        indices.append(tensor)
        dim = place + (tensor.dim() if tensor.dtype in MASKS else 1)
    return indices


def _normalized(item: Any) -> Any:
    """The item as bool, int, slice, None, Ellipsis or a `TensorImpl` with a use as an index."""
    if item is None or item is Ellipsis or isinstance(item, bool | slice):
        return item
    if isinstance(item, np.ndarray):
        item = _index_array(item)
    if isinstance(item, TensorImpl):
        integral = item.dtype.is_integral and item.dtype is not dtypes.uint8
        return int(copy.item(item).real) if integral and not item.sizes else item
    if isinstance(item, int | np.integer):
        if not _INT64.min <= item <= _INT64.max:
            raise ValueError(f"Overflow when unpacking long long: {item}")
        return int(item)
    if isinstance(item, _SEQUENCES):
        return _position_list(item)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(item).__name__})"
    )


def _index_array(array: Any) -> TensorImpl:
    """A NumPy array as an index: masks stay masks, every other number becomes int64."""
    dtype = dtypes.from_numpy_dtype(array.dtype)
    impl = tensor_new.from_numpy(np.array(array))
    return impl if dtype in MASKS else copy.to_copy(impl, dtypes.int64, CPU)


def _position_list(items: Any) -> TensorImpl:
    """Nested lists as an index tensor: bool when all are bools, else int64; fractions are cut off.

    Source   torch/csrc/autograd/python_variable_indexing.cpp  sequenceToVariable
    """
    plain = _plain(items)
    sizes = tensor_new.shape_of(plain)
    numbers = tensor_new.flatten_numbers(plain, sizes)
    if numbers and tensor_new.infer_dtype(numbers) is dtypes.bool_:
        return tensor_new.tensor(plain, dtypes.bool_)
    if any(isinstance(number, complex) for number in numbers):
        raise TypeError("'complex' object cannot be interpreted as an integer")
    return tensor_new.tensor(plain, dtypes.int64)


def _plain(items: Any) -> Any:
    """Nested lists of Python numbers, tensors and arrays taken apart."""
    if isinstance(items, TensorImpl):
        return copy.values(items).tolist()
    if isinstance(items, np.ndarray):
        return items.tolist()
    if isinstance(items, list | tuple | range):
        return [_plain(item) for item in items]
    if isinstance(items, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(items).__name__}'")
    return items


def _select(self: TensorImpl, dim: int, position: int, place: int) -> TensorImpl:
    if not self.sizes:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a "
            "number"
        )
    if dim >= self.dim():
        raise IndexError(f"too many indices for tensor of dimension {self.dim()}")
    size = self.sizes[dim]
    if not -size <= position < size:
        raise IndexError(
            f"index {position} is out of bounds for dimension {place} with size {size}"
        )
    return aten.select.int(self, dim, position)


def _slice(self: TensorImpl, dim: int, item: slice) -> TensorImpl:
    start, stop, step = (_slice_bound(bound) for bound in (item.start, item.stop, item.step))
    if step is not None and step <= 0:
        reason = "slice step cannot be zero" if step == 0 else "step must be greater than zero"
        raise ValueError(f"{reason}, got {step}")
    whole = start in (None, 0) and stop is None and step in (None, 1)
    if whole and self.sizes:  # nothing to narrow, so not even the dimension is looked at
        return self
    return aten.slice.Tensor(self, dim, start, stop, 1 if step is None else step)


def _slice_bound(bound: Any) -> int | None:
    """A bound as an integer, cut to 64 bits as Python's own slices cut it."""
    if bound is None:
        return None
    if isinstance(bound, TensorImpl):
        if bound.numel() != 1 or not (bound.dtype.is_integral or bound.dtype.kind == "bool"):
            raise TypeError(
                "only integer tensors of a single element can be converted to an index, got "
                f"{bound}"
            )
        bound = int(copy.item(bound).real)
    if not hasattr(bound, "__index__"):
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method, got "
            f"{type(bound).__name__}"
        )
    return max(_INT64.min, min(int(bound.__index__()), _INT64.max))
