"""How long named parts of a program took, and whether two ways of doing something differ at all."""

import math
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


class Timer:
    """Seconds by name; several threads may use it at once.

    clock  returns seconds
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """What runs in this block counts under this name."""
        start = self._clock()
        try:
            yield
        finally:
            self.add(name, self._clock() - start)

    def add(self, name: str, seconds: float) -> None:
        """One more measurement."""
        with self._lock:
            self.seconds.setdefault(name, []).append(seconds)

    def each(self, name: str, items: Iterable[Item]) -> Generator[Item]:
        """The items; the time to get each of them counts under this name."""
        iterator = iter(items)
        try:
            while True:
                start = self._clock()
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                self.add(name, self._clock() - start)
                yield item
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    def totals(self) -> dict[str, float]:
        """Name -> seconds in all."""
        return {name: sum(each) for name, each in self.seconds.items()}


@dataclass(frozen=True)
class Difference:
    """What two series of times, measured in turns, say about their ratio.

    ratio      median of the ratios of the pairs, first / second
    low, high  the true median lies between them in at least 95 of 100 such experiments
    """

    ratio: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether the two may be equally fast, as far as these times can tell."""
        return self.low <= 1 <= self.high

    def __str__(self) -> str:
        verdict = "may be noise" if self.is_noise else "a real difference"
        return f"{self.ratio:.2f}x, between {self.low:.2f} and {self.high:.2f}: {verdict}"


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The ratio of two series, of which entry i was measured in the same turn.

    No shape of the noise is assumed: each pair lies above or below the true median with equal
    chance, so the binomial distribution says which ranks enclose it. Fewer than six pairs enclose
    nothing with 95 %, and every ratio is then possible.

    Raises   ValueError   the series differ in length or are empty, or a time is not positive
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"two series of pairs, got {len(first)} and {len(second)} times")
    if not all(seconds > 0 and math.isfinite(seconds) for seconds in (*first, *second)):
        raise ValueError("every time is a positive number of seconds")
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    count = len(ratios)
    outside, rank = 0.0, 0  # chance that the median lies below the rank-th smallest ratio
    while (outside := outside + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    if rank == 0:
        return Difference(statistics.median(ratios), 0.0, math.inf)
    return Difference(statistics.median(ratios), ratios[rank - 1], ratios[-rank])


def in_turns(
    first: Callable[[], object],
    second: Callable[[], object],
    turns: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> Difference:
    """The ratio of two functions' times, measured A B A B after one call of each."""
    first(), second()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for function, series in zip((first, second), times, strict=True):
            start = clock()
            function()
            series.append(clock() - start)
    return difference(*times)
