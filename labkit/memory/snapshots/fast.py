"""A snapshot's file read without building its rows: the fast way in, and it may give up.

Against unpickling every row it takes a third of the processor time and 0.43 of the memory at a
million entries with stacks; `benchmarks/bench_snapshot.py` measures both.

`NotRegular` means that the file is written in another way than Python's pickler writes a snapshot
of PyTorch; then `restricted_pickle` reads it or says what is wrong. What is read here equals what
it would read: no row is stepped over whose bytes are not all accounted for. (Damage in a text that
nobody asks for, such as a compile_context, may go unnoticed.)
"""

import io
from collections.abc import Callable
from typing import Any, BinaryIO

from labkit.memory.snapshots.plain_machine import NotRegular, PlainMachine
from labkit.memory.snapshots.trace_rows import PADDING, ROW_START, RowReader
from labkit.memory.snapshots.trace_table import SteppedRows, TraceTable

FRAME = 0x95
START = b"\x80"  # PROTO
OLDEST, NEWEST = 4, 5
ROW_KEY = "action"
READ_SHARE = 0.3  # of the time, for the bytes


def read_fast(
    file: BinaryIO, size: int, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """The snapshot's dict with a `TraceTable` in place of each trace.

    Raises   NotRegular   read it in another way
    """
    data = _without_frames(file, size, progress)
    machine = PlainMachine(data, 2)
    row = machine.read(until_dict_with=ROW_KEY)
    if data[machine.position : machine.position + len(ROW_START)] != ROW_START:
        raise NotRegular("no second row")
    reader = RowReader(data)
    reader.learn(machine.position, list(row), machine.memo)
    rows, stretches = reader.read(
        reader.starts(machine.position),
        progress and (lambda done: progress(READ_SHARE + (1 - READ_SHARE) * done)),
    )
    machine.stretches = stretches
    snapshot = machine.read()
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise NotRegular("no device_traces")
    if "segments" in snapshot and list(snapshot).index("segments") > list(snapshot).index(
        "device_traces"
    ):
        raise NotRegular("segments behind the traces")
    stepped = SteppedRows(data, machine, rows)
    distinct = {id(trace): trace for trace in snapshot["device_traces"]}
    tables = {key: TraceTable(stepped, trace) for key, trace in distinct.items()}
    traces = [tables[id(trace)] for trace in snapshot["device_traces"]]
    stepped_over = sum(stretch.last - stretch.first for stretch in stretches.values())
    if sum(len(table) - len(table.dicts) for table in tables.values()) != stepped_over:
        raise NotRegular("rows outside the traces")
    return {key: _whole(stepped, key, value) for key, value in snapshot.items()} | {
        "device_traces": traces
    }


def _whole(stepped: SteppedRows, key: Any, value: Any) -> Any:
    """What the rows memoized can be asked for behind them, where segments do not stand."""
    if key in ("segments", "device_traces"):
        return value
    try:
        return stepped.resolved(value, {})
    except RecursionError:
        raise NotRegular(f"{key} is nested too deep") from None


def _without_frames(file: BinaryIO, size: int, progress: Callable[[float], None] | None) -> bytes:
    start = file.read(2)
    if start[:1] != START or not OLDEST <= start[1] <= NEWEST:
        raise NotRegular("another protocol")
    plain = io.BytesIO(bytes(size + len(PADDING)))  # written in place, and never copied
    told = 0
    with plain.getbuffer() as view:
        view[:2] = start
        at = 2
        while True:
            header = file.read(9)
            if len(header) < 9 or header[0] != FRAME:
                view[at : at + len(header)] = header
                at += len(header)
                at += _read_into(file, view[at:size])
                break
            length = int.from_bytes(header[1:], "little")
            if length > size:
                raise NotRegular(f"a frame of {length} bytes in a file of {size}")
            at += _read_into(file, view[at : at + length])
            if progress and at - told > 1 << 23:
                told = at
                progress(READ_SHARE * at / size)
    plain.truncate(at + len(PADDING))
    return plain.getvalue()


def _read_into(file: BinaryIO, view: memoryview) -> int:
    count: int = file.readinto(view)  # type: ignore[attr-defined]
    return count
