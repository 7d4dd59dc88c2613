"""Random index expressions for a tensor of a known shape: every kind of item, right and wrong."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import labkit
from labkit.conformance.sides import TORCH_DTYPES
from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints

WRONG = 0.05  # the share of items that are off


@dataclass(frozen=True)
class TensorItem:
    """An index tensor, given by its numbers; both sides build their own."""

    sizes: Ints
    numbers: tuple[Any, ...]
    dtype: DType

    def __repr__(self) -> str:
        return f"m.tensor({list(self.numbers)}, dtype=m.{self.dtype.name}).reshape({self.sizes})"


@dataclass(frozen=True)
class ArrayItem:
    """A NumPy array as an index."""

    numbers: Any

    def __repr__(self) -> str:
        return f"numpy.array({self.numbers})"


def torch_item(item: Any) -> Any:
    """An item as torch takes it."""
    if isinstance(item, TensorItem):
        flat = torch.tensor(item.numbers, dtype=TORCH_DTYPES[item.dtype.name])
        return flat.reshape(item.sizes)
    return _inside(item, torch_item)


def labkit_item(item: Any) -> Any:
    """An item as labkit takes it."""
    if isinstance(item, TensorItem):
        return labkit.tensor(list(item.numbers), dtype=item.dtype).reshape(item.sizes)
    return _inside(item, labkit_item)


def _inside(item: Any, convert: Any) -> Any:
    if isinstance(item, ArrayItem):
        return np.array(item.numbers)
    if isinstance(item, tuple | list):
        return type(item)([convert(each) for each in item])
    if isinstance(item, slice):
        return slice(*[convert(each) for each in (item.start, item.stop, item.step)])
    return item


def integers(size: int, count: int, r: random.Random) -> tuple[int, ...]:
    """Positions of a dimension from either end, repetitions included; seldom one outside."""
    if size == 0:
        return tuple([r.choice((0, -1)) for _ in range(count)])
    numbers = [int(r.random() * 2 * size) - size for _ in range(count)]
    if numbers and r.random() < WRONG:
        numbers[0] = r.choice((size, -size - 1, size + 3))
    return tuple(numbers)


def a_slice(size: int, r: random.Random) -> slice:
    """A slice with bounds often outside, seldom with a step of zero or below."""
    start, stop = (r.choice((None, None, r.randrange(-2 * size - 1, 2 * size + 2))) for _ in "ab")
    wrong_step = r.random() < WRONG / 3
    step: int | None = r.choice((0, -1)) if wrong_step else r.choice((None, None, 1, 2, 3))
    if r.random() < 0.03 and step != 0:
        return slice(TensorItem((), (start or 0,), dtypes.int64), stop, step)
    return slice(start, stop, step)


def _count(sizes: Ints) -> int:
    return int(np.prod(sizes)) if sizes else 1


class Expression:
    """One random index for `sizes`; `broadcast` is the shape its index tensors share."""

    def __init__(self, sizes: Ints, r: random.Random) -> None:
        self.sizes = sizes
        self.r = r
        self.broadcast: Ints = r.choice(((2,), (3,), (1,), (2, 2), (0,), (3, 1), (2, 3), (1, 1)))

    def item(self) -> Any:
        """What stands between the brackets."""
        r = self.r
        if r.random() < 0.12:
            return self._single()
        items: list[Any] = []
        dim = 0
        ellipsis_at = r.randrange(len(self.sizes) + 1) if r.random() < 0.2 else -1
        stop_at = len(self.sizes) if r.random() < 0.6 else r.randrange(len(self.sizes) + 1)
        gathers = r.random() < 0.7
        while dim < stop_at or r.random() < WRONG / 2:
            if dim >= ellipsis_at >= 0:
                items.append(Ellipsis)
                dim = max(dim, min(stop_at, dim + r.randrange(3)))
                ellipsis_at = -1
                if r.random() < 0.3:
                    break
                continue
            dim += self._one(items, dim, gathers)
        if len(items) == 1 and r.random() < 0.5:
            return items[0]
        if r.random() < 0.05 and len(items) < 4:
            return list(items)
        return tuple(items)

    def _one(self, items: list[Any], dim: int, gathers: bool) -> int:
        """Append one item; how many dimensions it uses up."""
        r = self.r
        size = self.sizes[dim] if dim < len(self.sizes) else 1
        kind = r.random()
        if kind < 0.08:
            items.append(None)
            return 0
        if kind < 0.11:
            items.append(r.random() < 0.7)
            return 0
        if kind < 0.3:
            items.append(self._integer(size))
            return 1
        if kind < 0.55 or not gathers:
            items.append(a_slice(size, r) if dim < len(self.sizes) else slice(None))
            return 1
        if kind < 0.7 and dim + 2 <= len(self.sizes) and r.random() < 0.3:
            items.append(self._mask(self.sizes[dim : dim + 2]))
            return 2
        if kind < 0.68:
            items.append(self._mask((size,)))
            return 1
        items.append(self._gather(size))
        return 1

    def _integer(self, size: int) -> Any:
        r = self.r
        number = integers(size, 1, r)[0]
        if r.random() < 0.15:
            dtype = r.choice((dtypes.int64, dtypes.int64, dtypes.int32, dtypes.int8))
            return TensorItem((), (number,), dtype)
        if r.random() < 0.02:
            return TensorItem((), (number & 1,), r.choice((dtypes.bool_, dtypes.uint8)))
        return number

    def _mask(self, sizes: Ints) -> Any:
        r = self.r
        if sizes and r.random() < WRONG:
            sizes = (sizes[0] + 1, *sizes[1:])
        share = r.choice((0.0, 0.5, 0.5, 1.0))
        numbers = tuple([r.random() < share for _ in range(_count(sizes))])
        if numbers and r.random() < 0.2:
            nested = np.array(numbers).reshape(sizes).tolist()
            return nested if r.random() < 0.5 else ArrayItem(nested)
        if r.random() < 0.1:
            return TensorItem(sizes, tuple(map(int, numbers)), dtypes.uint8)
        return TensorItem(sizes, numbers, dtypes.bool_)

    def _gather(self, size: int) -> Any:
        """Positions in a tensor, a list, an array or a range, broadcasting with the others."""
        r = self.r
        sizes = self.broadcast
        if r.random() < 0.3:  # fewer dimensions, or ones: still broadcasts
            sizes = sizes[r.randrange(len(sizes) + 1) :] or (1,)
            sizes = tuple([1 if r.random() < 0.4 else each for each in sizes])
        if r.random() < WRONG:
            sizes = (4,)
        numbers = integers(size, _count(sizes), r)
        kind = r.random()
        if kind < 0.55:
            dtype = r.choice((dtypes.int64,) * 6 + (dtypes.int32,))
            if r.random() < WRONG / 3:
                dtype = r.choice((dtypes.int16, dtypes.float32, dtypes.uint64))
                numbers = tuple(map(abs, numbers))
            return TensorItem(sizes, numbers, dtype)
        nested = np.array(numbers, np.int64).reshape(sizes).tolist()
        if kind < 0.7:
            return ArrayItem(nested)
        if kind < 0.73 and size:
            return range(min(size, 3))
        if kind < 0.75 and len(sizes) == 1 and numbers:
            return [float(numbers[0]) + 0.5, *numbers[1:]]
        return nested

    def _single(self) -> Any:
        """A lone item: what the fast paths of the real one are for, and what it refuses."""
        r = self.r
        size = self.sizes[0] if self.sizes else 1
        if r.random() < 0.15:
            return r.choice((1.5, "a", {}, 1j, 2**70, [1j], ["a"], [2**70], slice(1.5), b"x"))
        return r.choice((
            None, Ellipsis, True, False, (), [], [[]], a_slice(size, r), self._integer(size),
            self._mask(self.sizes), self._mask(self.sizes) if self.sizes else True,
            [[0, 0], [0, 0]], [0] * 33, [[0]] * 33, (Ellipsis, Ellipsis),
            TensorItem((), (r.random() < 0.5,), dtypes.bool_), [slice(None), 0], [None, [0]],
        ))  # fmt: skip


def value_shape(result: Sequence[int], r: random.Random) -> Ints:
    """A shape that broadcasts to the result, with ones in front at times; seldom one that does not.

    result  the sizes of the read expression
    """
    sizes = [1 if r.random() < 0.2 else size for size in result]
    sizes = sizes[r.randrange(len(sizes) + 1) :] if r.random() < 0.3 else sizes
    if r.random() < 0.1:
        sizes = [1] * r.randrange(3) + sizes
    if sizes and r.random() < WRONG:
        sizes[-1] += 1
    return tuple(sizes)
