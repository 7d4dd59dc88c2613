"""Small steps to a residual block: a value that is read twice, statistics that move."""

from typing import Any

import numpy as np
import torch

from labkit.course.compare import difference
from labkit.course.exercise import Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

# --- mean_gate

Floats = list[float]


def _two_lists(rng: Rng, size: int) -> tuple[Floats, Floats]:
    return tuple([rng.randint(-8, 8) / 2 for _ in range(2 + size)] for _ in (1, 2))  # type: ignore[return-value]


def _mean_gate(x: Floats, dy: Floats) -> Floats:
    mean, count = sum(x) / len(x), len(x)
    through_mean = sum(a * b for a, b in zip(x, dy, strict=True)) / count
    return [d * mean + through_mean for d in dy]


def _only(part: str) -> Any:
    """Whether the answer holds one of the two terms alone."""

    def alone(e: Any) -> bool:
        x, dy = e.inputs
        mean = sum(x) / len(x)
        product = [d * mean for d in dy]
        if part == "product":
            return bool(np.allclose(e.value, product))
        return bool(np.allclose(e.value, np.subtract(e.right, product)))

    return alone


def _shares(e: Any) -> list[float]:
    """What the answer gives each number beyond dy[i] * m."""
    x, dy = e.inputs
    return [got - d * sum(x) / len(x) for got, d in zip(e.value, dy, strict=True)]


def _uneven(e: Any) -> bool:
    return not np.allclose(_shares(e), _shares(e)[0])


def _other_count(e: Any) -> bool:
    """Whether the gradient of m is right, and cut into another number of parts."""
    x, dy = e.inputs
    total = sum(a * b for a, b in zip(x, dy, strict=True))
    return any(np.allclose(_shares(e), total / parts) for parts in (1, 2))


mean_gate = Exercise(
    id="residual_block.mean_gate",
    case=_two_lists,
    expected=_mean_gate,
    tolerance=1e-9,
    rung="warm-up",
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("This is what comes back through the product. The mean has read x as well.",
             when=_only("product")),
        Hint("This is what comes back through the mean. The product has read x[i] as well.",
             when=_only("mean")),
        Hint("From the mean, every number gets the same share.", when=_uneven),
        Hint("The gradient of m is right. Each of the len(x) numbers gets one part in len(x).",
             when=_other_count),
        "The gradient of m is the sum of x[i] * dy[i]: every product reads m.",
        "x[i] gets dy[i] * m, and its share of the gradient of m: one part in len(x).",
    ),
    must_fail=("takes m for a constant", "forgets the product", "does not divide by the length",
               "gives the mean's gradient the mean of dy", "halves it for every length",
               "gives each number its own product's part"),
)  # fmt: skip


# --- moved


def _statistics(rng: Rng, size: int) -> tuple[torch.Tensor, ...]:
    """Old mean and variance of each channel, and the image."""
    channels, draw = 1 + size // 3, rng.generator()
    shape = (rng.randint(1, 3), channels, 1 + rng.randint(0, 3), 2 + rng.randint(0, 3))
    mean, var = torch.randint(-4, 5, (2, channels), generator=draw, dtype=torch.float64)
    made = torch.randint(-9, 10, shape, generator=draw, dtype=torch.float64)
    return mean, 1 + var.abs(), made


def _moved(
    mean: torch.Tensor,
    var: torch.Tensor,
    made: torch.Tensor,
    new: float = 0.1,
    spare: int = 1,
    over: tuple[int, ...] = (0, 2, 3),
) -> tuple[torch.Tensor, torch.Tensor]:
    """new: the batch's share; spare: what is taken from the count of numbers; over: dimensions."""
    batch_var, batch_mean = torch.var_mean(made, over, correction=spare)
    return (1 - new) * mean + new * batch_mean, (1 - new) * var + new * batch_var


def _gives(**other: Any) -> Any:
    return lambda e: not difference(e.value, _moved(*e.inputs, **other), 1e-9)


moved = Exercise(
    id="residual_block.moved",
    case=_statistics,
    expected=_moved,
    tolerance=1e-9,
    rung="warm-up",
    cases=40,
    minutes=4,
    hints=(
        Hint("The mean is right. This variance is divided by n; the unbiased one by n - 1.",
             when=_gives(spare=0)),
        Hint("A tenth comes from the batch, nine tenths from the old ones.", when=_gives(new=0.9)),
        Hint("These are the batch's own. The old ones keep nine tenths.", when=_gives(new=1.0)),
        Hint("The old statistics and the image are given: make new tensors.",
             when=lambda e: e.kind == "mutated"),
        Hint("One mean and one variance for each channel: over the dimensions (0, 2, 3).",
             when=_gives(over=(0, 1, 2, 3))),
        "0.9 * mean + 0.1 * made.mean((0, 2, 3)); the variance likewise, with made.var.",
    ),
    must_fail=("takes the biased variance", "swaps the shares", "forgets the old ones",
               "takes all channels together", "takes one entry of the batch",
               "moves the statistics in place", "gives the deviation for the variance"),
)  # fmt: skip
