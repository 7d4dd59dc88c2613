"""Blocks that were given back while other streams still work on them.

Each recorded stream of such a block gets an event, and the block is free when all of them have
completed. Events of one stream are looked at in the order they were recorded, so an unfinished one
hides those behind it. Streams are looked at in the order of PyTorch's hash table.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from labkit.memory.block import Block, PrivatePool
from labkit.memory.device import MemoryDriver
from labkit.memory.history import Frames
from labkit.memory.robin_hood import RobinHoodTable, stream_key


class StreamEvents:
    """The outstanding events of one device.

    free_block  called with a block whose last event has completed

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::cuda_events,
             needs_events_deferred_until_no_capture, insert_events, process_events,
             synchronize_and_free_events
    """

    def __init__(
        self, driver: MemoryDriver, free_block: Callable[[Block, Frames | None], None]
    ) -> None:
        self._driver = driver
        self._free_block = free_block
        self._queues: RobinHoodTable[deque[tuple[Any, Block]]] = RobinHoodTable()
        self._needs_events: list[Block] = []
        self.outstanding = 0
        """Blocks that are pending: 0 means that there is nothing to look at."""

    def use(self, block: Block, stream: int) -> None:
        """Remember that `stream` works on the block."""
        key = stream_key(self._driver.stream_id(stream))
        if block.stream_uses is None:
            block.stream_uses = RobinHoodTable()
        block.stream_uses.insert(key, stream)

    def insert_events(self, block: Block, capturing: bool) -> None:
        """Wait for the streams of a block that was given back.

        capturing  an event recorded while a graph is captured cannot be asked whether it
                   completed: such blocks get their events when no capture is left

        Raises   what the driver raises; the block gets its events when events are next looked at
        """
        self.outstanding += 1
        self._needs_events.append(block)
        if not capturing:
            self._insert_deferred()

    def process_events(self, frames: Frames | None = None) -> None:
        """Free every block whose events have completed, as far as each stream has got."""
        self._insert_deferred()
        place = self._queues.next_place()
        while place is not None:
            queue = self._queues[place]
            while queue and self._driver.query_event(queue[0][0]):
                self._completed(queue.popleft()[1], frames)
            place = self._leave(place, queue)

    def synchronize_and_free_events(
        self, frames: Frames | None = None, owner: PrivatePool | None = None
    ) -> None:
        """Wait for every outstanding event, or for those of one private pool's blocks."""
        self._insert_deferred()
        place = self._queues.next_place()
        while place is not None:
            queue = self._queues[place]
            for entry in list(queue):
                event, block = entry
                if owner is None or block.segment.pool.owner is owner:
                    self._driver.synchronize_event(event)
                    queue.remove(entry)
                    self._completed(block, frames)
            place = self._leave(place, queue)

    def _leave(self, place: int, queue: deque[tuple[Any, Block]]) -> int | None:
        if queue:
            return self._queues.next_place(place + 1)
        self._queues.erase(place)
        return self._queues.next_place(place)  # a follower may have moved here

    def _completed(self, block: Block, frames: Frames | None) -> None:
        block.event_count -= 1
        if block.event_count == 0:
            self.outstanding -= 1
            self._free_block(block, frames)

    def _insert_deferred(self) -> None:
        """Each block that still needs its events has them; one that cannot have all gets none."""
        while self._needs_events:
            block = self._needs_events[0]
            streams = [] if block.stream_uses is None else block.stream_uses.values()
            events = [
                (stream_key(self._driver.stream_id(stream)), self._driver.record_event(stream))
                for stream in streams
            ]
            del self._needs_events[0]
            block.stream_uses = None
            block.event_count = len(events)
            for key, event in events:
                self._queues.insert(key, deque()).append((event, block))
