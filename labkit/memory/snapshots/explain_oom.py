"""After an out-of-memory error: where the bytes were, and why none of them could help."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.memory.block import FREE, PENDING
from labkit.memory.history import MempoolId
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import format_size, is_small, segment_size
from labkit.memory.snapshots.trace import (
    Snapshot,
    damage_told,
    entries_of,
    segments_before,
    settings_of,
)

REASONS = {
    "other_pool": "lie in the other pool ({other}): a {mine} request never looks there",
    "private_pool": "are kept for private pools (CUDA graphs, MemPool)",
    "other_stream": "belong to other streams, which alone may reuse them",
    "pending": "were given back, but another stream had not finished with them",
    "oversize": "are oversize blocks, which max_split_size keeps for larger requests",
    "too_small": "are too small: the largest piece has {largest}",
    "unusable": "would waste more than max_non_split_rounding allows",
}


@dataclass(frozen=True)
class FreeBytes:
    """Cached bytes that did not help, for one reason.

    reason   a key of `REASONS`
    bytes    their sum;  blocks: how many pieces;  largest: bytes of the largest piece
    """

    reason: str
    bytes: int
    blocks: int
    largest: int


@dataclass(frozen=True)
class OutOfMemoryReport:
    """What one failed request met. Sizes are bytes.

    wanted           the rounded request;  segment: what the device was asked for
    device_free      what the device had left
    reserved, live   held by the allocator, and of that in use
    not_usable       the rest of what is reserved, by reason, most bytes first
    """

    wanted: int
    segment: int
    stream: int
    pool: str
    entry: int
    device_free: int
    reserved: int
    live: int
    not_usable: tuple[FreeBytes, ...]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def explain_oom(snapshot: Snapshot, device: int = 0) -> OutOfMemoryReport:
    """Why the last request that ran out found no room, in sentences with sizes.

    The memory map is that of the moment: what the trace says happened afterwards is undone first.

    Raises   ValueError      nothing ran out in the recorded trace
             SnapshotError   the recording contradicts itself
    """
    entries = entries_of(snapshot, device)
    failed = [index for index, entry in enumerate(entries) if entry["action"] == "oom"]
    if not failed:
        raise ValueError(f"no request ran out of memory in the {len(entries)} recorded entries")
    with damage_told("explain_oom"):
        return _report(snapshot, failed[-1], device)


def _report(snapshot: Snapshot, index: int, device: int) -> OutOfMemoryReport:
    entry = entries_of(snapshot, device)[index]
    settings = settings_of(snapshot)
    wanted = entry["size"]
    mempool: MempoolId = tuple(entry.get("pool_id", (0, 0)))
    request = _Request(wanted, entry["stream"], mempool, settings)
    segments = segments_before(snapshot, index, device)
    found = _sort_out(request, segments)
    reserved = sum(segment["total_size"] for segment in segments)
    live = sum(segment["allocated_size"] for segment in segments)
    segment = (
        wanted
        if settings.expandable_segments
        else segment_size(wanted, settings.large_segment_size)
    )
    not_usable = tuple(sorted(found, key=lambda group: group.bytes, reverse=True))
    return OutOfMemoryReport(
        wanted,
        segment,
        entry["stream"],
        request.kind,
        index,
        entry["device_free"],
        reserved,
        live,
        not_usable,
        tuple(_sentences(request, entry, segment, reserved, live, not_usable)),
    )


@dataclass(frozen=True)
class _Request:
    size: int
    stream: int
    mempool: MempoolId
    settings: AllocatorSettings

    @property
    def kind(self) -> str:
        return "small" if is_small(self.size) else "large"

    @property
    def other_kind(self) -> str:
        return "large" if is_small(self.size) else "small"

    def reason(self, segment: dict[str, Any], block: dict[str, Any]) -> str:
        """Why this cached block does not help."""
        limit = self.settings.max_split_size
        if block["state"] == PENDING:
            return "pending"
        if tuple(segment["segment_pool_id"]) != self.mempool:
            return "private_pool" if tuple(segment["segment_pool_id"]) != (0, 0) else "other_pool"
        if segment["segment_type"] != self.kind:
            return "other_pool"
        if segment["stream"] != self.stream:
            return "other_stream"
        if block["size"] < self.size:
            return "too_small"
        if self.size < limit <= block["size"]:
            return "oversize"
        return "unusable"


def _sort_out(request: _Request, segments: list[dict[str, Any]]) -> list[FreeBytes]:
    sizes: dict[str, list[int]] = {}
    for segment in segments:
        for block in segment["blocks"]:
            if block["state"] in (FREE, PENDING):
                sizes.setdefault(request.reason(segment, block), []).append(block["size"])
    return [
        FreeBytes(reason, sum(pieces), len(pieces), max(pieces)) for reason, pieces in sizes.items()
    ]


def _sentences(
    request: _Request,
    entry: dict[str, Any],
    segment: int,
    reserved: int,
    live: int,
    not_usable: tuple[FreeBytes, ...],
) -> Iterator[str]:
    asked = format_size(request.size)
    if segment != request.size:
        asked += f" (a segment of {format_size(segment)})"
    free = entry["device_free"]
    idle = sum(group.bytes for group in not_usable)
    yield (
        f"{asked} was wanted on stream {request.stream}, {request.kind} pool. The device had "
        f"{format_size(free)} left; the allocator held {format_size(reserved)}, of which "
        f"{format_size(live)} in use and {format_size(idle)} not."
    )
    for group in not_usable:
        text = REASONS[group.reason].format(
            other=request.other_kind, mine=request.kind, largest=format_size(group.largest)
        )
        pieces = "1 piece" if group.blocks == 1 else f"{group.blocks} pieces"
        yield f"{format_size(group.bytes)} in {pieces} {text}."
    if free >= segment:
        yield (
            f"Limit: the device had room for {format_size(segment)}, so a memory fraction refused. "
            "set_per_process_memory_fraction sets it."
        )
    else:
        yield _conclusion(request, free, idle, not_usable)


def _conclusion(request: _Request, free: int, idle: int, not_usable: tuple[FreeBytes, ...]) -> str:
    by_reason = Counter({group.reason: group.bytes for group in not_usable})
    if free + idle < request.size:
        return (
            f"Capacity: even together, {format_size(free + idle)} would not have been enough. "
            "Less has to be alive at once."
        )
    worst = max(by_reason, key=by_reason.__getitem__, default="")
    if worst == "other_stream":
        return "Streams: the idle bytes are cached for other streams; empty_cache() returns them."
    if worst == "pending":
        return "Streams: wait for the streams that still use freed blocks, or free earlier."
    if worst == "private_pool":
        return "Pools: drop the graphs or pools that keep the idle bytes."
    if worst == "oversize":
        return "max_split_size keeps large blocks whole; a larger value lets them be cut."
    if request.settings.expandable_segments:
        return (
            "Fragmentation: enough is idle, but not in one piece; whole free pages had gone back "
            "already, and what is left lies around live blocks."
        )
    return (
        "Fragmentation: enough is idle, but not in one piece. expandable_segments:True lets one "
        "segment grow instead; replay() tells whether that is enough."
    )
