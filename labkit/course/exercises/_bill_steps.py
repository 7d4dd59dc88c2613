"""The three bills of a block: its products, its wide images in bytes, what an output sees."""

import math
from typing import Any

import numpy as np

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

# --- block_products


def _a_square(rng: Rng, size: int) -> tuple[int, ...]:
    return (rng.randint(1, 9), 1 + size, rng.randint(1, 6), rng.choice((1, 3, 5)))


def _block_products(channels: int, size: int, ratio: int, taps: int) -> int:
    wide = channels * ratio
    return size * size * (channels * wide + wide * taps * taps + wide * channels)


def _product_counts(e: Any, **other: int) -> int:
    """The right count where one of these differs: depthwise channels, taps, places."""
    channels, size, ratio, taps = e.inputs
    wide = channels * ratio
    middle = wide * other.get("reads", 1) * other.get("taps", taps * taps)
    return int(other.get("places", size * size) * (2 * channels * wide + middle))


block_products = Exercise(
    id="inverted_bottleneck.block_products",
    case=_a_square,
    expected=_block_products,
    rung="warm-up",
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("In the middle each filter reads one channel, not all wide ones.",
             when=lambda e: e.value == _product_counts(e, reads=e.inputs[0] * e.inputs[2])),
        Hint("A filter of taps x taps multiplies taps * taps times in each place.",
             when=lambda e: e.value == _product_counts(e, taps=e.inputs[3])),
        Hint("An image has size * size places.",
             when=lambda e: e.value in (
                 _product_counts(e, places=e.inputs[1]), _product_counts(e, places=1))),
        Hint("There are three convolutions: one is missing.",
             when=lambda e: e.value in _without_one(e)),
        "A 1x1 convolution multiplies each input channel with each output channel, in each place.",
        "size * size * (channels * wide + wide * taps * taps + wide * channels), and wide is "
        "channels * ratio.",
    ),
    must_fail=("takes the middle for an ordinary convolution", "forgets a side of the filter",
               "counts one place", "counts one row of places", "leaves the last convolution out",
               "leaves the middle out", "takes every ratio for 6"),
)  # fmt: skip


def _without_one(e: Any) -> tuple[int, int]:
    """The count without the first or the last convolution, and without the middle one."""
    channels, size, ratio, taps = e.inputs
    wide, places = channels * ratio, size * size
    return places * (channels * wide + wide * taps * taps), places * 2 * channels * wide


# --- wide_bytes


def _a_block(rng: Rng, size: int) -> tuple[int, ...]:
    return (rng.randint(1, 4), rng.randint(1, 6), 1 + size, rng.randint(1, 6), rng.choice((1, 2)))


def _wide_bytes(batch: int, channels: int, size: int, ratio: int, stride: int) -> int:
    return 4 * batch * channels * ratio * (3 * size**2 + 4 * math.ceil(size / stride) ** 2)


def _rounded_down(e: Any) -> bool:
    batch, channels, size, ratio, stride = e.inputs
    down = 4 * batch * channels * ratio * (3 * size**2 + 4 * (size // stride) ** 2)
    return bool(e.value == down)


def _is(*factors: float) -> Any:
    return lambda e: isinstance(e.value, int) and any(e.value * f == e.right for f in factors)


def _divides_otherwise(e: Any) -> bool:
    """Whether the stride leaves the images alone, divides one side, or both at once."""
    batch, channels, size, ratio, stride = e.inputs
    after = -(-size // stride)
    areas = (size**2, size * after, -(-(size**2) // stride**2), -(-(size**2) // stride))
    return e.value in [4 * batch * channels * ratio * (3 * size**2 + 4 * area) for area in areas]


def _three_behind(e: Any) -> bool:
    batch, channels, size, ratio, stride = e.inputs
    each = 4 * batch * channels * ratio
    return bool(e.value == each * (4 * size**2 + 3 * math.ceil(size / stride) ** 2))


def _other_ratio(e: Any) -> bool:
    return any(e.value * e.inputs[3] == e.right * assumed for assumed in (1, 6))


wide_bytes = Exercise(
    id="inverted_bottleneck.wide_bytes",
    case=_a_block,
    expected=_wide_bytes,
    rung="warm-up",
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The number is right. Bytes are counted, so return an int.",
             when=lambda e: e.value == e.right),
        Hint("{got} counts numbers. Each takes four bytes.", when=_is(4)),
        Hint("This is size / stride rounded down. Three places in steps of two are two: round up.",
             when=_rounded_down),
        Hint("The stride divides the height and the width.", when=_divides_otherwise),
        Hint("Three lie before the stride and four behind it; here it is the other way round.",
             when=_three_behind),
        Hint("A wide image has batch * channels * ratio * height * width numbers.",
             when=_other_ratio),
        "Three images of size * size, and four of ceil(size / stride) squared.",
    ),
    must_fail=("counts numbers", "rounds down", "takes all seven at the full size",
               "divides the width alone", "forgets the ratio",
               "puts four before the stride", "takes every stride for 2", "returns a float"),
)  # fmt: skip


# --- receptive_field


def _trunk(rng: Rng, size: int) -> tuple[list[Any]]:
    return (_windows(rng, size, stride=2, dilation=2, padding=2, pairs=0.4),)


def _windows(
    rng: Rng, size: int, stride: int = 1, dilation: int = 1, padding: int = 0, pairs: float = 0.0
) -> list[Any]:
    made: list[Any] = []
    for _ in range(size):
        step = rng.randint(1, stride)
        window = (rng.randint(1, 5), step, rng.randint(0, padding), rng.randint(1, dilation))
        made.append(_pair(rng, window, dilation) if rng.chance(pairs) else window)
    return made


def _pair(rng: Rng, window: tuple[int, ...], dilation: int) -> list[Any]:
    """Two branches of one stride: one may be empty, either may see more."""
    step = window[1]
    around: list[Any] = [] if step == 1 else [(1, step, 0, 1)]
    if rng.chance(0.5):
        around = [(rng.randint(2, 9), step, rng.randint(0, 4), dilation)]
    branches = [[window, (3, 1, 1, 1)], around]
    rng.shuffle(branches)
    return branches


def _seen(windows: list[Any]) -> tuple[int, int, int]:
    from labkit.vision import Branches, Window, receptive_field  # wanted after the answer ran

    def trunk(parts: list[Any]) -> list[Any]:
        return [
            Branches(*map(trunk, part)) if isinstance(part, list) else Window(*part)
            for part in parts
        ]

    return tuple(receptive_field(trunk(windows)))  # type: ignore[return-value]


def _field_picture(case: Any, got: Any, right: Any) -> Any:
    """The inputs around output 0, those it sees, and those that the answer says it sees."""
    from labkit import show

    low, high, _ = right
    fields = {"right": (low, high)}
    if isinstance(got, tuple) and len(got) == 3 and all(isinstance(n, int) for n in got):
        fields["yours"] = got[:2]
    first = max(-60, min(one for one, _ in fields.values()) - 1)
    last = min(60, max(one for _, one in fields.values()) + 1)
    places = np.arange(first, last + 1)[None]
    return show.tiles(
        places, {name: (places >= a) & (places <= b) for name, (a, b) in fields.items()},
        title="inputs that output 0 sees", at=1,
    )  # fmt: skip


def _forgets(e: Any) -> bool:
    """Whether the answer is what the last pair and the windows behind it see by themselves."""
    (windows,) = e.inputs
    pairs = [at for at, one in enumerate(windows) if isinstance(one, list)]
    return bool(pairs and pairs[-1] > 0 and e.value == _seen(windows[pairs[-1] :]))


def _length(e: Any) -> bool:
    low, high, _ = e.value
    return bool(high - low == e.right[1] - e.right[0])


receptive_field = Exercise(
    id="inverted_bottleneck.receptive_field",
    case=_trunk,
    expected=_seen,
    stages=(
        Stage("taps", case=lambda rng, size: (_windows(rng, size),)),
        Stage("strides", case=lambda rng, size: (_windows(rng, size, stride=3),)),
        Stage("padding", case=lambda rng, size: (_windows(rng, size, stride=2, padding=2),)),
        Stage("dilation",
              case=lambda rng, size: (_windows(rng, size, stride=2, padding=2, dilation=3),)),
        Stage("pairs"),
    ),
    cases=80,
    sizes=5,
    minutes=15,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The answer is a tuple of three numbers.",
             when=lambda e: (
                 e.kind != "raised" and not (isinstance(e.value, tuple) and len(e.value) == 3))),
        Hint("A way may be an empty list: it sees what was seen before the pair.",
             when=lambda e: e.kind == "raised" and "[]" in e.input, stage="pairs"),
        Hint("What lies before a pair is forgotten: both ways begin from the low, the high and the "
             "step seen so far.", when=_forgets, stage="pairs"),
        Hint("Your third number is the product of all strides. A pair counts once.",
             when=lambda e: e.value[2] != e.right[2]),
        Hint("Your field is as long as it should be, and begins elsewhere: that is the padding.",
             when=_length),
        Hint("Way by way: each begins from the low, the high and the step before the pair. "
             "Then the smaller low and the larger high.", stage="pairs"),
        Hint("Neighbouring taps lie step inputs apart. step grows after the window has used it.",
             stage="strides"),
        "low falls by padding * step, high grows by ((taps - 1) * dilation - padding) * step.",
    ),
    must_fail=(
        "adds kernels without strides", "ignores dilation", "ignores the other branch",
        "is off by one for even kernels", "ignores padding", "takes the stride too early",
        "runs the branches one after the other", "leaves an empty branch out",
        "forgets what lies before a pair",
    ),
    picture=_field_picture,
)  # fmt: skip
