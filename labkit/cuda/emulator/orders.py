"""`every_order`: a program run once in each order that its streams, events and edges allow."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from labkit.cuda.emulator.queue import WorkQueue

T = TypeVar("T")


class _Decisions:
    """Stands in for a random source: takes a given way, then always the first choice."""

    def __init__(self, way: Sequence[int]) -> None:
        self._way = tuple(way)
        self.taken: list[tuple[int, int]] = []
        """(choice, number of choices) of each decision."""

    def choice(self, options: Sequence[Any]) -> Any:
        place = len(self.taken)
        chosen = self._way[place] if place < len(self._way) else 0
        self.taken.append((chosen, len(options)))
        return options[chosen]

    def next_way(self) -> list[int] | None:
        """The next way in order, None after the last."""
        for place in reversed(range(len(self.taken))):
            chosen, options = self.taken[place]
            if chosen + 1 < options:
                return [one for one, _ in self.taken[:place]] + [chosen + 1]
        return None


def every_order(queue: WorkQueue, run: Callable[[], T]) -> Iterator[T]:
    """What `run` returned, for each order in turn; it has to wait for what it queues.

    Afterwards the queue runs in order.
    """
    way: list[int] | None = []
    try:
        while way is not None:
            decisions = _Decisions(way)
            queue.follow(decisions)
            yield run()
            way = decisions.next_way()
    finally:
        queue.reseed(None)
