"""What an allocator tells about itself: the trace of what it did, and the reasons for it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from labkit.memory.block import AllocParams, Block, Segment
from labkit.memory.decisions import DecisionLog
from labkit.memory.history import Action, Context, Frames, History
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.settings import AllocatorSettings


class Recorder:
    """Passes on what happens to the `history` and to the `decisions`, each of them if it is on.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::record_trace
    """

    def __init__(self) -> None:
        self.history: History | None = None
        self.decisions: DecisionLog | None = None

    def explain(self, segments: Mapping[int, Segment] | None, most_candidates: int | None) -> None:
        """Log from now on why each block of the segments was chosen; None stops it."""
        if segments is None:
            self.decisions = None
        else:
            self.decisions = DecisionLog(segments, self._entries_recorded, most_candidates)

    def frames(self, least: Context) -> Frames | None:
        """The caller's frames, if the history keeps them for this kind of event."""
        return None if self.history is None else self.history.frames(least)

    def search(self, params: AllocParams, settings: AllocatorSettings) -> None:
        """A request is about to look for a block."""
        if self.decisions is not None:
            self.decisions.search(params, settings)

    def search_again(self, params: AllocParams) -> None:
        """Its callbacks may have freed memory: the request looks once more."""
        if self.decisions is not None:
            self.decisions.search_again(params)

    def allocated(self, block: Block, frames: Frames | None) -> None:
        """The block, which has its final size, serves the request."""
        if self.history is not None:
            block.frames = frames
            self._record("alloc", block, frames)
        if self.decisions is not None:
            self.decisions.found(block)

    def out_of_memory(self, error: OutOfMemoryError, params: AllocParams) -> None:
        """The request cannot be served."""
        if self.history is not None:
            self.history.record(
                "oom", error.free, params.size, params.stream, params.pool.id, params.frames
            )
        if self.decisions is not None:
            self.decisions.out_of_memory(error)

    def free_requested(self, block: Block, frames: Frames | None) -> None:
        """The caller gave the block back."""
        if self.history is not None:
            self._record("free_requested", block, frames)

    def pending(self, block: Block) -> None:
        """The streams of the block still use it."""
        if self.decisions is not None and block.stream_uses is not None:
            self.decisions.pending(block, list(block.stream_uses.values()))

    def free_completed(self, block: Block, frames: Frames | None) -> None:
        """Nobody uses the block any more."""
        if self.history is not None:
            self._record("free_completed", block, frames)
            block.frames = None

    def became_free(self, block: Block, size: int, was_pending: bool) -> None:
        """The block can be found; it had `size` bytes before it absorbed its neighbours."""
        if self.decisions is not None:
            self.decisions.freed(block, size, was_pending=was_pending)

    def device_memory(
        self, action: Action, address: int, size: int, segment: Segment, frames: Frames | None
    ) -> None:
        """The device gave a segment or pages, or got them back."""
        if self.history is not None:
            self.history.record(action, address, size, segment.stream, segment.pool.id, frames)
        if self.decisions is not None:
            self.decisions.step(action, address, size)

    @contextmanager
    def emptying(self) -> Iterator[None]:
        """Inside, everything unused goes back to the device."""
        decisions = self.decisions
        if decisions is None:
            yield
            return
        decisions.emptying()
        try:
            yield
        except BaseException:
            decisions.abandon(None)
            raise
        decisions.emptied()

    def abandoned(self, params: AllocParams) -> None:
        """The request ended with an exception."""
        if self.decisions is not None:
            self.decisions.abandon(params)

    def _entries_recorded(self) -> int:
        return 0 if self.history is None else self.history.total

    def _record(self, action: Action, block: Block, frames: Frames | None) -> None:
        assert self.history is not None, "the caller has looked"
        segment = block.segment
        self.history.record(
            action,
            block.address,
            block.requested_size,
            segment.stream,
            segment.pool.id,
            block.frames if frames is None else frames,
        )
