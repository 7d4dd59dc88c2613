"""Work in stages, each in a thread of its own, with little room between them.

A stage that is ahead waits until there is room (back-pressure), so a long film never lies in memory
as a whole. Threads run at the same time only where their work releases Python's lock, as decoding,
PyTorch's operators and writing a file do.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Abandoned(Exception):
    """Nobody will read what is put here."""


class Channel(Generic[Item]):
    """A queue with room for `room` items, which both sides can end."""

    def __init__(self, room: int) -> None:
        if room < 1:
            raise ValueError(f"a channel has room for at least one item, got {room}")
        self._room, self._items = room, deque[Item]()
        self._changed = threading.Condition()
        self._finished = self._abandoned = False
        self._error: BaseException | None = None

    def put(self, item: Item) -> None:
        """The item is in the channel; waits for room.

        Raises   Abandoned   the reader has gone
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._room or self._abandoned)
            if self._abandoned:
                raise Abandoned
            self._items.append(item)
            self._changed.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """No item follows; the reader gets what is left, then this error."""
        with self._changed:
            self._finished, self._error = True, error
            self._changed.notify_all()

    def abandon(self) -> None:
        """The reader is gone: what waits here is dropped, and `put` raises."""
        with self._changed:
            self._abandoned = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._finished)
                if not self._items:
                    if self._error is not None:
                        raise self._error
                    return
                item = self._items.popleft()
                self._changed.notify_all()
            yield item


def staged(source: Iterable[Any], *stages: Callable[[Any], Any], room: int = 2) -> Generator[Any]:
    """What the stages make of each item, in order; source and stages run in threads of their own.

    An exception of the source or a stage comes out here, behind the items that were before it. When
    the reader stops early, the threads end, and so does a source that is a generator.

    room  items that may wait before each stage, and before the reader
    """
    channels: list[Channel[Any]] = [Channel(room) for _ in range(len(stages) + 1)]
    work = [(source, None, channels[0])]
    work += [(channels[at], stage, channels[at + 1]) for at, stage in enumerate(stages)]  # type: ignore[misc]
    threads = [threading.Thread(target=_run, args=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield from channels[-1]
    finally:
        for channel in channels:
            channel.abandon()
            channel.finish()
        for thread in threads:
            thread.join()


def prefetch(source: Iterable[Item], depth: int = 2) -> Generator[Item]:
    """The items of the source, each once and in order, up to `depth` of them fetched ahead."""
    return staged(source, room=depth)


def _run(source: Iterable[Any], stage: Callable[[Any], Any] | None, channel: Channel[Any]) -> None:
    error = None
    items = iter(source)
    try:
        for item in items:
            channel.put(stage(item) if stage else item)
    except Abandoned:
        pass
    except BaseException as raised:
        error = raised
    finally:
        if hasattr(items, "close"):
            items.close()
        channel.finish(error)
