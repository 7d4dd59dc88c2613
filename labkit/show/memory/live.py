"""A memory map that follows a loop while it runs."""

import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from labkit.memory.caching_allocator import CachingAllocator
from labkit.show.memory.sources import read_source, read_trace
from labkit.widgets.memory.memory_map import MemoryMap

FOLLOWED: WeakKeyDictionary[CachingAllocator, "LiveMemoryMap"] = WeakKeyDictionary()
"""One view per allocator: a cell that is run again must not leave the old one looking."""
SHARE = 0.1
"""Of the run's time that looking may take: slower looks come less often."""
WATCHED = ("malloc", "free", "empty_cache")


class LiveMemoryMap(MemoryMap):
    """A memory map with a `stop()`: after it the map shows the end and follows no more.

    looks  how often the source was read so far
    """

    def __init__(self, source: Any, every: float, title: str, how: str) -> None:
        self._source, self._every, self._how = source, every, how
        self._unhook: Callable[[], None] = lambda: None
        self._next = 0.0
        self.looks = 0
        found = read_source(source)
        super().__init__(
            read_trace(found, None), title=title or found.name, remarks=found.remarks, live=how
        )

    def look(self, live: str | None = None) -> None:
        """Show the source as it is now."""
        began = time.monotonic()
        trace = read_trace(read_source(self._source), None)
        self.update(trace, live=self._how if live is None else live)
        self.looks += 1
        now = time.monotonic()
        self._next = now + max(self._every, (now - began) / SHARE)

    def look_if_due(self) -> None:
        """Show the source if the last look is long enough ago."""
        if time.monotonic() >= self._next:
            self.look()

    def stop(self) -> None:
        """Show the end, and follow no more."""
        self._unhook()
        self._unhook = lambda: None
        self.look(live="")


def follow_allocator(allocator: CachingAllocator, every: float, title: str) -> LiveMemoryMap:
    """Look after the allocator's own calls, where its map is whole; history is switched on."""
    if allocator in FOLLOWED:
        FOLLOWED[allocator].stop()
    if allocator.history is None:
        allocator.record_memory_history()
    how = f"Live: updated after the allocator's calls, at most every {every:g} s."
    view = LiveMemoryMap(allocator, every, title, how)
    for name in WATCHED:
        setattr(allocator, name, _then(getattr(allocator, name), view.look_if_due))

    def unhook() -> None:
        for name in WATCHED:
            delattr(allocator, name)  # the class's own is there again
        FOLLOWED.pop(allocator, None)

    FOLLOWED[allocator] = view
    view._unhook = unhook
    return view


def follow_torch_cuda(every: float, title: str) -> LiveMemoryMap:
    """Look from a thread of its own; the allocator locks itself."""
    how = f"Live: torch.cuda is read at most every {every:g} s."
    view = LiveMemoryMap("cuda", every, title, how)
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(max(0.01, view._next - time.monotonic())):
            view.look_if_due()

    thread = threading.Thread(target=run, name="show.memory", daemon=True)

    def unhook() -> None:
        stopped.set()
        thread.join()

    view._unhook = unhook
    thread.start()
    return view


def _then(call: Callable[..., Any], after: Callable[[], None]) -> Callable[..., Any]:
    def called(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        after()
        return result

    return called
