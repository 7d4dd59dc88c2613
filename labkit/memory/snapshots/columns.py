"""A snapshot as columns: a number per trace entry instead of a dict, and each stack stored once."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.memory.block import ALLOCATED, FREE, PENDING
from labkit.memory.history import ACTIONS
from labkit.memory.snapshots.restricted_pickle import SnapshotError, collector_paused, short
from labkit.memory.snapshots.settings_and_regions import Annotation, annotations_of, settings_in
from labkit.memory.snapshots.stack_table import Codes, StackTable, stack_table
from labkit.memory.snapshots.trace_table import TraceTable

STATES = (FREE, ALLOCATED, PENDING)
ADDRESSED = frozenset(ACTIONS) - {"snapshot", "oom"}
MOST_BYTES = 2**62  # all sizes of a column together
STATES_OF_OLDER_RELEASES = {"active_awaiting_free": 2}

Array = NDArray[Any]


@dataclass(frozen=True)
class Columns:
    """What one device's snapshot says, as arrays of equal length per group.

    events    action (index into `actions`), address, size, stream, pool, note, stack, time_us;
              an oom's address is the device's free bytes, as in PyTorch
    segments  address, size, stream, pool, large, expandable, stack
    blocks    address, size (rounded), requested, state (index into STATES), segment, stack
    streams, pools, notes   what the small numbers in the columns stand for; `notes` are the
              recording's user_metadata strings, and number 0 is always the default (0, (0, 0), "")
    settings, annotations   allocator_settings and external_annotations, checked
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
    annotations: tuple[Annotation, ...] = ()

    def __len__(self) -> int:
        return len(self.events["action"])


def columns(snapshot: Mapping[str, Any], device: int | None = None) -> Columns:
    """The snapshot of one device in columns; keys that older releases lack get PyTorch's defaults.

    snapshot  as `snapshots.snapshot.load` or `torch.cuda.memory._snapshot()` returns it
    device    which one; by default the device with the longest trace, else the first that has
              segments

    Raises   SnapshotError   an entry lacks what every release wrote, or holds the wrong kind of
                             value; the message names the entry; or nothing is of that device
    """
    with collector_paused():
        return _columns(snapshot, device)


def _columns(snapshot: Mapping[str, Any], device: int | None) -> Columns:
    segments = _rows(snapshot.get("segments", []), "segments")
    traces = snapshot.get("device_traces", [])
    if not isinstance(traces, list | tuple):
        raise SnapshotError(f"device_traces is a {type(traces).__name__}, not a list of traces")
    device = chosen_device(segments, traces) if device is None else device
    of_segment = _numbers(segments, "device", "segments", 0)
    if device < 0 or (device >= max(len(traces), 1) and device not in of_segment):
        raise SnapshotError(
            f"nothing in the snapshot is of device {device}: it has traces of {len(traces)} "
            f"devices, and segments of {sorted(set(of_segment.tolist()))[:8]}"
        )
    trace = traces[device] if device < len(traces) else []
    large = _coded(segments, "segment_type", Codes("small"), "segments", _string, bool, "large")
    expandable = _coded(segments, "is_expandable", Codes(False), "segments", _bool, bool, False)
    here = np.flatnonzero(of_segment == device)
    segments = [segments[i] for i in here.tolist()]
    blocks, owner = _blocks(segments)

    streams, pools, notes = Codes(0), Codes((0, 0)), Codes("")
    actions = Codes(*ACTIONS)
    if isinstance(trace, TraceTable):
        events, trace_frames, of_row = _stepped_events(trace, actions, streams, pools, notes)
    else:
        rows = _rows(trace, f"device_traces[{device}]")
        events, trace_frames = _events(rows, actions, streams, pools, notes)
        of_row = np.arange(len(rows))
    segment_columns = {
        "address": _numbers(segments, "address", "segments"),
        "size": _sizes(_numbers(segments, "total_size", "segments"), "total_size", "segments"),
        "stream": _coded(segments, "stream", streams, "segments", _handle, np.int32, 0),
        "pool": _coded(segments, "segment_pool_id", pools, "segments", _pool_id, np.int32, (0, 0)),
        "large": large[here].astype(np.uint8),
        "expandable": expandable[here].astype(np.uint8),
    }
    states = Codes(*STATES)
    states.update(STATES_OF_OLDER_RELEASES)
    block_columns = {
        "address": _numbers(blocks, "address", "blocks"),
        "size": _sizes(_numbers(blocks, "size", "blocks"), "size", "blocks"),
        "requested": _sizes(
            _numbers(blocks, "requested_size", "blocks"), "requested_size", "blocks"
        ),
        "state": _coded(blocks, "state", states, "blocks", _string, np.uint8),
        "segment": owner,
    }
    tracebacks = [trace_frames, *(_field(rows, "frames", ()) for rows in (segments, blocks))]
    numbers, stacks = stack_table([frames for group in tracebacks for frames in group])
    for table, group in zip((events, segment_columns, block_columns), tracebacks, strict=True):
        table["stack"], numbers = numbers[: len(group)], numbers[len(group) :]
    events["stack"] = events["stack"][of_row]
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
        settings=settings_in(snapshot),
        annotations=annotations_of(snapshot, device),
    )


def _events(
    rows: list[dict[str, Any]], actions: Codes, streams: Codes, pools: Codes,
    notes: Codes,
) -> tuple[dict[str, Array], list[Any]]:  # fmt: skip
    """The columns of a trace of dicts, and the traceback of each row."""
    where = "device trace"
    events = {
        "action": _coded(rows, "action", actions, where, _string, np.uint8),
        "address": _addresses(rows),
        "size": _sizes(_numbers(rows, "size", where), "size", where),
        "stream": _coded(rows, "stream", streams, where, _handle, np.int32, 0),
        "pool": _coded(rows, "pool_id", pools, where, _pool_id, np.int32, (0, 0)),
        "note": _coded(rows, "user_metadata", notes, where, _string, np.int32, ""),
        "time_us": _numbers(rows, "time_us", where, 0),
    }
    return events, _field(rows, "frames", ())


def _stepped_events(
    trace: TraceTable, actions: Codes, streams: Codes, pools: Codes, notes: Codes
) -> tuple[dict[str, Array], list[Any], Array]:
    """The columns of a trace read fast, distinct tracebacks, and which of them each row has."""
    rows, where = trace.dicts, "device trace"

    def coded(key: str, codes: Codes, convert: Callable[[Any], Any], default: Any) -> Array:
        values, of_row = trace.distinct(key, default)
        dtype = np.uint8 if codes is actions else np.int32
        return np.array([codes[convert(value)] for value in values], dtype)[of_row]

    events = {
        "action": coded("action", actions, _string, None),
        "address": trace.numbers("addr", _addresses(rows)),
        "size": _sizes(trace.numbers("size", _numbers(rows, "size", where)), "size", where),
        "stream": coded("stream", streams, _handle, 0),
        "pool": coded("pool_id", pools, _pool_id, (0, 0)),
        "note": coded("user_metadata", notes, _string, ""),
        "time_us": trace.numbers("time_us", _numbers(rows, "time_us", where, 0)),
    }
    return events, *trace.distinct("frames", ())


def _rows(value: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise SnapshotError(f"{name} is a {type(value).__name__}, not a list")
    kinds = set(map(type, value))
    if kinds - {dict}:
        wrong = next(i for i, row in enumerate(value) if type(row) is not dict)
        raise SnapshotError(f"{name}[{wrong}] is a {type(value[wrong]).__name__}, not a dict")
    return list(value)


def chosen_device(segments: list[dict[str, Any]], traces: Sequence[Any]) -> int:
    """The device with the longest trace, else the first that has segments.

    Raises   SnapshotError   a segment names no device
    """
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
    return _integers(_field(rows, key, default), key, where)


def _sizes(values: Array, key: str, where: str) -> Array:
    """The sizes, which can be added up."""
    if len(values) and np.abs(values.astype(float)).sum() >= MOST_BYTES:
        row = int(np.abs(values.astype(float)).argmax())
        raise SnapshotError(f"{where}[{row}]: {key} is {values[row]}; no device has so many bytes")
    return values


def _integers(values: list[Any], key: str, where: str) -> Array:
    try:
        if set(map(type, values)) - {int}:  # NumPy would cut 1.5 to 1
            values = list(map(operator.index, values))
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        _refuse(values, key, where, lambda value: np.int64(operator.index(value)))
        raise


def _coded(
    rows: list[dict[str, Any]],
    key: str,
    codes: Codes,
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


def _handle(value: Any) -> int:
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise OverflowError
    return number


def _pool_id(value: Any) -> tuple[int, int]:
    first, second = value
    return (_handle(first), _handle(second))


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


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
            shown = "missing" if value is None else repr(short(value))
            wanted = WANTED.get(convert, "a whole number below 2**63")
            raise SnapshotError(f"{where}[{row}]: {key} is {shown}, not {wanted}") from None


WANTED: dict[Any, str] = {
    _string: "a str",
    _bool: "a bool",
    _pool_id: "a pair of numbers",
    _handle: "a whole number of 64 bits",
}


def _addresses(trace: list[dict[str, Any]]) -> Array:
    """An oom has `device_free` in place of an address; older snapshot entries have neither."""
    try:
        values = list(map(operator.itemgetter("addr"), trace))
    except KeyError:
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
            raise SnapshotError(f"segments[{number}] has a block of size {short(size)!r}")
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
