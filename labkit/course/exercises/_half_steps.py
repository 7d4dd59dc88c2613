"""The warm-ups of mixed precision: a step that is lost, and the largest scale that fits."""

import math

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

LARGEST = 65504.0


def _half(number: float) -> float:
    return float(torch.tensor(number, dtype=torch.float64).to(torch.float16))


def _weight_and_step(rng: Rng, size: int) -> tuple[float, float]:
    """A half, and a step a few times smaller or larger than half its gap; never a tie."""
    weight = _half(rng.choice((-1, 1)) * 2.0 ** rng.uniform(-6, 6))
    gap = 2.0 ** (math.floor(math.log2(abs(weight))) - 10)
    return weight, _half(rng.choice((-1, 1)) * gap * rng.choice((0.05, 0.2, 0.4, 0.7, 1.5, 6.0)))


def _stands_still(weight: float, step: float) -> bool:
    return _half(weight + step) == weight


stands_still = Exercise(
    id="mixed_precision.stands_still",
    case=_weight_and_step,
    expected=_stands_still,
    rung="warm-up",
    minutes=3,
    cases=80,
    stages=(
        Stage("near 1", case=lambda rng, size: (1.0, _weight_and_step(rng, size)[1]), cases=20),
        Stage("anywhere"),
    ),
    hints=(
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
        FIRST,
    ),
)


def _gradients(rng: Rng, size: int) -> tuple[list[float]]:
    largest = rng.choice((0.7, 0.6, 0.9)) * 2.0 ** rng.randint(-20, 8)
    rest = [rng.uniform(-1, 1) * largest / 3 for _ in range(rng.randint(0, 1 + size))]
    return (rng.sample([rng.choice((-1, 1)) * largest, *rest], 1 + len(rest)),)


def _best_scale(gradients: list[float]) -> float:
    return 2.0 ** math.floor(math.log2(LARGEST / max(abs(g) for g in gradients)))


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
            "A large negative gradient overflows, too.",
            when=lambda e: max(e.inputs[0]) < -min(e.inputs[0]),
        ),
        Hint(
            "Twice your scale would still fit.",
            when=lambda e: isinstance(e.value, float) and e.value < e.right,
        ),
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
        FIRST,
    ),
)
