"""Blocks that were given back while other streams still work on them.

Each recorded stream of such a block gets an event, and the block is free when all of them have
completed. Events of one stream are looked at in the order they were recorded, so an unfinished one
hides those behind it. Streams are looked at in the order of PyTorch's hash table.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from labkit.memory.block import Block
from labkit.memory.device import MemoryDriver
from labkit.memory.history import Frames
from labkit.memory.private_pools import PrivatePool
from labkit.memory.robin_hood import RobinHoodTable, stream_key


class StreamEvents:
    """The outstanding events of one device.

    free_block  called with a block whose last event has completed

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::cuda_events,
             insert_events, process_events, synchronize_and_free_events
    """

    def __init__(
        self, driver: MemoryDriver, free_block: Callable[[Block, Frames | None], None]
    ) -> None:
        self._driver = driver
        self._free_block = free_block
        self._queues: RobinHoodTable[deque[tuple[Any, Block]]] = RobinHoodTable()
        self._until_no_capture: list[Block] = []
        self.outstanding = 0
        """Blocks that are pending: 0 means that there is nothing to look at."""

    def use(self, block: Block, stream: int) -> None:
        """Remember that `stream` works on the block."""
        if block.streams is None:
            block.streams = RobinHoodTable()
        block.streams.insert(stream_key(self._driver.stream_id(stream)), stream)

    def defer(self, block: Block, capturing: bool) -> None:
        """Wait for the streams of a block that was given back.

        capturing  an event recorded while a graph is captured cannot be asked whether it
                   completed: such blocks get their events when no capture is left
        """
        self.outstanding += 1
        if capturing:
            self._until_no_capture.append(block)
            return
        streams, block.streams = block.streams, None
        for stream in streams.values() if streams is not None else ():
            event = self._driver.record_event(stream)
            block.event_count += 1
            queue = self._queues.insert(stream_key(self._driver.stream_id(stream)), deque())
            queue.append((event, block))

    def retire_finished(self, frames: Frames | None = None) -> None:
        """Free every block whose events have completed, as far as each stream has got."""
        self._defer_after_capture()
        place = self._queues.next_place()
        while place is not None:
            queue = self._queues[place]
            while queue and self._driver.query_event(queue[0][0]):
                _, block = queue[0]
                self._completed(block, frames)
                queue.popleft()
            place = self._leave(place, queue)

    def wait(self, frames: Frames | None = None, owner: PrivatePool | None = None) -> None:
        """Wait for every outstanding event, or for those of one private pool's blocks."""
        self._defer_after_capture()
        place = self._queues.next_place()
        while place is not None:
            queue = self._queues[place]
            for _ in range(len(queue)):
                event, block = queue.popleft()
                if owner is not None and block.segment.pool.owner is not owner:
                    queue.append((event, block))
                    continue
                self._driver.synchronize_event(event)
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

    def _defer_after_capture(self) -> None:
        blocks, self._until_no_capture = self._until_no_capture, []
        for block in blocks:
            self.outstanding -= 1  # it counts again with its events
            self.defer(block, capturing=False)
