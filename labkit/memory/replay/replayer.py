"""The requests of a recorded trace, made again on another allocator."""

from collections.abc import Callable
from typing import Any, TypeVar

from labkit.memory.block import ALLOCATED, PENDING
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.history import MempoolId
from labkit.memory.replay.restore import waiting_stream
from labkit.memory.snapshots.trace import Request

Answer = TypeVar("Answer")


class Replayer:
    """Makes the requests of a trace on an allocator whose device never completes by itself.

    was_emptied   whether releases that may belong to the next request were an `empty_cache`
    """

    def __init__(
        self,
        allocator: CachingAllocator,
        device: SimulatedDevice,
        was_emptied: Callable[[Request], bool],
    ) -> None:
        self.allocator = allocator
        self._device = device
        self._was_emptied = was_emptied
        self._addresses: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._marks = 0

    def start_with(self, segments: list[dict[str, Any]]) -> set[int]:
        """The allocator already has the blocks of these segments, as `restore` makes them.

        Returns the addresses of those that are pending.
        """
        for segment in segments:
            for block in segment["blocks"]:
                address = block["address"]
                if block["state"] == ALLOCATED:
                    self._addresses[address] = address
                elif block["state"] == PENDING:
                    self._waiting[address] = waiting_stream(address)
        return set(self._waiting)

    def make(self, request: Request) -> None:
        """One request of the recording.

        Raises   OutOfMemoryError   it found no room
        """
        allocator = self.allocator
        if request.kind == "malloc":
            address = self.in_pool(
                request.pool, lambda: allocator.malloc(request.size, request.stream)
            )
            if request.address:
                self._addresses[request.address] = address
        elif request.kind == "free":
            if request.address not in self._addresses:
                return  # allocated before anything that is known
            address = self._addresses.pop(request.address)
            if request.waits:
                self._marks -= 1  # a stream of its own for each: they complete in recorded order
                allocator.record_stream(address, self._marks)
                self._waiting[request.address] = self._marks
            allocator.free(address)
        elif request.kind == "complete":
            if request.address in self._waiting:
                self._device.complete(self._waiting.pop(request.address))
                allocator.process_events()
            else:  # it was pending before the trace, and made anew without its stream
                allocator.free(self._addresses.pop(request.address))
        elif request.unsure and not self._was_emptied(request):
            return
        elif not request.unsure and request.pool in allocator.private_pools:
            self._drop(request.pool)
        else:
            allocator.empty_cache()

    def in_pool(self, pool: MempoolId, action: Callable[[], Answer]) -> Answer:
        """What the action gives while requests go to the pool."""
        if pool == (0, 0):
            return action()
        self.allocator.private_pools.begin(pool)
        try:
            return action()
        finally:
            self.allocator.private_pools.end(pool)
            if self.allocator.private_pools[pool].use_count > 1:
                self.allocator.private_pools.release(pool)

    def _drop(self, pool: MempoolId) -> None:
        if self.allocator.private_pools[pool].use_count:
            self.allocator.private_pools.release(pool)
        self.allocator.empty_cache(pool)
