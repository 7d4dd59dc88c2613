"""Indexing: views as arithmetic, shapes of gathers, attention masks, and where NumPy parts."""

import math
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Case, Exercise, Hint, Raises, Rng, Stage
from labkit.course.exercises._attention_masks import causal_mask_adapter
from labkit.course.exercises._index_kinds import kind
from labkit.course.exercises._layout_pictures import layouts_drawn
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.course.exercises._numpy_twin import numpy_twin

NOTEBOOK = "1_fundamentals/4_indexing"

Meta = tuple[tuple[int, ...], tuple[int, ...], int]


# --- basic_index


def _meta(rng: Rng, size: int) -> Meta:
    """Sizes, strides and offset of a view: packed, permuted, stretched or with gaps."""
    rank = 0 if rng.chance(0.08) else rng.randint(1, 1 + min(3, size // 2))
    smallest = 0 if rng.chance(0.15) else 1
    sizes = tuple(rng.randint(smallest, 5) for _ in range(rank))
    strides, step = [0] * len(sizes), 1
    for dim in rng.sample(range(len(sizes)), len(sizes)):
        strides[dim] = 0 if rng.chance(0.08) else step
        step *= max(sizes[dim], 1) + (rng.randint(1, 2) if rng.chance(0.3) else 0)
    return sizes, tuple(strides), rng.choice((0, 0, 1, rng.randint(0, 40)))


def _bound(rng: Rng, length: int) -> int | None:
    return None if rng.chance(0.35) else rng.randint(-length - 2, length + 2)


def _basic_item(rng: Rng, length: int) -> int | slice:
    if rng.chance(0.4):
        far = 1 if rng.chance(0.2) else 0
        return rng.randint(-length - far, length - 1 + far) if length else rng.choice((0, -1))
    step = rng.choice((0, -1, -2)) if rng.chance(0.03) else rng.choice((None, 1, 2, 2, 3))
    return slice(_bound(rng, length), _bound(rng, length), step)


def _some_items(rng: Rng, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Items for some of the axes: from the left, or from both ends around one Ellipsis."""
    left = rng.choice((rng.randint(0, len(sizes)), len(sizes)))
    items: list[Any] = [_basic_item(rng, length) for length in sizes[:left]]
    if rng.chance(0.35):
        left = rng.randint(0, left)
        right = rng.randint(left, len(sizes))
        items[left:] = [Ellipsis, *(_basic_item(rng, length) for length in sizes[right:])]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        items.insert(rng.randint(0, len(items)), None)
    if rng.chance(0.04):
        items += [slice(None, 1)] * (len(sizes) + 1)
    return tuple(items)


def _basic_case(rng: Rng, size: int) -> tuple[Any, ...]:
    meta = _meta(rng, size)
    return (*meta, _some_items(rng, meta[0]))


def _basic(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> Any:
    """What torch makes of it, on a tensor without elements to read."""
    base = torch.empty(0, device="meta").as_strided(sizes, strides, offset)
    try:
        view = base[index]
    except (IndexError, ValueError) as error:
        return Raises(type(error))
    return tuple(view.shape), view.stride(), view.storage_offset()


def _shorter_index(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> Any:
    for at, item in enumerate(index):
        yield sizes, strides, offset, index[:at] + index[at + 1 :]
        if isinstance(item, slice):
            for simpler in (slice(None), slice(item.start, None), slice(None, None, item.step)):
                if simpler != item:
                    yield sizes, strides, offset, (*index[:at], simpler, *index[at + 1 :])
    for dim in range(len(sizes)):
        yield sizes[:dim] + sizes[dim + 1 :], strides[:dim] + strides[dim + 1 :], offset, index
    if offset:
        yield sizes, strides, 0, index


def _shown_index(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> str:
    return (
        f"sizes {sizes}, strides {strides}, offset {offset}, "
        f"index [{', '.join(map(_shown_item, index)) or '()'}]"
    )


def _shown_item(item: Any) -> str:
    if item is Ellipsis:
        return "..."
    if not isinstance(item, slice):
        return str(item)
    start, stop = ("" if bound is None else str(bound) for bound in (item.start, item.stop))
    return f"{start}:{stop}" + ("" if item.step is None else f":{item.step}")


def _index_of(evidence: Any) -> tuple[Any, ...]:
    return evidence.inputs[3] if evidence.inputs else ()


def _only_offset(evidence: Any) -> bool:
    got, right = evidence.value, evidence.right
    return tuple(map(tuple, got[:2])) == tuple(map(tuple, right[:2])) and got[2] != right[2]


def _drops_what_is_left(evidence: Any) -> bool:
    """Are dimensions missing that no item spoke of?"""
    named = len(_index_of(evidence))
    kept = len(evidence.inputs[0]) - named
    return Ellipsis not in _index_of(evidence) and len(evidence.value[0]) == (
        len(evidence.right[0]) - kept
    ) < len(evidence.right[0])


def _only_strides(evidence: Any) -> bool:
    got, right = evidence.value, evidence.right
    return got[::2] == right[::2] and got[1] != right[1] and None not in _index_of(evidence)


def _only(*kinds: type) -> Any:
    """Whether an index holds items of these kinds alone, one of the last kind among them."""

    def fits(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> bool:
        return all(isinstance(item, kinds) for item in index) and any(
            isinstance(item, kinds[-1]) for item in index
        )

    return fits


def _two_views(case: Case, got: Any, right: Any) -> Any:
    """The view that the answer describes beside the right one; one alone where the other raises."""
    sizes, strides, offset, _ = case.inputs
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    told = {"yours": got, "right": right}
    layouts = {name: layout for name, layout in told.items() if isinstance(layout, tuple)}
    return layouts_drawn(max(1, offset + 1 + reach), layouts)


basic_index = Exercise(
    id="indexing.basic_index",
    rules=("pure arithmetic: no torch, no NumPy, no labkit",),
    case=_basic_case,
    expected=_basic,
    smaller=_shorter_index,
    show=_shown_index,
    picture=_two_views,
    cases=400,
    sizes=6,
    minutes=15,
    stages=(
        Stage("integers", only=_only(int)),
        Stage("slices", only=_only(int, slice)),
        Stage("...", only=_only(int, slice, type(Ellipsis))),
        Stage("None and errors"),
    ),
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "Sizes and strides agree, the offset does not: look at negative starts, and at starts "
            "beyond the end, which are cut off at the size.",
            when=_only_offset,
        ),
        Hint(
            "The index has fewer items than the tensor has dimensions. Those that are left over "
            "stay as they are, at the end.",
            when=_drops_what_is_left,
        ),
        Hint(
            "Sizes and offset agree, the strides do not: a step of a slice multiplies the stride.",
            when=_only_strides,
        ),
        Hint(
            "An integer outside is refused, not cut off as the bounds of a slice are: an axis of "
            "size n takes -n to n - 1. Too many items are refused, too.",
            when=lambda evidence: (
                isinstance(evidence.right, Raises)
                and evidence.right.kind is IndexError
                and evidence.kind != "raised"
            ),
        ),
        Hint(
            "Expected: {expected}. Count the items that use up an axis first (too many is an "
            "IndexError), then work them off from left to right: the first that is wrong decides.",
            when=lambda evidence: isinstance(evidence.right, Raises) or evidence.kind == "raised",
        ),
        Hint(
            "The index holds an Ellipsis. It stands for as many whole axes as the other items "
            "leave over: none, one or several. None uses up no axis.",
            when=lambda evidence: Ellipsis in _index_of(evidence),
        ),
        Hint(
            "The index holds a None. Its stride is made from the axis that comes next, before the "
            "items after it act on that axis. At the end, where none comes, it is 1.",
            when=lambda evidence: None in _index_of(evidence),
        ),
        "Normalise the slice against the size before using it.",
        "offset += start*stride, size = ceil((stop-start)/step) and never below 0, stride *= step. "
        "Python's slice.indices(size) does the clamping.",
    ),
    must_fail=(
        "treats Ellipsis as one colon",
        "clamps out-of-range integers",
        "forgets negative starts",
        "step changes stride but not size",
        "step changes size but not stride",
        "forgets the dimensions without an item",
        "None gets stride 0",
        "is right only for square, even or contiguous shapes",
        FIRST,
        "catches every exception and returns a default",
    ),
)


# --- advanced_shape

Item = int | slice | tuple[Any, ...]
PATTERNS = ("isa", "asa", "sisa", "sasa", "sasa", "siasa", "sasi", "saia", "isia", "saa", "iasa")
"""Where torch or NumPy may move the gathered axes: a array, i integer, s slice."""


def _gathered(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of an index array that mostly broadcasts against `shape`."""
    cut = shape[rng.randint(0, len(shape)) :] or shape
    return tuple(1 if rng.chance(0.25) else 5 if rng.chance(0.04) else n for n in cut)


def _array_item(rng: Rng, sizes: tuple[int, ...], common: tuple[int, ...]) -> Item:
    """A list, or a mask over the first one or two of `sizes`."""
    if rng.chance(0.65):
        return ("list", _gathered(rng, common))
    over = sizes[: rng.randint(1, min(2, len(sizes)))]
    wanted = common[-1] if rng.chance(0.75) else rng.choice((0, 1, 2))
    return ("mask", over, min(wanted, math.prod(over)))


def _mix(rng: Rng, size: int) -> tuple[tuple[int, ...], tuple[Item, ...]]:
    kinds = list(rng.choice(PATTERNS)) if rng.chance(0.6) else []
    rank = len(kinds) + rng.randint(0 if kinds else 1, 1 + size // 2)
    sizes = tuple(rng.randint(1, 4) for _ in range(rank))
    common = tuple(rng.randint(1, 3) for _ in range(rng.choice((1, 1, 2))))
    items: list[Item] = []
    rest = sizes
    while rest and (kinds or not rng.chance(0.1)):
        kind = kinds.pop(0) if kinds else rng.choice("iissaaa")
        if kind == "i":
            items.append(rng.randint(-rest[0], rest[0] - 1))
        elif kind == "s":
            items.append(slice(rng.choice((None, None, 1)), rng.choice((None, -1)), None))
        else:
            items.append(_array_item(rng, rest, common))
        rest = rest[_axes_used(items[-1]) :]
    return sizes, tuple(items)


def _axes_used(item: Item) -> int:
    return len(item[1]) if isinstance(item, tuple) and item[0] == "mask" else 1


def _real_item(item: Item) -> Any:
    """An item as NumPy takes it; positions are all 0."""
    if not isinstance(item, tuple):
        return item
    if item[0] == "list":
        return np.zeros(item[1], np.int64)
    mask = np.zeros(item[1], bool)
    mask.flat[: item[2]] = True
    return mask


def _both_shapes(sizes: tuple[int, ...], index: tuple[Item, ...]) -> Any:
    """(torch's shape, NumPy's shape) of the result, from real reads."""
    array = np.zeros(sizes, np.int8)
    items = tuple(_real_item(item) for item in index)
    try:
        theirs = torch.from_numpy(array)[
            tuple(torch.from_numpy(i) if isinstance(i, np.ndarray) else i for i in items)
        ]
    except IndexError:
        return Raises(IndexError)
    return tuple(theirs.shape), array[items].shape


def _fewer_items(sizes: tuple[int, ...], index: tuple[Item, ...]) -> Any:
    if index:
        yield sizes, index[:-1]
    if sum(map(_axes_used, index)) < len(sizes):
        yield sizes[:-1], index
    for at, item in enumerate(index):
        if isinstance(item, tuple) and item[0] == "list" and item[1] != (1,):
            yield sizes, (*index[:at], ("list", item[1][1:] or (1,)), *index[at + 1 :])


def _shown_mix(sizes: tuple[int, ...], index: tuple[Item, ...]) -> str:
    return f"sizes {sizes}, index [{', '.join(map(_shown_item, index)) or '()'}]"


def _items(evidence: Any) -> tuple[Any, ...]:
    return evidence.inputs[1] if evidence.inputs else ()


def _has(evidence: Any, kind: str) -> bool:
    return any(isinstance(item, tuple) and item[0] == kind for item in _items(evidence))


def _sides_differ(evidence: Any) -> bool:
    return not isinstance(evidence.right, Raises) and evidence.right[0] != evidence.right[1]


def _without(*kinds: Any) -> Any:
    """Whether an index holds a list, none of these, and arrays that fit each other."""

    def fits(sizes: tuple[int, ...], index: tuple[Item, ...]) -> bool:
        names = [item[0] if isinstance(item, tuple) else type(item) for item in index]
        usual = "list" in names and not any(kind in names for kind in kinds)
        return usual and not isinstance(_both_shapes(sizes, index), Raises)

    return fits


advanced_shape = Exercise(
    id="indexing.advanced_shape",
    rules=("predict, do not run: no torch, no NumPy, no labkit",),
    case=_mix,
    expected=_both_shapes,
    smaller=_fewer_items,
    show=_shown_mix,
    cases=400,
    sizes=6,
    minutes=15,
    stages=(
        Stage("no integers", only=_without(int, "mask")),
        Stage("integers", only=_without("mask")),
        Stage("masks and errors"),
    ),
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "torch and NumPy differ here: {expected}. torch takes integers away before it looks "
            "for gathered axes. For NumPy an integer beside a list is one more index array.",
            when=_sides_differ,
        ),
        Hint(
            "A mask of rank r uses up r axes and yields one, as long as its number of Trues; that "
            "one then broadcasts like any other index array.",
            when=lambda evidence: _has(evidence, "mask"),
        ),
        Hint(
            "Expected: {expected}. The index arrays are broadcast against each other, from the "
            "right; a size other than 1 must be the same in all of them.",
            when=lambda evidence: isinstance(evidence.right, Raises) or evidence.kind == "raised",
        ),
        "Are the advanced indices adjacent in torch's sense? Side by side: the gathered axes stay "
        "in their place. Separated by a slice: they go to the front.",
        "Keep a list of what each remaining axis is, kept (its length) or gathered, once without "
        "the integers for torch and once with them for NumPy. Without any list or mask nothing "
        "is gathered.",
    ),
    must_fail=(
        "always puts gathered axes first",
        "always leaves them in place",
        "treats a mask as one axis whatever its rank",
        "ignores broadcasting between index arrays",
        CONSTANT,
        FIRST,
        READS,
    ),
)

EXERCISES = (kind, basic_index, advanced_shape, causal_mask_adapter, numpy_twin)
