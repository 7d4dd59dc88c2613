"""The warm-ups of mixed precision: a step that is lost, and the largest scale that fits."""

import math
from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

LARGEST = 65504.0


def _half(number: float) -> float:
    return float(torch.tensor(number, dtype=torch.float64).to(torch.float16))


def _weight_and_step(rng: Rng, size: int) -> tuple[float, float]:
    """A power of two or a number that is no half, and a step of a part of the gap, often a half.

    Or the step is no half: a bit more or less than half the gap, which rounds to just that.
    """
    power = rng.randint(-6, 6) if rng.chance(0.4) else rng.uniform(-6, 6)
    weight = rng.choice((-1, 1)) * 2.0**power
    if rng.chance(0.5):
        weight = _half(weight)
    if rng.chance(0.2):
        step = rng.choice((-1, 1)) * _gap(weight) * rng.choice((0.4999, 0.5001))
        return _half(weight), step
    return weight, _step(rng, _gap(weight))


def _gap(weight: float) -> float:
    """From the weight, as a half, to the next half away from 0."""
    return 2.0 ** (math.floor(math.log2(abs(_half(weight)))) - 10)


def _from_one(rng: Rng, size: int) -> tuple[float, float]:
    return 1.0, _step(rng, 2.0**-10)


def _step(rng: Rng, gap: float) -> float:
    return _half(rng.choice((-1, 1)) * gap * rng.choice((0.05, 0.3, 0.4, 0.5, 0.7, 1.5, 6.0)))


def _down_from_a_power_of_two(weight: float, step: float) -> bool:
    return abs(math.frexp(weight)[0]) == 0.5 and weight * step < 0


def _with_the_step(weight: float, step: float) -> bool:
    """What comes out where the step is added as it came."""
    return _half(_half(weight) + step) == _half(weight)


def _with_the_weight(weight: float, step: float) -> bool:
    """What comes out where the step is added to the weight as it came."""
    return _half(weight + step) == _half(weight)


def _stands_still(weight: float, step: float) -> bool:
    return _half(_half(weight) + _half(step)) == _half(weight)


stands_still = Exercise(
    id="mixed_precision.stands_still",
    case=_weight_and_step,
    expected=_stands_still,
    rung="warm-up",
    minutes=3,
    cases=80,
    stages=(
        Stage("near 1", case=_from_one, cases=30),
        Stage("anywhere"),
    ),
    hints=(
        Hint(
            "Return a Python bool: `bool(...)` or `.item()` makes one of a tensor.",
            when=lambda e: isinstance(e.value, torch.Tensor),
        ),
        Hint(
            "From a power of two towards 0 the gap is half as wide: this step is not lost. Must "
            "you know the gap at all? Let `float16` add.",
            when=lambda e: e.right is False and _down_from_a_power_of_two(*e.inputs),
        ),
        Hint(
            "This step is no float16. Make one of it first: that is what is added.",
            when=lambda e: (
                _half(e.inputs[1]) != e.inputs[1] and e.value is _with_the_step(*e.inputs)
            ),
        ),
        Hint(
            "This weight is no float16. Make one of it first: the sum is compared with that.",
            when=lambda e: (
                _half(e.inputs[0]) != e.inputs[0]
                and e.value in ({False} if e.right else {_with_the_weight(*e.inputs)})
            ),
        ),
        Hint(
            "The step is exactly half of the gap, and here it is lost: the weight ends in a "
            "binary 0. Let `float16` add, then you need no rule.",
            when=lambda e: e.right is True and 2 * abs(e.inputs[1]) == _gap(e.inputs[0]),
        ),
        Hint(
            "Python adds in 64 bits, where nothing is lost. Add two tensors of float16.",
            when=lambda e: e.right is True and e.value is False,
        ),
        Hint(
            "0.000977 is the gap near 1 only. The farther from 0, the wider the gaps.",
            when=lambda e: isinstance(e.value, bool),
            stage="anywhere",
        ),
        "Make a float16 tensor of each, add, and compare the sum with the weight.",
    ),
    must_fail=(
        "adds in float32",
        "takes the gap near 1 for all weights",
        "ignores the sign",
        "takes the gap above for steps down",
        "calls every step of half the gap lost",
        "calls no step of half the gap lost",
        "compares with the weight as it came",
        "adds to the weight as it came",
        "adds the step as it came",
        "returns a tensor",
        FIRST,
    ),
)


def _gradients(rng: Rng, size: int) -> tuple[list[float]]:
    part = rng.choice((0.7, 0.6, 0.9, LARGEST / 2**16, (LARGEST + 8) / 2**16))
    largest = part * 2.0 ** rng.randint(-20, 30)
    rest = [rng.uniform(-1, 1) * largest / 3 for _ in range(rng.randint(0, 1 + size))]
    return (rng.sample([rng.choice((-1, 1)) * largest, *rest], 1 + len(rest)),)


def _best_scale(gradients: list[float]) -> float:
    return 2.0 ** math.floor(math.log2(LARGEST / max(abs(g) for g in gradients)))


def _forgot_the_sign(e: Any) -> bool:
    """Whether the largest of the signed gradients led to this scale."""
    largest = max(e.inputs[0])
    if e.kind == "raised":
        return bool(largest <= 0)
    if not isinstance(e.value, float) or largest >= -min(e.inputs[0]):
        return False
    if largest > 0:
        return bool(e.value == _best_scale([largest]))
    smallest = min(e.inputs[0], key=abs)
    return bool(e.value > 2 * e.right and e.value != _best_scale([smallest]))


def _rounds_down(e: Any) -> bool:
    """Whether the answer's scale makes a number that is rounded down to the largest half."""
    return bool(LARGEST < max(abs(g) for g in e.inputs[0]) * e.value < LARGEST + 16)


best_scale = Exercise(
    id="mixed_precision.best_scale",
    case=_gradients,
    expected=_best_scale,
    rung="warm-up",
    minutes=4,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Twice your scale would still fit.",
            when=lambda e: isinstance(e.value, float) and e.value < e.right,
        ),
        Hint(
            "The scale may be less than 1: a gradient of 1e6 is too large already.",
            when=lambda e: isinstance(e.value, float) and e.value == 1 > e.right,
        ),
        Hint(
            "Between 65504 and 65520 nothing becomes infinite yet, but the task asks for 65504 or "
            "less.",
            when=lambda e: isinstance(e.value, float) and e.right < e.value and _rounds_down(e),
        ),
        Hint("A large negative gradient overflows, too.", when=_forgot_the_sign),
        Hint(
            "With your scale the largest gradient becomes an infinity.",
            when=lambda e: isinstance(e.value, float) and e.value > e.right,
        ),
        "Begin at a scale that is far too large, 2.0 ** 60. Halve it while something overflows.",
    ),
    must_fail=(
        "forgets the sign",
        "looks at the smallest gradient",
        "one doubling too many",
        "is no power of two",
        "looks at the first gradient",
        "never goes below 1",
        "lets a little more than 65504 pass",
        FIRST,
    ),
)
