"""One axis: where a number stands on it, and which numbers are written there."""

import math
from collections.abc import Iterable, Sequence

MOST_TICKS, LEAST_APART = 6, 0.07
LETTER, GAP = 0.018, 0.02  # parts of a narrow page's axis


class Axis:
    """The part of the axis, from 0 to 1, at which each number stands.

    numbers  what has to have room, at least one
    log      powers of ten stand equally far from each other
    ticks    numbers to write where they are few and short; else round ones. Of two that
             stand too close to each other the smaller one is written
    zero     0 has a place, too, unless the axis is logarithmic
    """

    def __init__(
        self,
        numbers: Iterable[float],
        log: bool = False,
        ticks: Sequence[float] = (),
        zero: bool = True,
    ) -> None:
        values = [*numbers, *([0.0] if zero and not log else [])]
        self.log = log
        low, high = min(values), max(values)
        if log:
            self._low, self._high = math.log10(low), math.log10(high)
        else:
            self._low, self._high = low, high
        if self._high == self._low:
            self._low, self._high = self._low - 0.5, self._high + 0.5
        few = sorted({*ticks})
        self.ticks: list[float] = []
        own = 0 < len(few) <= 8 and all(map(_is_short, few))
        for tick in few if own else self._round_ones():
            if not self.ticks or self(tick) - self(self.ticks[-1]) >= _apart(self.ticks[-1], tick):
                self.ticks.append(tick)

    def __call__(self, number: float) -> float:
        return ((math.log10(number) if self.log else number) - self._low) / (self._high - self._low)

    def sampled(self, low: float, high: float, count: int = 120) -> list[float]:
        """Numbers from low to high that stand equally far from each other."""
        if self.log:
            return [low * (high / low) ** (n / count) for n in range(count + 1)]
        return [low + (high - low) * n / count for n in range(count + 1)]

    def _round_ones(self) -> list[float]:
        if not self.log:
            step = _step(self._high - self._low)
            return [n * step for n in _whole(self._low / step, self._high / step)]
        decades = [10.0**n for n in _whole(self._low, self._high)]
        if len(decades) >= 3:
            return decades[:: -(-len(decades) // MOST_TICKS)]
        first = math.floor(self._low)
        ones = [d * 10.0**n for n in range(first, first + 4) for d in (1, 2, 5)]
        return [one for one in ones if 0 <= self(one) <= 1] or [10**self._low, 10**self._high]


def _is_short(number: float) -> bool:
    """A whole number, or one of three digits: nobody reads 9.366 off an axis."""
    return number == round(number) or number == float(f"{number:.3g}")


def _apart(one: float, other: float) -> float:
    """How far apart the middles of two numbers are written, at least."""
    letters = len(written(one)) + len(written(other))
    return max(LEAST_APART, LETTER * letters / 2 + GAP)


def _step(span: float) -> float:
    """The smallest of 1, 2, 5, 10 ... that cuts the span into few parts."""
    power = 10.0 ** math.floor(math.log10(span / (MOST_TICKS - 1)))
    return next(n * power for n in (1, 2, 5, 10) if span / (n * power) <= MOST_TICKS - 1)


def _whole(low: float, high: float) -> range:
    """The whole numbers from low to high; what misses one by rounding is taken in."""
    return range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)


def written(number: float) -> str:
    """Four digits, and words for thousands where the number is long."""
    for power, word in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(number) >= power:
            return f"{number / power:.4g}{word}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
