"""The small steps on layouts: how many windows fit, and when sorted strides keep elements apart."""

import math
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Ints = tuple[int, ...]
MOST_DRAWN = 48


def drawn(sizes: Ints, strides: Ints, offset: int, length: int) -> Any:
    """The layout over a storage of this length, red where it leaves it; None where it is large."""
    from labkit import show

    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if not 0 < length <= MOST_DRAWN or offset + reach > MOST_DRAWN or math.prod(sizes) > MOST_DRAWN:
        return None
    storage = torch.arange(length)
    widget = show.strides(storage, storage[:1], names=["storage", "view"])
    widget.edit("view", sizes, strides, offset)
    return widget


def _a_strip(rng: Rng, size: int) -> tuple[int, int, int]:
    window = rng.randint(1, 2 + size)
    return rng.randint(0, 3 + 4 * size), window, rng.randint(1, 2 + size)


def _windows(length: int, window: int, step: int) -> int:
    return len(range(0, length - window + 1, step))


def _strip_drawn(case: Any, got: Any, right: Any) -> Any:
    length, window, step = case.inputs
    count = got if isinstance(got, int) and 0 <= got < 12 else right
    return drawn((count, window), (step, 1), 0, length)


windows_that_fit = Exercise(
    id="strides_views_transfers.windows_that_fit",
    case=_a_strip,
    expected=_windows,
    picture=_strip_drawn,
    rung="warm-up",
    cases=200,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The window is longer than the strip: not one fits, so the answer is 0.",
            when=lambda e: e.inputs[1] > e.inputs[0],
        ),
        Hint(
            "One too few. The first window starts at place 0 and takes no step.",
            when=lambda e: isinstance(e.value, int) and e.value == e.right - 1,
        ),
        Hint(
            "You count a window at every place, or one that hangs over the end. The next one "
            "starts `step` places further, and all of it lies inside.",
            when=lambda e: e.value == e.inputs[0] - e.inputs[1] + 1,
        ),
        Hint(
            "The last window has to end inside, not only to begin there.",
            when=lambda e: isinstance(e.value, int) and e.value > e.right,
        ),
        "The last window may begin at length - window at the latest. How many steps go there?",
    ),
    must_fail=(
        "forgets the window at place 0",
        "lets the last window hang over the end",
        "is negative where none fits",
        "ignores the step",
    ),
)


def is_apart(sizes: Ints, strides: Ints) -> bool:
    """Every stride is larger than all that the smaller ones reach together."""
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= reach:
            return False
        reach += (size - 1) * stride
    return True


def _a_layout(rng: Rng, size: int) -> tuple[Ints, Ints]:
    """Sometimes apart, sometimes just not, sometimes interleaved, in any order of dimensions."""
    if rng.chance(0.15):
        return (rng.randint(3, 5), 2), (2, rng.choice((3, 5)))
    sizes, strides, step = [], [], 1
    for _ in range(rng.randint(1, 2 + size // 2)):
        length = rng.choice((1, 2, 2, 3, 4))
        sizes.append(length)
        strides.append(rng.choice((0, 1, 50)) if length == 1 else step)
        step = rng.choice((step * length, step * length, _reach(sizes, strides) + 1, step))
    if rng.chance(0.4):
        at = rng.randint(0, len(sizes) - 1)
        strides[at] = max(0, strides[at] - 1)
    order = rng.sample(range(len(sizes)), len(sizes))
    return tuple(sizes[d] for d in order), tuple(strides[d] for d in order)


def _reach(sizes: list[int], strides: list[int]) -> int:
    """The place of the last element, from the first."""
    return sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def _layout_drawn(case: Any, got: Any, right: Any) -> Any:
    sizes, strides = case.inputs
    return drawn(sizes, strides, 0, _reach(list(sizes), list(strides)) + 1)


def _denied_for_a_one(evidence: Evidence) -> bool:
    one_without_step = (1, 0) in zip(*evidence.inputs, strict=True)
    return evidence.value is False and one_without_step


def _steps_nowhere(evidence: Evidence) -> bool:
    layout = zip(*evidence.inputs, strict=True)
    return evidence.value is True and any(n > 1 and not stride for n, stride in layout)


def _one_step_too_far(evidence: Evidence) -> bool:
    """A False where only n * stride is in the way of the next stride, from small to large."""
    layout = [(stride, n) for n, stride in zip(*evidence.inputs, strict=True) if n > 1]
    reaches = [0, *(stride * n for stride, n in layout)]
    too_far = any(stride <= far for (stride, _), far in zip(layout, reaches, strict=False))
    return evidence.value is False and layout == sorted(layout) and too_far


apart = Exercise(
    id="strides_views_transfers.apart",
    case=_a_layout,
    expected=is_apart,
    picture=_layout_drawn,
    rung="warm-up",
    cases=300,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A dimension of size 1 takes no step, so nobody asks for its stride.",
            when=_denied_for_a_one,
        ),
        Hint(
            "A stride of 0 shows one place again and again: the smallest stride has to be larger "
            "than 0.",
            when=_steps_nowhere,
        ),
        Hint(
            "The strides stand in order here: begin at the left. A dimension of n elements reaches "
            "(n - 1) * stride from its first to its last, not n * stride.",
            when=_one_step_too_far,
        ),
        Hint(
            "You say True. Add up what all smaller strides reach, each (size - 1) * stride. A "
            "stride that is not larger than that sum settles nothing.",
            when=lambda e: e.value is True,
        ),
        Hint(
            "You say False. Did you sort the dimensions by their stride first?",
            when=lambda e: e.value is False,
        ),
        "sorted(zip(strides, sizes)) goes from the smallest stride to the largest.",
    ),
    must_fail=(
        "keeps the dimensions in their own order",
        "asks dimensions of size 1 for their stride",
        "lets a stride be equal to what the smaller ones reach",
        "looks at the neighbour alone",
        "takes size * stride for the reach",
        "lets the smallest stride be 0",
        "says whether two elements meet",
    ),
)
