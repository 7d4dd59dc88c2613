"""A snapshot as columns: a number per trace entry instead of a dict, and each stack stored once."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.memory.restricted_pickle import SnapshotError, collector_paused
from labkit.memory.trace_table import TraceTable

ACTIONS = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
    "segment_unmap", "snapshot", "oom",
)  # fmt: skip
STATES = ("inactive", "active_allocated", "active_pending_free")
ADDRESSED = frozenset(ACTIONS) - {"snapshot", "oom"}
MIX = np.uint64(0x9E3779B97F4A7C15)
TODAYS_KEYS = {"address", "requested_size", "state", "frames"}
STATES_OF_OLDER_RELEASES = {"active_awaiting_free": 2}

Array = NDArray[Any]
Frame = tuple[str, str, int]


@dataclass(frozen=True)
class StackTable:
    """Every distinct traceback once; stack 0 is the empty one.

    frames   (function, file, line) of each distinct frame
    starts   [stacks + 1] where each stack begins in `members`
    members  frame numbers, innermost first
    """

    frames: tuple[Frame, ...]
    starts: Array
    members: Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, stack: int) -> list[Frame]:
        return [self.frames[i] for i in self.members[self.starts[stack] : self.starts[stack + 1]]]


@dataclass(frozen=True)
class Columns:
    """What one device's snapshot says, as arrays of equal length per group.

    events    action (index into `actions`), address, size, stream, pool, note, stack, time_us;
              an oom's address is the device's free bytes, as in PyTorch
    segments  address, size, stream, pool, large, expandable, stack
    blocks    address, size (rounded), requested, state (index into STATES), segment, stack
    streams, pools, notes   what the small numbers in the columns stand for; `notes` are the
              recording's user_metadata strings, and number 0 is always the default (0, (0, 0), "")
    """

    device: int
    actions: tuple[str, ...]
    streams: tuple[int, ...]
    pools: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]
    events: dict[str, Array]
    segments: dict[str, Array]
    blocks: dict[str, Array]
    stacks: StackTable
    settings: dict[str, Any]

    def __len__(self) -> int:
        return len(self.events["action"])


def columns(snapshot: Mapping[str, Any], device: int | None = None) -> Columns:
    """The snapshot of one device in columns; keys that older releases lack get PyTorch's defaults.

    snapshot  as `labkit.memory.snapshot.load` or `torch.cuda.memory._snapshot()` returns it
    device    which one; by default the device with the longest trace, else the first that has
              segments

    Raises   SnapshotError   an entry lacks what every release wrote, or holds the wrong kind of
                             value; the message names the entry
    """
    with collector_paused():
        return _columns(snapshot, device)


def _columns(snapshot: Mapping[str, Any], device: int | None) -> Columns:
    segments = _rows(snapshot.get("segments", []), "segments")
    traces = snapshot.get("device_traces", [])
    if not isinstance(traces, list | tuple):
        raise SnapshotError(f"device_traces is a {type(traces).__name__}, not a list of traces")
    device = _chosen_device(segments, traces) if device is None else device
    trace = traces[device] if device < len(traces) else []
    segments = [segment for segment in segments if segment.get("device", 0) == device]
    blocks, owner = _blocks(segments)

    streams, pools, notes = _Codes(0), _Codes((0, 0)), _Codes("")
    actions = _Codes(*ACTIONS)
    if isinstance(trace, TraceTable):
        events, trace_frames, of_row = _stepped_events(trace, actions, streams, pools, notes)
    else:
        rows = _rows(trace, f"device_traces[{device}]")
        events, trace_frames = _events(rows, actions, streams, pools, notes)
        of_row = np.arange(len(rows))
    segment_columns = {
        "address": _numbers(segments, "address", "segments"),
        "size": _numbers(segments, "total_size", "segments"),
        "stream": _coded(segments, "stream", streams, "segments", operator.index, np.int32, 0),
        "pool": _coded(segments, "segment_pool_id", pools, "segments", _pool_id, np.int32, (0, 0)),
        "large": np.array([s.get("segment_type", "large") != "small" for s in segments], np.uint8),
        "expandable": np.array([bool(s.get("is_expandable")) for s in segments], np.uint8),
    }
    states = _Codes(*STATES)
    states.update(STATES_OF_OLDER_RELEASES)
    block_columns = {
        "address": _numbers(blocks, "address", "blocks"),
        "size": _numbers(blocks, "size", "blocks"),
        "requested": _numbers(blocks, "requested_size", "blocks"),
        "state": _coded(blocks, "state", states, "blocks", _string, np.uint8),
        "segment": owner,
    }
    tracebacks = [trace_frames, *(_field(rows, "frames", ()) for rows in (segments, blocks))]
    numbers, stacks = _stack_table([frames for group in tracebacks for frames in group])
    for table, group in zip((events, segment_columns, block_columns), tracebacks, strict=True):
        table["stack"], numbers = numbers[: len(group)], numbers[len(group) :]
    events["stack"] = events["stack"][of_row]
    settings = snapshot.get("allocator_settings")
    return Columns(
        device=device,
        actions=tuple(actions),
        streams=tuple(streams),
        pools=tuple(pools),
        notes=tuple(notes),
        events=events,
        segments=segment_columns,
        blocks=block_columns,
        stacks=stacks,
        settings=dict(settings) if isinstance(settings, dict) else {},
    )


def _events(
    rows: list[dict[str, Any]], actions: "_Codes", streams: "_Codes", pools: "_Codes",
    notes: "_Codes",
) -> tuple[dict[str, Array], list[Any]]:  # fmt: skip
    """The columns of a trace of dicts, and the traceback of each row."""
    where = "device trace"
    events = {
        "action": _coded(rows, "action", actions, where, _string, np.uint8),
        "address": _addresses(rows),
        "size": _numbers(rows, "size", where),
        "stream": _coded(rows, "stream", streams, where, operator.index, np.int32, 0),
        "pool": _coded(rows, "pool_id", pools, where, _pool_id, np.int32, (0, 0)),
        "note": _coded(rows, "user_metadata", notes, where, _string, np.int32, ""),
        "time_us": _numbers(rows, "time_us", where, 0),
    }
    return events, _field(rows, "frames", ())


def _stepped_events(
    trace: TraceTable, actions: "_Codes", streams: "_Codes", pools: "_Codes", notes: "_Codes"
) -> tuple[dict[str, Array], list[Any], Array]:
    """The columns of a trace read fast, distinct tracebacks, and which of them each row has."""
    rows, where = trace.dicts, "device trace"

    def coded(key: str, codes: _Codes, convert: Callable[[Any], Any], default: Any) -> Array:
        values, of_row = trace.distinct(key, default)
        dtype = np.uint8 if codes is actions else np.int32
        return np.array([codes[convert(value)] for value in values], dtype)[of_row]

    events = {
        "action": coded("action", actions, _string, None),
        "address": trace.numbers("addr", _addresses(rows)),
        "size": trace.numbers("size", _numbers(rows, "size", where)),
        "stream": coded("stream", streams, operator.index, 0),
        "pool": coded("pool_id", pools, _pool_id, (0, 0)),
        "note": coded("user_metadata", notes, _string, ""),
        "time_us": trace.numbers("time_us", _numbers(rows, "time_us", where, 0)),
    }
    return events, *trace.distinct("frames", ())


class _Codes(dict[Any, Any]):
    """Small numbers for values, in the order in which they first appear."""

    def __init__(self, *known: Any) -> None:
        super().__init__((value, number) for number, value in enumerate(known))

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


def _rows(value: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise SnapshotError(f"{name} is a {type(value).__name__}, not a list")
    kinds = set(map(type, value))
    if kinds - {dict}:
        wrong = next(i for i, row in enumerate(value) if type(row) is not dict)
        raise SnapshotError(f"{name}[{wrong}] is a {type(value[wrong]).__name__}, not a dict")
    return list(value)


def _chosen_device(segments: list[dict[str, Any]], traces: Sequence[Any]) -> int:
    kinds = (list, tuple, TraceTable)
    lengths = [len(trace) if isinstance(trace, kinds) else 0 for trace in traces]
    if any(lengths):
        return lengths.index(max(lengths))
    devices = [segment.get("device", 0) for segment in segments]
    if not all(isinstance(device, int) and device >= 0 for device in devices):
        raise SnapshotError(f"segments name the devices {devices[:8]!r}; a device is 0 or more")
    return min(devices, default=0)


def _field(rows: list[dict[str, Any]], key: str, default: Any = None) -> list[Any]:
    """One value per row; without a default a missing key is an error that names the row."""
    try:
        return list(map(operator.itemgetter(key), rows))
    except KeyError:
        return [row.get(key, default) for row in rows]


def _numbers(rows: list[dict[str, Any]], key: str, where: str, default: Any = None) -> Array:
    try:  # without a list in between: the usual case
        return np.fromiter(map(operator.itemgetter(key), rows), np.int64, len(rows))
    except (KeyError, TypeError, ValueError, OverflowError):
        return _integers(_field(rows, key, default), key, where)


def _integers(values: list[Any], key: str, where: str) -> Array:
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        _refuse(values, key, where, lambda value: np.int64(operator.index(value)))
        raise


def _coded(
    rows: list[dict[str, Any]],
    key: str,
    codes: _Codes,
    where: str,
    convert: Callable[[Any], Any],
    dtype: Any,
    default: Any = None,
) -> Array:
    found = map(operator.itemgetter(key), rows)
    try:
        coded = np.fromiter(map(codes.__getitem__, found), dtype, len(rows))
        for value in codes:  # few: one per distinct value
            convert(value)
    except (KeyError, TypeError, ValueError, OverflowError):  # lists, say, in place of tuples
        values = _field(rows, key, default)
        _refuse(values, key, where, convert)
        coded = np.fromiter(map(codes.__getitem__, map(convert, values)), dtype, len(values))
    return coded


def _pool_id(value: Any) -> tuple[int, int]:
    first, second = value
    return (operator.index(first), operator.index(second))


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _refuse(values: list[Any], key: str, where: str, convert: Callable[[Any], Any]) -> None:
    """Raise for the first value that does not convert; return when all of them do."""
    for row, value in enumerate(values):
        try:
            convert(value)
        except (TypeError, ValueError, OverflowError):
            shown = "missing" if value is None else f"{str(value)[:60]!r}"
            wanted = WANTED.get(convert, "a whole number below 2**63")
            raise SnapshotError(f"{where}[{row}]: {key} is {shown}, not {wanted}") from None


WANTED: dict[Any, str] = {_string: "a str", _pool_id: "a pair of numbers"}


def _addresses(trace: list[dict[str, Any]]) -> Array:
    """An oom has `device_free` in place of an address; older snapshot entries have neither."""
    try:
        return np.fromiter(map(operator.itemgetter("addr"), trace), np.int64, len(trace))
    except (KeyError, TypeError, ValueError, OverflowError):
        values = [
            entry.get("addr", entry.get("device_free"))
            if entry.get("action") in ADDRESSED or "addr" in entry
            else entry.get("device_free", 0)
            for entry in trace
        ]
        return _integers(values, "addr", "device trace")


def _blocks(segments: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Array]:
    """All blocks with the keys of today's format, and the number of the segment of each."""
    found: list[dict[str, Any]] = []
    owner: list[int] = []
    for number, segment in enumerate(segments):
        blocks = _rows(segment.get("blocks", []), f"segments[{number}].blocks")
        if any(
            "address" not in b or "requested_size" not in b or "frames" not in b for b in blocks
        ):
            blocks = _completed_blocks(blocks, segment, number)
        found.extend(blocks)
        owner.extend(repeat(number, len(blocks)))
    return found, np.array(owner, np.int32)


def _completed_blocks(
    blocks: list[dict[str, Any]], segment: dict[str, Any], number: int
) -> list[dict[str, Any]]:
    """Blocks of older formats: without address (they adjoin), with their frames in `history`."""
    completed = []
    address = segment.get("address", 0)
    for block in blocks:
        size, history = block.get("size"), block.get("history") or [{}]
        if not isinstance(size, int) or not isinstance(history, list | tuple):
            raise SnapshotError(f"segments[{number}] has a block of size {str(size)[:60]!r}")
        latest = history[0] if isinstance(history[0], dict) else {}
        completed.append(
            {
                "address": address,
                "requested_size": latest.get("real_size", size),
                "frames": latest.get("frames", ()),
                "state": "inactive",
                **block,
            }
        )
        address = block.get("address", address) + size
    return completed


def _stack_table(tracebacks: list[Any]) -> tuple[Array, StackTable]:
    """A stack number per traceback, and the table they point into."""
    group_of, leaders = _identical_lists(tracebacks)
    frames: dict[Frame, int] = {}
    frame_by_id: dict[int, int] = {}
    stacks: dict[tuple[int, ...], int] = {(): 0}
    number_of_group = np.zeros(len(leaders), np.int32)
    for position in np.argsort(leaders).tolist():  # by first appearance: the same in every run
        members = []
        for frame in tracebacks[leaders[position]] if position else ():
            number = frame_by_id.get(id(frame))
            if number is None:
                number = frames.setdefault(_frame(frame), len(frames))
                frame_by_id[id(frame)] = number
            members.append(number)
        number_of_group[position] = stacks.setdefault(tuple(members), len(stacks))
    lengths = np.fromiter(map(len, stacks), np.int64, len(stacks))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    members_array = np.fromiter((m for stack in stacks for m in stack), np.int32, int(starts[-1]))
    table = StackTable(tuple(frames), starts, members_array)
    return number_of_group[group_of].astype(np.int32), table


def _frame(frame: Any) -> Frame:
    if isinstance(frame, dict):
        name, filename, line = frame.get("name"), frame.get("filename"), frame.get("line")
        if isinstance(name, str) and isinstance(filename, str) and isinstance(line, int):
            return name, filename, line
        shown = {key: str(value)[:40] for key, value in list(frame.items())[:4]}
        raise SnapshotError(f"frame {shown!r} needs name and filename (str) and line (int)")
    raise SnapshotError(f"a frame is a {type(frame).__name__}, not a dict")


def _identical_lists(lists: list[Any]) -> tuple[Array, list[int]]:
    """Group lists holding the same objects: (group of each list, index of one of each group).

    A fingerprint of a few sampled elements proposes the groups and a whole comparison, which
    stops at once where two elements are the same object, confirms them. Hashing all elements
    instead would take ten times as long: tracebacks have about fifty.
    """
    kinds = set(map(type, lists)) - {list, tuple}
    if kinds:
        raise SnapshotError(f"frames is a {kinds.pop().__name__}, not a list")
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    group_of = np.zeros(len(lists), np.int64)
    leaders = [-1]  # of group 0, the empty lists
    waiting = np.flatnonzero(lengths)
    for fractions in ((0.2, 0.5), (0.0, 0.35, 0.65), (0.1, 0.3, 0.5, 0.7, 0.9)):
        if not len(waiting):
            break
        waiting = _propose_and_confirm(lists, lengths, waiting, fractions, group_of, leaders)
    exact: dict[tuple[int, ...], int] = {}
    for index in waiting.tolist():
        group = exact.setdefault(tuple(map(id, lists[index])), len(leaders))
        if group == len(leaders):
            leaders.append(index)
        group_of[index] = group
    return group_of, leaders


def _propose_and_confirm(
    lists: list[Any],
    lengths: Array,
    waiting: Array,
    fractions: Iterable[float],
    group_of: Array,
    leaders: list[int],
) -> Array:
    """Give groups to the lists whose proposal holds; returns those for which it did not."""
    members = [lists[index] for index in waiting.tolist()]
    size = lengths[waiting]
    fingerprint = size.astype(np.uint64)
    for fraction in fractions:
        sampled = (size * fraction).astype(np.int64).tolist()
        objects = map(id, map(operator.getitem, members, sampled))
        pointer = np.fromiter(objects, np.uint64, len(members))
        fingerprint = (fingerprint * MIX) ^ pointer
    _, first, proposed = np.unique(fingerprint, return_index=True, return_inverse=True)
    models = [members[index] for index in first.tolist()]
    same = np.fromiter(
        map(operator.eq, members, map(models.__getitem__, proposed.tolist())), bool, len(members)
    )
    group_of[waiting[same]] = len(leaders) + proposed[same]
    leaders.extend(waiting[first].tolist())
    unproved: Array = waiting[~same]
    return unproved
