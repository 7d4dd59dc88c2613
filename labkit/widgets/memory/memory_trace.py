"""A memory trace as plain columns: coded for travel, cut to size, and read at any entry."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Trace = Mapping[str, Any]
"""events, segments, blocks: name -> array, as a snapshot's columns; actions, streams, pools, notes:
what their small numbers mean; frames [(function, file, line)], stack_starts, stack_members;
settings; sizes {min_block, small_segment, large_remainder} in bytes; optionally decisions
{entry number: {...}} and regions [(name, first entry, the one behind the last, depth)]."""

SEGMENT_ACTIONS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


def encode(trace: Trace) -> tuple[dict[str, Any], dict[str, Array]]:
    """The trace as (what travels as JSON, columns for `pack_columns`).

    Addresses become ranks in one sorted table, so that a reader can index arrays with them.
    """
    events, blocks, segments = trace["events"], trace["blocks"], trace["segments"]
    oom = events["action"] == _code(trace, "oom")
    table = np.unique(np.concatenate([events["address"][~oom], blocks["address"]]))
    place = np.searchsorted(table, events["address"])
    place[oom] = 0  # an oom's address is a count of free bytes
    strings: dict[str, int] = {}
    frames = trace["frames"]
    packed = {
        "action": events["action"].astype(np.uint8),
        "place": place,
        "size": events["size"],
        "stream": _smallest(events["stream"]),
        "pool": _smallest(events["pool"]),
        "note": _smallest(events["note"]),
        "stack": _smallest(events["stack"]),
        "time": events["time_us"] - (events["time_us"][0] if len(oom) else 0),
        "addresses": table,
        **{f"segment_{name}": values for name, values in segments.items()},
        **{f"block_{name}": values for name, values in blocks.items() if name != "address"},
        "block_place": np.searchsorted(table, blocks["address"]),
        "frame_name": np.array([strings.setdefault(f[0], len(strings)) for f in frames], np.int32),
        "frame_file": np.array([strings.setdefault(f[1], len(strings)) for f in frames], np.int32),
        "frame_line": np.array([f[2] for f in frames], np.int32),
        "stack_starts": trace["stack_starts"],
        "stack_members": trace["stack_members"],
    }
    meta = {
        "actions": list(trace["actions"]),
        "streams": [str(stream) for stream in trace["streams"]],
        "pools": [list(pool) for pool in trace["pools"]],
        "notes": list(trace["notes"]),
        "strings": list(strings),
        "settings": trace.get("settings", {}),
        "sizes": dict(trace["sizes"]),
        "ooms": {str(i): int(events["address"][i]) for i in np.flatnonzero(oom)},
        "decisions": {str(i): why for i, why in trace.get("decisions", {}).items()},
        "regions": [list(region) for region in trace.get("regions", ())],
        "entries": len(oom),
    }
    return meta, {name: _exact_in_javascript(values) for name, values in packed.items()}


def cut(trace: Trace, keep: int) -> dict[str, Any]:
    """The last `keep` entries with the tables they need; what lived before is still found.

    A block alive at the cut is freed in what is kept, or stands in the final map.
    """
    events = {
        name: values[-keep:] if keep else values[:0] for name, values in trace["events"].items()
    }
    dropped = len(trace["events"]["action"]) - len(events["action"])
    groups = {
        "events": events,
        "segments": dict(trace["segments"]),
        "blocks": dict(trace["blocks"]),
    }
    starts, members = trace["stack_starts"], trace["stack_members"]
    used = np.unique(np.concatenate([[0], *(group["stack"] for group in groups.values())]))
    for group in groups.values():
        group["stack"] = np.searchsorted(used, group["stack"])
    kept = [members[starts[stack] : starts[stack + 1]] for stack in used.tolist()]
    all_members = np.concatenate([np.zeros(0, np.int32), *kept]).astype(np.int32)
    frames = np.unique(all_members)
    return {
        **trace,
        **groups,
        "stack_starts": np.concatenate([[0], np.cumsum([len(stack) for stack in kept])]),
        "stack_members": np.searchsorted(frames, all_members),
        "frames": [trace["frames"][i] for i in frames.tolist()],
        "regions": [
            (name, max(first - dropped, 0), last - dropped, depth)
            for name, first, last, depth in trace.get("regions", ())
            if last > dropped
        ],
        "decisions": {
            i - dropped: why for i, why in trace.get("decisions", {}).items() if i >= dropped
        },
    }


def live_bytes(trace: Trace) -> Array:
    """Bytes in blocks after 0, 1, ... entries; requests are rounded to the smallest block.

    Differs  A block that kept a rest too small to split off counts without that rest.
    """
    blocks, least = trace["blocks"], trace["sizes"]["min_block"]
    size = -(-trace["events"]["size"] // least) * least
    at_end = int(blocks["size"][blocks["state"] > 0].sum())
    return _level(trace, {"alloc": 1, "free_completed": -1}, size, at_end)


def reserved_bytes(trace: Trace) -> Array:
    """Bytes in segments after 0, 1, ... entries."""
    signs = dict(zip(SEGMENT_ACTIONS, (1, -1, 1, -1), strict=True))
    return _level(trace, signs, trace["events"]["size"], int(trace["segments"]["size"].sum()))


def _level(trace: Trace, signs: Mapping[str, int], size: Array, at_end: int) -> Array:
    """Bytes after each entry, when actions add or take away so many and so much is left."""
    sign = np.zeros(len(trace["actions"]), np.int64)
    for action, direction in signs.items():
        sign[_code(trace, action)] = direction
    change = np.concatenate([[0], np.cumsum(sign[trace["events"]["action"]] * size)])
    total: Array = np.maximum(change + max(at_end - int(change[-1]), -int(change.min())), 0)
    return total


def blocks_at(trace: Trace, step: int) -> dict[str, Array]:
    """The blocks alive after `step` entries, by address: address, requested, pending.

    What an address holds is decided by its last alloc or free before; without one by the first
    after (a free means that it was alive); without any by the final map.
    """
    events, blocks = trace["events"], trace["blocks"]
    codes = [_code(trace, name) for name in ("alloc", "free_requested", "free_completed")]
    index = np.flatnonzero(np.isin(events["action"], codes))
    split = int(np.searchsorted(index, step))
    before, after = index[:split][::-1], index[split:]
    known, last = np.unique(events["address"][before], return_index=True)
    last = before[last]
    alive = last[events["action"][last] != codes[2]]
    later, first = np.unique(events["address"][after], return_index=True)
    first = after[first]
    first = first[(events["action"][first] != codes[0]) & ~np.isin(later, known)]
    untouched = (blocks["state"] > 0) & ~np.isin(blocks["address"], np.concatenate([known, later]))
    address = np.concatenate(
        [events["address"][alive], events["address"][first], blocks["address"][untouched]]
    )
    requested = np.concatenate(
        [events["size"][alive], events["size"][first], blocks["requested"][untouched]]
    )
    pending = np.concatenate(
        [
            events["action"][alive] == codes[1],
            events["action"][first] == codes[2],
            blocks["state"][untouched] == 2,
        ]
    )
    order = np.argsort(address, kind="stable")
    return {
        "address": address[order],
        "requested": requested[order],
        "pending": pending[order],
    }


def _code(trace: Trace, action: str) -> int:
    return list(trace["actions"]).index(action)


def _exact_in_javascript(numbers: Array) -> Array:
    """As floats where integers would become BigInt; no allocator hands out such sizes."""
    large = numbers.dtype.kind in "iu" and len(numbers) and int(np.abs(numbers).max()) > 2**53
    return numbers.astype(np.float64) if large else numbers


def _smallest(numbers: Array) -> Array:
    top = int(numbers.max()) if len(numbers) else 0
    return numbers.astype(np.uint8 if top < 256 else np.uint16 if top < 65536 else np.int32)
