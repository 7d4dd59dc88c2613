"""Pairs of NumPy arrays that broadcast, with odd numbers; and what a function makes of them."""

import math
from typing import Any

import numpy as np

from labkit.course.exercise import Rng, handed_out

NUMBERS = (0.0, 0.5, 1.0, -1.0, 3.0, math.inf, -math.inf, math.nan)
TINY = 1e-300
EXACT = (0.0, 1.0, -1.0, math.inf, math.nan)
"""Numbers of which every x * log(y) is the same in float32 and in float64."""


def two_arrays(rng: Rng, size: int, *values: float) -> tuple[Any, Any]:
    """Two arrays that broadcast; without values, every third size is float32."""
    single = not values and size % 3 == 1
    drawn = EXACT if single else values or (*NUMBERS, TINY, 1 + 2**-30)
    shape = () if size == 0 else (rng.randint(0, 3), rng.randint(1, 1 + size))

    def one(shape: tuple[int, ...]) -> Any:
        flat = [rng.choice(drawn) for _ in range(math.prod(shape))]
        return np.array(flat, dtype=np.float32 if single else np.float64).reshape(shape)

    return one(shape), one(shape[1:] if rng.chance(0.2) else shape)


@handed_out
def new_array(answer: Any, x: Any, y: Any) -> Any:
    """The numbers and the dtype of what an answer returns, or what is wrong with it in words."""
    before = x.copy(), y.copy()
    with np.errstate(all="ignore"):
        got = answer(x, y)
    for name, now, then in zip("xy", (x, y), before, strict=True):
        if not np.array_equal(now, then, equal_nan=True):
            return f"{name} changed"
    if not isinstance(got, np.ndarray | np.generic):
        return f"{type(got).__name__}, and no array"
    if any(np.shares_memory(got, given) for given in (x, y)):
        return "no new array"
    return got.tolist(), got.dtype.name
