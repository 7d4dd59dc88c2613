"""A recorded history made again with the recorded addresses: every entry must follow.

The device has no rules of its own here. It gives the segment the recording says comes next, and
refuses when the recording says that something else came.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, islice
from typing import Any

from labkit.memory.best_fit import best_fit
from labkit.memory.block import AllocParams
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.recording import Outcome
from labkit.memory.replay.replayer import Replayer
from labkit.memory.replay.restore import restore
from labkit.memory.sizes import is_small, round_size
from labkit.memory.snapshots.trace import (
    Request,
    Snapshot,
    damage_told,
    entries_of,
    requests,
    segments_before,
    settings_of,
)

MOST_GUESSES = 100
"""How many other readings of a recording are tried before the comparison gives up."""

NOWHERE = 0x7F0000000000
"""Where a reservation lies that the recording does not show, because nothing was mapped in it."""


class RecordedDevice(SimulatedDevice):
    """A device that repeats what a recorded trace says it did.

    entries    the recorded trace: the one after those the allocator has made happens now
    total      bytes of the device
    """

    def __init__(self, entries: list[dict[str, Any]], total: int) -> None:
        super().__init__(total)
        self.entries = entries
        self.allocator: CachingAllocator | None = None
        self._nowhere = NOWHERE

    def _next(self) -> dict[str, Any]:
        assert self.allocator is not None, "the device was given its allocator"
        assert self.allocator.history is not None, "the allocator records"
        position = self.allocator.history.total
        return self.entries[position] if position < len(self.entries) else {"action": "end"}

    def malloc(self, size: int) -> int | None:
        """The recorded address when a segment of that size comes next."""
        entry = self._next()
        if entry["action"] != "segment_alloc" or entry["size"] != size:
            return None
        address: int = entry["addr"]
        return address

    def free(self, address: int) -> None:
        """Anything may go back: what was there before the trace was not handed out here."""

    def memory_info(self) -> tuple[int, int]:
        """The recorded free bytes when the next entry is an `oom`."""
        entry = self._next() if self.allocator is not None else {}
        return entry.get("device_free", self.total), self.total

    def reserve(self, size: int) -> int:
        """The recorded address of the first page that this request maps in the end."""
        assert self.allocator is not None, "the device was given its allocator"
        assert self.allocator.history is not None, "the allocator records"
        for entry in islice(self.entries, self.allocator.history.total, None):
            address: int = entry.get("addr", 0)
            if entry["action"] == "segment_map" and address not in self.allocator.segments:
                return address
            if entry["action"] in ("segment_map", "alloc", "oom"):
                break  # the request got no page there: nobody knows where its room was
        self._nowhere += size
        return self._nowhere - size

    def unreserve(self, address: int, size: int) -> None:
        """Room costs nothing."""

    def create_page(self, size: int) -> int | None:
        """As many as are mapped next."""
        return size if self._next()["action"] == "segment_map" else None

    def release_page(self, page: int) -> None:
        """Nothing is counted."""

    def map_page(self, address: int, size: int, page: int) -> None:
        """Nothing is counted."""

    def unmap_page(self, address: int, size: int) -> None:
        """Nothing is counted."""


def replay_exactly(
    snapshot: Snapshot,
    *,
    device_total: int = 2**40,
    memory_fraction: float | None = None,
    orders_by_birth: bool | None = None,
    device: int = 0,
    title: str = "snapshot",
) -> Outcome:
    """Make the recorded requests again and compare each trace entry, then the memory map.

    device_total     bytes; the fraction and the reservations of expandable segments follow it
    memory_fraction  the one in force during the recording, which no snapshot shows
    orders_by_birth  how equal free blocks tie: True, the older segment's first, as from 2.13 on;
                     False, the lower address; None, whichever follows the recording further

    Differs  Births of segments older than the trace are not recorded: they count by address.
    """
    orders = (True, False) if orders_by_birth is None else (orders_by_birth,)
    with damage_told("replay_exactly"):
        return _best(snapshot, device_total, memory_fraction, orders, device, title)[0]


def explicit_releases(snapshot: Snapshot, device: int = 0) -> set[int]:
    """The trace entries where releases begin that the program asked for with `empty_cache`.

    Only those that might as well belong to the request after them are looked into. Of a trace
    that does not follow exactly, as far as it does.
    """
    entries = entries_of(snapshot, device)
    if not any(request.unsure for request in requests(entries)):
        return set()
    best = _best(snapshot, 2**40, None, (True, False), device, "")
    kept = [index for index, entry in enumerate(entries) if entry["action"] != "snapshot"]
    return {kept[index] for index in best[1]}


def _best(
    snapshot: Snapshot,
    device_total: int,
    memory_fraction: float | None,
    orders: tuple[bool, ...],
    device: int,
    title: str,
) -> tuple[Outcome, set[int]]:
    """The first order that gives the whole recording, else the one that gives most of it.

    No file names its release; the first reuse of one of two equal free blocks gives it away.
    """
    attempts = []
    for births in orders:
        attempts.append(_replay(snapshot, device_total, memory_fraction, births, device, title))
        if attempts[-1][0].difference is None:
            return attempts[-1]
    return max(attempts, key=lambda attempt: sum(attempt[0].equal.values()))


def _replay(
    snapshot: Snapshot,
    device_total: int,
    memory_fraction: float | None,
    orders_by_birth: bool,
    device: int,
    title: str,
) -> tuple[Outcome, set[int]]:
    """The outcome, and the entries of the releases that were explicit.

    Where the entries leave a choice the likelier reading is taken. When the recording is not
    followed to its end, the other readings are tried one at a time, the latest choice first, and
    one that is followed further is kept.
    """
    entries = [entry for entry in entries_of(snapshot, device) if entry["action"] != "snapshot"]

    def attempt(readings: dict[int, int]) -> tuple[Outcome, _Readings]:
        recorded = RecordedDevice(entries, device_total)
        settings = settings_of(snapshot)
        allocator = CachingAllocator(
            recorded, settings, memory_fraction, device=device, orders_by_birth=orders_by_birth
        )
        recorded.allocator = allocator
        taken = _Readings(allocator, readings)
        return _attempt(recorded, allocator, snapshot, taken, title), taken

    best, taken = attempt({})
    others = taken.others()
    for _ in range(MOST_GUESSES):
        other = next(others, None)
        if best.difference is None or other is None:
            break
        outcome, new = attempt(other)
        if outcome.equal.total() > best.equal.total():
            best, taken, others = outcome, new, new.others()
    return best, taken.explicit


EXPLICIT = -1


class _Readings:
    """What each run of completions and releases before a request is taken for.

    chosen     run -> EXPLICIT, or the entry from which on the request did it all, waiting for
               every pending block once it had found no room; the rest is read as is likely
    explicit   releases that were read as an `empty_cache`
    """

    def __init__(self, allocator: CachingAllocator, chosen: dict[int, int]) -> None:
        self._allocator = allocator
        self._chosen = chosen
        self._choices: dict[int, list[int]] = {}
        self._likely: dict[int, int] = {}
        self.explicit: set[int] = set()

    def was_emptied(self, release: Request) -> bool:
        """Whether the program asked for these releases: likely when the request behind them would
        have been served from the cache.
        """
        choices = self._choices.setdefault(release.run, [])
        choices[:0] = [EXPLICIT, release.run]
        likely = EXPLICIT if _would_find(self._allocator, release) else release.run
        self._likely[release.run] = likely
        if self._chosen.get(release.run, likely) == EXPLICIT:
            self.explicit.add(release.entry)
            return True
        return False

    def was_waited_for(self, completion: Request) -> bool:
        """Whether the request behind the run waited for this, and not the one before it."""
        run = completion.run
        if run < 0:
            return False
        if completion.entry < run:
            self._choices.setdefault(run, []).append(completion.entry)
        since = self._chosen.get(run, self._likely.setdefault(run, run))
        return since != EXPLICIT and completion.entry >= since

    def others(self) -> Iterator[dict[int, int]]:
        """Every reading that differs from this one in one run, the latest run first."""
        for run in sorted(self._choices, reverse=True):
            taken = self._chosen.get(run, self._likely[run])
            for choice in self._choices[run]:
                if choice != taken:
                    yield {**self._chosen, run: choice}


def _would_find(allocator: CachingAllocator, request: Request) -> bool:
    """True when the request would be served from the cache."""
    settings = allocator.settings
    size = round_size(request.size, settings.divisions)
    known = request.pool in allocator.private_pools
    pools = allocator.private_pools[request.pool] if known else allocator.default_pools
    pool = pools.of(is_small(size))
    params = AllocParams(request.size, size, pool, request.stream, settings.expandable_segments)
    return best_fit(params, settings) is not None


def _attempt(
    recorded: RecordedDevice,
    allocator: CachingAllocator,
    snapshot: Snapshot,
    readings: _Readings,
    title: str,
) -> Outcome:
    outcome = Outcome()
    device, entries = allocator.device, recorded.entries
    allocator.record_memory_history("all", None, clock=lambda: 0)
    replayer = Replayer(allocator, recorded, readings.was_emptied)
    segments = segments_before(snapshot, 0, device)
    restore(allocator, segments)
    pending = replayer.start_with(segments)
    compared = 0
    for request in requests(entries, pending):
        if request.kind == "complete" and readings.was_waited_for(request):
            continue
        # a refusal that was not recorded shows as a different trace entry
        with suppress(OutOfMemoryError):
            replayer.make(request)
        compared = _compare_new(outcome, title, allocator, entries, compared)
        if outcome.difference is not None:
            return outcome
    outcome.check("trace lengths", title, compared, len(entries))
    _compare_map(outcome, title, allocator, snapshot, device)
    return outcome


def _compare_new(
    outcome: Outcome,
    title: str,
    allocator: CachingAllocator,
    entries: list[dict[str, Any]],
    compared: int,
) -> int:
    assert allocator.history is not None, "the allocator records"
    ours = [
        [entry.action, entry.address, entry.size, entry.stream, entry.pool]
        for entry in allocator.history.since(compared)
    ]
    theirs = [_compared(entry) for entry in entries[compared : compared + len(ours)]]
    theirs += [["end", None, None, None, (0, 0)]] * (len(ours) - len(theirs))
    _same_order_of_waiting(ours, theirs)
    for entry, expected in zip(ours, theirs, strict=True):
        if not outcome.check("trace entries", f"{title}, entry {compared}", entry, expected):
            return compared
        compared += 1
    return compared


def _compared(entry: dict[str, Any]) -> list[Any]:
    address = entry.get("device_free", entry.get("addr"))
    pool = tuple(entry.get("pool_id", (0, 0)))
    return [entry["action"], address, entry.get("size"), entry.get("stream"), pool]


def _same_order_of_waiting(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    """Let the blocks that one request waited for become free in the recorded order.

    PyTorch takes the streams in the order of a hash table of their ids, which no snapshot holds.
    """
    start = 0
    for waited, group in groupby(ours, lambda entry: entry[0] == "free_completed"):
        end = start + len(list(group))
        if waited and sorted(ours[start:end], key=repr) == sorted(theirs[start:end], key=repr):
            ours[start:end] = theirs[start:end]
        start = end


def _compare_map(
    outcome: Outcome, title: str, allocator: CachingAllocator, snapshot: Snapshot, device: int
) -> None:
    ours = {segment["address"]: segment for segment in allocator.memory_map()}
    for recorded in snapshot["segments"]:
        if recorded.get("device", 0) == device:
            where = f"{title}, segment {recorded['address']:#x} at the end"
            mine = ours.pop(recorded["address"], None)
            if not outcome.check("segments", where, _layout(mine), _layout(recorded)):
                return
    outcome.check("segment counts", title, len(ours), 0)


def _layout(segment: dict[str, Any] | None) -> Any:
    if segment is None:
        return None
    same = ("total_size", "allocated_size", "active_size", "stream", "segment_type")
    blocks, address = [], segment["address"]
    for block in segment["blocks"]:
        blocks.append((address, block["size"], block["state"]))
        address += block["size"]
    return [segment[name] for name in same], blocks
