"""A part of a trace as a snapshot of its own: what was there at its end, and how it got there."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.memory.snapshots.columns import chosen_device
from labkit.memory.snapshots.restricted_pickle import SnapshotError
from labkit.memory.snapshots.trace import (
    SEGMENT_ACTIONS,
    Snapshot,
    damage_told,
    entries_of,
    undone,
)
from labkit.memory.snapshots.trace_rows import Array
from labkit.memory.snapshots.trace_table import TraceTable

Entries = Sequence[dict[str, Any]] | TraceTable

MOVES = ("alloc", "free_requested", "free_completed")
OF_SEGMENTS, OTHER = len(MOVES), len(MOVES) + 1
KINDS = {
    **{action: kind for kind, action in enumerate(MOVES)},
    **dict.fromkeys(SEGMENT_ACTIONS, OF_SEGMENTS),
}


def between(snapshot: Snapshot, first: int, last: int, device: int | None = None) -> Snapshot:
    """The snapshot as if it had been taken before entry `last`, its trace beginning at `first`.

    snapshot     its traces may be tables: then no other entry becomes a dict than those in the
                 part, and the few behind it that say what was there before
    first, last  as of a slice: numbers below 0 count from the end
    device       by default the one with the longest trace

    Raises   SnapshotError   there are no entries between the two, or the trace contradicts itself
    """
    with damage_told(f"events {first}:{last}"):
        if device is None:
            device = chosen_device(snapshot["segments"], snapshot["device_traces"])
        return _between(snapshot, first, last, device)


def _between(snapshot: Snapshot, first: int, last: int, device: int) -> Snapshot:
    entries: Entries = entries_of(snapshot, device)
    begin, end, _ = slice(first, last).indices(len(entries))
    if begin >= end:
        raise SnapshotError(f"no entries from {first} to {last}: the trace has {len(entries)}")
    traces: list[Any] = [[] for _ in snapshot["device_traces"]]
    traces[device] = _rows(entries, np.arange(begin, end))
    segments = snapshot["segments"]
    if end < len(entries):
        kind, address = _moves(entries)
        segments = undone(snapshot, _rows(entries, _deciding(kind, address, end)), device)
        _give_stacks(segments, _rows(entries, _last_allocs(kind, address, end, segments)))
    return {**snapshot, "segments": segments, "device_traces": traces}


def _rows(entries: Entries, places: Array) -> list[dict[str, Any]]:
    if isinstance(entries, TraceTable):
        return entries.rows(places)
    return [entries[place] for place in places.tolist()]


def _moves(entries: Entries) -> tuple[Array, Array]:
    """What kind of action each entry is, and its address."""
    if isinstance(entries, TraceTable):
        actions, number = entries.distinct("action", "")
        kind = np.array([KINDS.get(action, OTHER) for action in actions], np.int8)[number]
        of_dicts = [row.get("addr", 0) for row in entries.dicts]
        return kind, entries.numbers("addr", np.array(of_dicts, np.int64))
    count = len(entries)
    kind = np.fromiter((KINDS.get(entry["action"], OTHER) for entry in entries), np.int8, count)
    return kind, np.fromiter((entry.get("addr", 0) for entry in entries), np.int64, count)


def _deciding(kind: Array, address: Array, end: int) -> Array:
    """The entries behind `end` that say what was there: see `undone`."""
    found = [end + np.flatnonzero(kind[end:] == OF_SEGMENTS)]
    for move in range(len(MOVES)):
        places = end + np.flatnonzero(kind[end:] == move)
        found.append(places[np.unique(address[places], return_index=True)[1]])
    return np.sort(np.concatenate(found))


def _last_allocs(kind: Array, address: Array, end: int, segments: list[dict[str, Any]]) -> Array:
    """Where each block that has no stack was allocated last before `end`, if it was."""
    blocks = [block for segment in segments for block in segment["blocks"]]
    wanted = [block["address"] for block in blocks if not block["frames"]]
    is_alloc = kind[:end] == MOVES.index("alloc")
    places = np.flatnonzero(is_alloc & np.isin(address[:end], wanted))[::-1]
    return places[np.unique(address[places], return_index=True)[1]]


def _give_stacks(segments: list[dict[str, Any]], allocs: list[dict[str, Any]]) -> None:
    """What was freed later has no block in the final map: its stack is that of its alloc."""
    stacks = {entry["addr"]: entry.get("frames") for entry in allocs}
    for segment in segments:
        for block in segment["blocks"]:
            if not block["frames"]:
                block["frames"] = stacks.get(block["address"]) or []
