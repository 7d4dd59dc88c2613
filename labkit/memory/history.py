"""What the allocator did, entry by entry, with the Python frames that asked for it."""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple, get_args

MempoolId = tuple[int, int]
"""(0, 0) is the default; a graph's own pools count in the first place, MemPool's in the second."""

Action = Literal[
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
]
ACTIONS: tuple[Action, ...] = get_args(Action)

Frames = tuple[tuple[str, str, int], ...]
"""(function, file, line), innermost first."""

Context = Literal["state", "alloc", "all"]
CONTEXTS: tuple[Context | None, ...] = (None, "state", "alloc", "all")
"""What gets frames: nothing, live blocks, also their trace entries, also the frees."""

_LAYERS = (
    "memory", "core", "cuda", "dispatch", "ops", "autograd", "_tensor",
    "show/memory",  # a live map looks on from within the calls
)  # fmt: skip
_PACKAGE = Path(__file__).parents[1]
_MACHINERY = (
    *(str(_PACKAGE / layer) + os.sep for layer in _LAYERS), "<derivative of ",
)  # fmt: skip
"""Files, and names of generated code, that stand between a caller's line and its memory."""


class TraceEntry(NamedTuple):
    """One entry of the trace.

    address  for `oom`, the free bytes of the device
    size     requested bytes for `alloc` and the frees, the rounded request for `oom`
    stream   the block's own stream, not the one that freed it
    """

    action: Action
    address: int
    size: int
    stream: int
    pool: MempoolId
    time_us: int
    frames: Frames | None
    user_metadata: str


class History:
    """The entries recorded so far, oldest first, at most `max_entries` of them.

    total  entries ever recorded, so that a reader can ask for what is new

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::recordHistory, record_trace
    """

    def __init__(
        self,
        context: Context | None = "all",
        max_entries: int | None = None,
        skip_actions: Collection[Action] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        if context not in CONTEXTS:
            raise ValueError(f"context is one of {CONTEXTS}, got {context!r}")
        unknown = set(skip_actions) - set(ACTIONS)
        if unknown:
            raise ValueError(f"no trace entry has the action {sorted(unknown)}; known: {ACTIONS}")
        if max_entries is not None and max_entries < 0:
            raise ValueError(f"max_entries is 0 or more, got {max_entries}")
        self.context = context
        self.user_metadata = ""
        self.total = 0
        self._skip = frozenset(skip_actions)
        self._entries: deque[TraceEntry] = deque(maxlen=max_entries)
        self._clock = clock or _microseconds

    def __len__(self) -> int:
        return len(self._entries)

    def since(self, total: int = 0) -> list[TraceEntry]:
        """The entries recorded after there had been `total` of them, as far as they are kept."""
        new = self.total - total
        newest_first = islice(reversed(self._entries), max(new, 0))
        return list(newest_first)[::-1]

    def clear(self) -> None:
        """The entries are gone; recording goes on."""
        self._entries.clear()

    def frames(self, least: Context) -> Frames | None:
        """The caller's Python frames, if the context asks for them at this kind of event."""
        if CONTEXTS.index(self.context) < CONTEXTS.index(least):
            return None
        return python_frames()

    def record(
        self,
        action: Action,
        address: int,
        size: int,
        stream: int,
        pool: MempoolId,
        frames: Frames | None = None,
    ) -> None:
        """One more entry."""
        if action in self._skip:
            return
        self.total += 1
        kept = frames if self.context in ("alloc", "all") else None
        self._entries.append(
            TraceEntry(action, address, size, stream, pool, self._clock(), kept, self.user_metadata)
        )


def python_frames() -> Frames:
    """The Python frames of whoever asked for memory, innermost first.

    What PyTorch does in C++ is Python here: storages, kernels, the dispatcher and the engine are
    left out, layers of labkit.nn are not.
    """
    frames: list[tuple[str, str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if frames or not code.co_filename.startswith(_MACHINERY):
            frames.append((code.co_name, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def frame_dicts(frames: Frames | None) -> list[dict[str, Any]]:
    """The frames as a snapshot holds them."""
    return [{"name": name, "filename": file, "line": line} for name, file, line in frames or ()]


def _microseconds() -> int:
    return time.time_ns() // 1000
