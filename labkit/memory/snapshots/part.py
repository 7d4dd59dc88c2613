"""A part of a trace as a snapshot of its own: what was there at its end, and how it got there."""

from typing import Any

from labkit.memory.snapshots.columns import chosen_device
from labkit.memory.snapshots.restricted_pickle import SnapshotError
from labkit.memory.snapshots.trace import Snapshot, damage_told, entries_of, segments_before


def between(snapshot: Snapshot, first: int, last: int, device: int | None = None) -> Snapshot:
    """The snapshot as if it had been taken before entry `last`, its trace beginning at `first`.

    first, last  as of a slice: numbers below 0 count from the end
    device       by default the one with the longest trace

    Raises   SnapshotError   there are no entries between the two, or the trace contradicts itself
    """
    with damage_told(f"events {first}:{last}"):
        if device is None:
            device = chosen_device(snapshot["segments"], snapshot["device_traces"])
        entries = entries_of(snapshot, device)
        begin, end, _ = slice(first, last).indices(len(entries))
        if begin >= end:
            raise SnapshotError(f"no entries from {first} to {last}: the trace has {len(entries)}")
        traces: list[Any] = [[] for _ in snapshot["device_traces"]]
        traces[device] = entries[begin:end]
        segments = snapshot["segments"]
        if end < len(entries):
            segments = segments_before(snapshot, end, device)
            _give_stacks(segments, entries[:end])
        return {**snapshot, "segments": segments, "device_traces": traces}


def _give_stacks(segments: list[dict[str, Any]], entries: list[dict[str, Any]]) -> None:
    """What was freed later has no block in the final map: its stack is that of its last alloc."""
    blocks = [block for segment in segments for block in segment["blocks"]]
    wanted = {block["address"] for block in blocks if not block["frames"]}
    stacks = {
        entry["addr"]: entry.get("frames")
        for entry in entries
        if entry["action"] == "alloc" and entry["addr"] in wanted
    }
    for block in blocks:
        block["frames"] = block["frames"] or stacks.get(block["address"]) or []
