"""Layouts without a tensor: do they stay inside, do two elements meet; windows without copies."""

import math
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raises, Rng, Stage
from labkit.course.exercises._layout_questions import apart, drawn, is_apart, windows_that_fit
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST, TOO_SLOW

NOTEBOOK = "1_fundamentals/7_strides_views_transfers"

Ints = tuple[int, ...]
SQUARE = "is right only for square, even or contiguous shapes"
CHANGES = "returns the right value but changes one of its inputs"


# --- as_strided_guard


def _a_layout(rng: Rng, size: int) -> tuple[Ints, Ints, int, int]:
    kind = rng.random()
    if size > 3 and kind < 0.12:
        sizes, strides = _large(rng)
    elif kind < 0.4:
        sizes, strides = _dense_with_gaps(rng, size)
    else:
        rank = rng.randint(0, min(4, 1 + size // 2))
        sizes = [rng.choice((1, 1, 2, 2, 3, 4, 5)) for _ in range(rank)]
        strides = [rng.choice((0, 1, 1, 2, 3, 4, 5, 6, 7, 9)) for _ in range(rank)]
    if sizes and rng.chance(0.07):
        sizes[rng.randint(0, len(sizes) - 1)] = 0
    order = rng.sample(range(len(sizes)), len(sizes))
    offset = rng.choice((0, 0, rng.randint(0, 9)))
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    length = max(0, offset + reach + 1 + rng.choice((0, 0, -1, 1, 5, -offset, rng.randint(-9, 9))))
    return tuple(sizes[d] for d in order), tuple(strides[d] for d in order), offset, length


def _dense_with_gaps(rng: Rng, size: int) -> tuple[list[int], list[int]]:
    """No two elements meet; sometimes one axis is shortened or a stride halved, so they may."""
    sizes: list[int] = []
    strides: list[int] = []
    step = rng.choice((1, 1, 2, 3))
    for _ in range(rng.randint(1, 2 + size // 3)):
        length = rng.choice((1, 2, 3, 4))
        sizes.append(length)
        strides.append(rng.choice((0, 7, 100)) if length == 1 else step)
        step = step * length + rng.choice((0, 0, 1))
    if rng.chance(0.4):
        at = rng.randint(0, len(sizes) - 1)
        strides[at] = max(1, strides[at] - rng.choice((1, strides[at] // 2)))
    return sizes, strides


def _large(rng: Rng) -> tuple[list[int], list[int]]:
    """Large in one way or another; where only enumeration decides, at most 20,000 elements.

    No axis alone is so long that writing it out would fill the memory of a laptop.
    """
    n = rng.randint(5_000, 9_000)
    return rng.choice(
        (
            ([2**20, 2**20], [2**20, 1]),
            ([2**20, 2**20], [2**20 - 1, 1]),
            ([2**20, 2**20, 5], [1, 2**20, 2**40]),
            ([2**20, 2**20], [0, 1]),
            ([2**20, 2**20], [1, 0]),
            ([n, 2], [2, 2 * n - 3]),
            ([n, 2], [2, 2 * n - 4]),
            ([2, n], [3, 6]),
        )
    )


def _inside_and_overlap(sizes: Ints, strides: Ints, offset: int, length: int) -> tuple[bool, bool]:
    if 0 in sizes:
        return True, False
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    return offset + reach < length, _meets(sizes, strides, reach)


def _meets(sizes: Ints, strides: Ints, reach: int) -> bool:
    """Whether two elements lie in one place: three quick tests, then all places."""
    axes = sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1)
    below, numel, apart = 0, 1, True
    for stride, size in axes:
        apart = apart and stride > below
        below += (size - 1) * stride
        numel *= size
    if apart or numel > reach + 1:
        return not apart
    places = np.array([0])
    for stride, size in axes:
        places = np.add.outer(places, np.arange(size) * stride).ravel()
    return len(np.unique(places)) < len(places)


def _fewer_axes(sizes: Ints, strides: Ints, offset: int, length: int) -> Any:
    for gone in range(len(sizes)):
        yield sizes[:gone] + sizes[gone + 1 :], strides[:gone] + strides[gone + 1 :], offset, length
    if offset:
        yield sizes, strides, 0, length


def _plain(sizes: Ints, *_: Any) -> bool:
    return 0 not in sizes and 1 not in sizes


def _is_crowded(sizes: Ints, strides: Ints) -> bool:
    """More elements than places from the first to the last."""
    return math.prod(sizes) > sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1


def _is_open(sizes: Ints, strides: Ints) -> bool:
    """Neither quick test settles it."""
    return not is_apart(sizes, strides) and not _is_crowded(sizes, strides)


def _part(index: int) -> Any:
    """True where that one of the two answers is wrong."""
    return lambda e: isinstance(e.value, tuple | list) and e.value[index] != e.right[index]


as_strided_guard = Exercise(
    id="strides_views_transfers.as_strided_guard",
    rules=("Python and NumPy; no torch, no labkit",),
    case=_a_layout,
    expected=_inside_and_overlap,
    smaller=_fewer_axes,
    picture=lambda case, got, right: drawn(*case.inputs),
    rung="boss",
    stages=(
        Stage("in order", only=lambda *layout: _plain(*layout) and is_apart(*layout[:2])),
        Stage("repeated", only=lambda *layout: _plain(*layout) and _is_crowded(*layout[:2])),
        Stage("size 1", only=lambda sizes, *_: 1 in sizes and 0 not in sizes),
        Stage("empty", only=lambda sizes, *_: 0 in sizes),
        Stage("interleaved", only=lambda *layout: _plain(*layout) and _is_open(*layout[:2])),
        Stage("large", only=lambda sizes, *_: math.prod(sizes) > 4000),
        Stage("together"),
    ),
    cases=3000,
    seconds=2.0,
    sizes=8,
    minutes=25,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "An empty tensor touches nothing: it lies inside any storage, wherever it begins, and "
            "no two of its elements meet.",
            when=lambda e: 0 in e.inputs[0],
        ),
        Hint(
            "Off by one stride at the end? The last element of an axis of size n is n - 1 strides "
            "away, and the storage's last place is length - 1.",
            when=_part(0),
        ),
        Hint(
            "An axis of size 1 has no second element that could meet the first, whatever its "
            "stride.",
            when=lambda e: _part(1)(e) and 1 in e.inputs[0],
        ),
        "Too many elements to visit? With more elements than places between the first and the "
        "last, two must meet; if every stride is larger than all that the smaller ones reach "
        "together, none do.",
        Hint(
            "Two elements of {input} do meet. Write out its places: which one comes twice?",
            when=lambda e: _part(1)(e) and e.right[1],
        ),
        Hint(
            "Strides 2 and 3 interleave: 0 2 4 and 3 5 7 never meet. Sorting the strides is a "
            "quick no, and says nothing when it fails. Write out the places of {input}.",
            when=_part(1),
        ),
        "Two questions: how far is the last element, and can two indices give one sum?",
    ),
    must_fail=(
        "ignores offset",
        "multiplies sizes by strides without minus one",
        "zero-size reported out of bounds",
        "any stride 0 is overlap even for size 1",
        "sorted-stride test only (misses interleaved overlap)",
        FIRST,
        CONSTANT,
        TOO_SLOW,
    ),
)


# --- sliding_windows


def _an_image(rng: Rng, size: int) -> tuple[torch.Tensor, int, int, int]:
    window, step, dilation = rng.randint(1, 3), rng.randint(1, 3), rng.choice((1, 1, 2, 3))
    extent = dilation * (window - 1) + 1
    height, width = (max(0, extent + rng.randint(-1, 1 + 2 * size)) for _ in range(2))
    dtype = rng.choice((torch.float32, torch.uint8, torch.int64))
    image = _odd_layout(rng, height, width, dtype)
    return image, window, step, dilation


def _odd_layout(rng: Rng, height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """An image of these sizes: as it is, transposed, cut out of a larger one, or both."""
    kind = rng.randint(0, 3)
    if kind == 0:
        return rng.tensor((height, width), dtype)
    if kind == 1:
        return rng.tensor((width, height), dtype).t()
    if kind == 2:
        return rng.tensor((height + 3, 2 * width + 2), dtype)[2 : height + 2, 1 : 2 * width + 1 : 2]
    return rng.tensor((width + 1, height + 2, 3), dtype)[1:, 1 : height + 1, 1].t()


def _windows(image: torch.Tensor, window: int, step: int, dilation: int) -> Any:
    """By a loop over all windows, element by element."""
    height, width = image.shape
    extent = dilation * (window - 1) + 1
    if extent > min(height, width):
        return Raises(ValueError)
    rows, columns = range(0, height - extent + 1, step), range(0, width - extent + 1, step)
    picked = [
        image[top + dilation * i, left + dilation * j]
        for top in rows
        for left in columns
        for i in range(window)
        for j in range(window)
    ]
    stacked = torch.stack(picked).reshape(len(rows), len(columns), window, window)
    return {"windows": stacked, "a view of the image's storage": True}


def _drive_windows(answer: Any, image: torch.Tensor, *numbers: int) -> Any:
    result = answer(image, *numbers)
    shares = isinstance(result, torch.Tensor) and (
        result.untyped_storage().data_ptr() == image.untyped_storage().data_ptr()
    )
    windows = result.clone() if isinstance(result, torch.Tensor) else result
    return {"windows": windows, "a view of the image's storage": shares}


def _fits(image: torch.Tensor, window: int, step: int, dilation: int) -> bool:
    return bool(dilation * (window - 1) < min(image.shape))


def _is_plain(image: torch.Tensor) -> bool:
    return bool(image.is_contiguous() and image.storage_offset() == 0)


def _dense_fit(image: torch.Tensor, *numbers: int) -> bool:
    return _is_plain(image) and _fits(image, *numbers)


def _beside(case: Case, got: Any, right: Any) -> Any:
    """The windows, and those that were asked for, where that can be drawn small."""
    from labkit import show

    yours = got.get("windows") if isinstance(got, dict) else None
    if isinstance(right, Raises) or not isinstance(yours, torch.Tensor):
        return None
    expected = right["windows"]
    if max(yours.numel(), expected.numel()) > 128:
        return None
    return show.strides(yours, expected, names=["yours", "expected"], compare=True)


def _is_dict(evidence: Evidence) -> bool:
    return isinstance(evidence.value, dict)


def _another_number(evidence: Evidence) -> bool:
    """Whether the answer has too many or too few windows, or refuses where some fit."""
    if isinstance(evidence.right, Raises):
        return False
    if evidence.kind == "raised":
        return evidence.got.startswith("raised ValueError")
    windows = evidence.value.get("windows") if _is_dict(evidence) else None
    right = evidence.right["windows"].shape
    return isinstance(windows, torch.Tensor) and bool(
        windows.dim() == 4 and windows.shape[2:] == right[2:] and windows.shape != right
    )


sliding_windows = Exercise(
    id="strides_views_transfers.sliding_windows",
    rules=("any torch call",),
    case=_an_image,
    expected=_windows,
    drive=_drive_windows,
    picture=_beside,
    stages=(
        Stage("neighbours", only=lambda *inputs: _dense_fit(*inputs) and inputs[2:] == (1, 1)),
        Stage("step", only=lambda *inputs: _dense_fit(*inputs) and inputs[2] > 1 == inputs[3]),
        Stage("dilation", only=lambda *inputs: _dense_fit(*inputs) and inputs[3] > 1),
        Stage("any layout", only=lambda i, *n: _fits(i, *n) and not _is_plain(i)),
        Stage("none fits", only=lambda *inputs: not _fits(*inputs)),
        Stage("together"),
    ),
    cases=200,
    sizes=5,
    minutes=15,
    hints=(
        Hint(
            "No window fits: it reaches over dilation * (window - 1) + 1 places. That is a "
            "ValueError with the numbers in it, not a tensor of negative size.",
            when=lambda e: isinstance(e.right, Raises),
        ),
        Hint(
            "The storage differs: somewhere you copied (clone, contiguous, reshape, stack, or an "
            "index that is a tensor).",
            when=lambda e: _is_dict(e) and not e.value["a view of the image's storage"],
        ),
        Hint(
            "Another number of windows fits. Along an axis, one window reaches over "
            "dilation * (window - 1) + 1 places, and the next begins step places further.",
            when=_another_number,
        ),
        Hint(
            "The image has strides of its own, and perhaps an offset. Ask it: image.stride() and "
            "image.storage_offset().",
            when=lambda e: not _is_plain(e.inputs[0]),
        ),
        Hint(
            "Inside a window one step is dilation rows or columns; between windows it is step.",
            when=lambda e: e.inputs[3] > 1,
        ),
        "Two new axes reuse the two old strides.",
        "sizes (rows, columns, k, k), strides (step * sh, step * sw, dilation * sh, dilation * sw)",
    ),
    must_fail=(
        "unfold then clone",
        "ignores dilation",
        "leaves a gap behind the last number of a window",
        "wrong for non-contiguous input",
        "transposed window axes",
        CHANGES,
        FIRST,
        SQUARE,
    ),
)

EXERCISES = (windows_that_fit, apart, sliding_windows, as_strided_guard)
