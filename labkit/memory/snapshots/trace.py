"""A recorded trace read backwards into a start, and forwards into requests.

A snapshot shows the end, and its trace how it got there. What is in the trace but not caused by
the allocator itself (requests, frees, `empty_cache`) can be made again; all else must follow.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from labkit.memory.block import ALLOCATED, FREE, PENDING
from labkit.memory.history import MempoolId
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import SMALL_SEGMENT_SIZE, is_cut_off, round_size
from labkit.memory.snapshots.restricted_pickle import SnapshotError

Snapshot = dict[str, Any]
Kind = Literal["malloc", "free", "complete", "empty_cache"]

_RELEASES = {"segment_free", "segment_unmap"}
_GROWTHS = {"segment_alloc", "segment_map"}
SEGMENT_ACTIONS = _RELEASES | _GROWTHS
_CLEARANCE = {*_RELEASES, "free_completed"}


@dataclass(frozen=True)
class Request:
    """One call the program made, or a pending block that became free.

    entry    index of its trace entry; for `empty_cache` of the first release
    address  what the recording got or gave back
    size     requested bytes; for a request that ran out, its rounded size
    waits    free: the block stayed pending
    ran_out  malloc: it found no room
    unsure   empty_cache: the releases may as well belong to the request that comes next, whose
             size, stream and pool are given; they do not if it would have found a cached block
    run      the first release, or the failure, of the run of entries this one is part of. A request
             that finds no room waits for every pending block: the run may be its own doing
    """

    kind: Kind
    entry: int
    address: int = 0
    size: int = 0
    stream: int = 0
    pool: MempoolId = (0, 0)
    waits: bool = False
    ran_out: bool = False
    unsure: bool = False
    run: int = -1


@contextmanager
def damage_told(doing: str) -> Iterator[None]:
    """What a trace without its keys, or with impossible sizes, leads to inside is one error.

    Raises   SnapshotError   in place of whatever the damage caused; that is its cause
    """
    try:
        yield
    except SnapshotError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise SnapshotError(
            f"{doing}: the recording contradicts itself ({type(error).__name__}: {error})"
        ) from error


def entries_of(snapshot: Snapshot, device: int = 0) -> list[dict[str, Any]]:
    """The trace of one device, oldest entry first.

    Raises   SnapshotError   the snapshot has no trace of that device
    """
    traces = snapshot.get("device_traces") or []
    if not 0 <= device < len(traces):
        raise SnapshotError(f"the snapshot has traces of {len(traces)} devices, not of {device}")
    entries: list[dict[str, Any]] = traces[device]
    return entries


def settings_of(snapshot: Snapshot) -> AllocatorSettings:
    """The settings the recording was made with, as far as they are known here."""
    recorded = snapshot.get("allocator_settings") or {}
    text = recorded.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    for cuda in (True, False):  # the latter passes over keys of other releases
        with suppress(ValueError, RuntimeError, IndexError, TypeError):
            return AllocatorSettings.parse(text, cuda=cuda)
    return AllocatorSettings(text=str(text))


def requests(entries: Sequence[dict[str, Any]], pending: Collection[int] = ()) -> Iterator[Request]:
    """What the program asked for, in order.

    pending  addresses of blocks that were waiting for another stream before the first entry

    Releases that are followed by growth or by running out mostly belong to a request, and are
    `unsure`; others are an `empty_cache`.
    """
    pending = set(pending)
    run = _Run(-1, 0)
    for index, entry in enumerate(entries):
        action = entry["action"]
        if action == "oom":
            yield Request("malloc", index, 0, ran_out=True, **_common(entry))
            continue
        if action == "snapshot" or action in _GROWTHS:
            continue
        address = entry["addr"]
        if action in _CLEARANCE and index >= run.end:
            run = _run_from(entries, index)
        if action == "alloc":
            yield Request("malloc", index, address, **_common(entry))
        elif action == "free_requested":
            following = entries[index + 1] if index + 1 < len(entries) else {}
            done = following.get("action") == "free_completed" and following["addr"] == address
            if not done:
                pending.add(address)
            yield Request("free", index, address, waits=not done, **_common(entry))
        elif action == "free_completed" and address in pending:
            pending.remove(address)
            yield Request("complete", index, address, run=run.first, **_common(entry))
        elif index == run.first and action in _RELEASES:
            if run.cause is not None:
                yield Request("empty_cache", index, unsure=True, run=index, **_common(run.cause))
            else:
                released = entries[index : run.end]
                pools = {_pool(one) for one in released if one["action"] in _RELEASES}
                yield Request("empty_cache", index, pool=pools.pop() if len(pools) == 1 else (0, 0))


class _Run(NamedTuple):
    """Completions and releases without anything between.

    first  the first release; without one the failure behind the run; -1 when neither is there
    end    one past its last entry
    cause  the request behind it that grew or ran out, if one did
    """

    first: int
    end: int
    cause: dict[str, Any] | None = None


def _run_from(entries: Sequence[dict[str, Any]], start: int) -> _Run:
    end, first = start, -1
    while end < len(entries) and entries[end]["action"] in _CLEARANCE:
        if first < 0 and entries[end]["action"] in _RELEASES:
            first = end
        end += 1
    behind = end
    while behind < len(entries) and entries[behind]["action"] in _GROWTHS:
        behind += 1
    grew = behind > end
    if behind == len(entries) or not (grew or entries[behind]["action"] == "oom"):
        return _Run(first, end)
    return _Run(end if first < 0 and not grew else first, end, entries[behind])


def segments_before(snapshot: Snapshot, entry: int = 0, device: int = 0) -> list[dict[str, Any]]:
    """The memory map just before trace entry number `entry`, in the snapshot's own format.

    The trace is undone from its end. A freed block's rounded size is not recorded, but free room
    of at most 1 MiB behind a block of the large pool can only belong to the block, and so can what
    lies before the first allocation behind it. The map is exact unless `max_split_size` is set or
    expandable segments are used.
    """
    return undone(snapshot, entries_of(snapshot, device)[entry:], device)


def undone(
    snapshot: Snapshot, later: Sequence[dict[str, Any]], device: int = 0
) -> list[dict[str, Any]]:
    """The memory map before these last entries of the trace.

    later  all of them, or for each address the first of each action and every segment's: what an
           address held is decided by the first entry of either kind after that moment
    """
    settings = settings_of(snapshot)
    ranges, live = _ranges_and_blocks(snapshot, device)
    for entry in reversed(later):
        action, address = entry["action"], entry.get("addr", 0)
        if action == "alloc":
            live.pop(address, None)
        elif action == "free_completed":
            size = round_size(max(entry["size"], 1), settings.roundup_power2_divisions)
            live[address] = _Live(address, size, entry["size"], PENDING)
        elif action == "free_requested" and address in live:
            live[address].state = ALLOCATED
        elif action in _GROWTHS:
            _remove(ranges, address, entry["size"])
        elif action in _RELEASES:
            _add(ranges, _Range.of_entry(entry, settings.large_segment_size))
    _find_tails(live, later)
    return [_segment(piece, live, device) for piece in sorted(ranges, key=lambda r: r.address)]


@dataclass
class _Live:
    address: int
    size: int
    requested: int
    state: str
    frames: Any = None
    next_start: int = 0  # where the first allocation behind it began while it lived


def _find_tails(live: dict[int, _Live], entries: Sequence[dict[str, Any]]) -> None:
    """Each block knows where memory was first taken behind it: free memory is taken from its start.

    A rest of at most 1 MiB that the block kept ends there, whatever was free behind it.
    """
    starts = sorted(live)
    freed: set[int] = set()
    for entry in entries:
        address = entry.get("addr", 0)
        if entry["action"] == "free_completed":
            freed.add(address)
        elif entry["action"] == "alloc":
            place = bisect_left(starts, address) - 1
            if place < 0 or starts[place] in freed:
                continue
            block = live[starts[place]]
            gap = address - block.address - block.size
            if gap >= 0 and not is_cut_off(gap, finely=False):
                block.next_start = min(block.next_start or address, address)


@dataclass
class _Range:
    address: int
    size: int
    stream: int
    pool: MempoolId
    is_small: bool
    is_expandable: bool

    @classmethod
    def of_entry(cls, entry: dict[str, Any], large_page: int) -> "_Range":
        """What went back to the device: nothing in it was in use, so only its size tells the pool.

        A small segment has 2 MiB and no large one has; expandable ones have pages of their pool.
        """
        address, size = entry["addr"], entry["size"]
        is_expandable = entry["action"] == "segment_unmap"
        is_small = size % large_page != 0 if is_expandable else size == SMALL_SEGMENT_SIZE
        return cls(address, size, entry["stream"], _pool(entry), is_small, is_expandable)


def _ranges_and_blocks(snapshot: Snapshot, device: int) -> tuple[list[_Range], dict[int, _Live]]:
    ranges: list[_Range] = []
    live: dict[int, _Live] = {}
    for segment in snapshot["segments"]:
        if segment.get("device", 0) != device:
            continue
        ranges.append(
            _Range(
                segment["address"],
                segment["total_size"],
                segment["stream"],
                tuple(segment.get("segment_pool_id", (0, 0))),
                segment["segment_type"] == "small",
                segment.get("is_expandable", False),
            )
        )
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)  # older releases leave the sum to the reader
            if block["state"] != FREE:
                state = ALLOCATED if block["state"] == ALLOCATED else PENDING
                requested = block.get("requested_size", block["size"])
                live[address] = _Live(address, block["size"], requested, state, block.get("frames"))
            address += block["size"]
    return ranges, live


def _remove(ranges: list[_Range], address: int, size: int) -> None:
    for index, piece in enumerate(ranges):
        if piece.address <= address and address + size <= piece.address + piece.size:
            del ranges[index]
            before, after = address - piece.address, piece.address + piece.size - address - size
            for start, length in ((piece.address, before), (address + size, after)):
                if length:
                    ranges.append(replace(piece, address=start, size=length))
            return


def _add(ranges: list[_Range], piece: _Range) -> None:
    """Join expandable segments that touch; a plain segment stays one."""
    if piece.is_expandable:
        for other in list(ranges):
            touches = (
                other.address + other.size == piece.address
                or piece.address + piece.size == other.address
            )
            if touches and other.is_expandable and other.stream == piece.stream:
                ranges.remove(other)
                piece.address = min(piece.address, other.address)
                piece.size += other.size
                piece.is_small = other.is_small
    ranges.append(piece)


def _segment(piece: _Range, live: dict[int, _Live], device: int) -> dict[str, Any]:
    end = piece.address + piece.size
    inside = sorted(
        (block for block in live.values() if piece.address <= block.address < end),
        key=lambda block: block.address,
    )
    blocks: list[dict[str, Any]] = []
    position = piece.address
    for index, block in enumerate(inside):
        if block.address > position:
            blocks.append(_block(position, block.address - position, 0, FREE))
        following = inside[index + 1].address if index + 1 < len(inside) else end
        gap = following - block.address - block.size
        size = block.size
        if not piece.is_small and not piece.is_expandable:
            if not is_cut_off(gap, finely=False):
                size += gap
            elif block.next_start:
                size = block.next_start - block.address
        blocks.append(_block(block.address, size, block.requested, block.state, block.frames))
        position = block.address + size
    if position < end:
        blocks.append(_block(position, end - position, 0, FREE))
    active = [block for block in blocks if block["state"] != FREE]
    return {
        "device": device,
        "address": piece.address,
        "total_size": piece.size,
        "allocated_size": sum(b["size"] for b in active if b["state"] == ALLOCATED),
        "active_size": sum(block["size"] for block in active),
        "requested_size": sum(block["requested_size"] for block in active),
        "stream": piece.stream,
        "segment_type": "small" if piece.is_small else "large",
        "segment_pool_id": piece.pool,
        "is_expandable": piece.is_expandable,
        "frames": [],
        "blocks": blocks,
    }


def _block(
    address: int, size: int, requested: int, state: str, frames: Any = None
) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": frames or [],
    }


def _pool(entry: dict[str, Any]) -> MempoolId:
    first, second = entry.get("pool_id", (0, 0))
    return first, second


def _common(entry: dict[str, Any]) -> dict[str, Any]:
    return {"size": entry["size"], "stream": entry["stream"], "pool": _pool(entry)}
