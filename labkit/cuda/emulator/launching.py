"""A launch as the worker is told it, and what went wrong as the learner is told it."""

import contextlib
import json
import struct
import sys
from collections.abc import Sequence
from typing import Any

from labkit.cuda.emulator.module import Function
from labkit.cuda.emulator.transfers import Transfers
from labkit.cuda.emulator.worker import Command, Worker, WorkerDied, WorkerRefused
from labkit.cuda.errors import InvalidLaunchError, KernelFailure
from labkit.cuda.operation import Operation

_LAUNCH = struct.Struct("<QII3I3IIIQII")
MOST_PARAMETER_BYTES = 32_764
"""Of one launch, since CUDA 12.1; 4,096 before."""
_ORDERS = {"forward": 0, "reverse": 1}


def perform(
    operation: Operation, worker: Worker, transfers: Transfers, *, timeout_s: float
) -> None:
    """The operation has been done."""
    if operation.kind == "kernel":
        run_kernel(worker, operation, timeout_s)
    elif operation.kind == "memcpy":
        transfers.copy(operation.dst, operation.src, operation.size_bytes)
    elif operation.kind == "memset":
        transfers.fill(operation.dst, operation.byte, operation.size_bytes)
    elif operation.call is not None:
        operation.call()


def run_kernel(worker: Worker, operation: Operation, timeout_s: float) -> None:
    """The kernel has run, and what it printed stands on standard output.

    Raises   KernelFailure   it hung, faulted, aborted or failed an assertion
    """
    body = launch_message(operation)
    try:
        printed = worker.request(Command.LAUNCH, body, operation.timeout_s or timeout_s)
    except WorkerDied as death:
        raise failure(operation, death.report) from None
    except WorkerRefused as refusal:
        report = json.loads(refusal.body)
        _show(report.pop("printed", ""))
        raise failure(operation, report) from None
    _show(printed.decode(errors="replace"))


def launch_message(operation: Operation, *, trace: bool = False, tail: bytes = b"") -> bytes:
    """The body of LAUNCH and TRACE."""
    function: Function = operation.function
    order = operation.order
    handle, _ = function.module.load(trace=trace)
    offsets, values = [], bytearray()
    for arg in operation.args:
        values += bytes(-len(values) % min(16, max(1, len(arg) & -len(arg))))
        offsets.append(len(values))
        values += arg
    if len(values) > MOST_PARAMETER_BYTES:
        raise InvalidLaunchError(
            f"{operation.name}: its parameters take {len(values):,} bytes, a launch has room for "
            f"{MOST_PARAMETER_BYTES:,}",
            "cudaErrorInvalidValue",
        )
    seeded = isinstance(order, int)
    head = _LAUNCH.pack(
        handle, function.module.index_of(function, trace=trace), _how(operation),
        *operation.grid, *operation.block,
        operation.shared_bytes, 2 if seeded else _ORDERS[str(order)],
        order if isinstance(order, int) else 0, len(offsets), len(values),
    )  # fmt: skip
    return head + struct.pack(f"<{len(offsets)}I", *offsets) + bytes(values) + tail


def _how(operation: Operation) -> int:
    """Bit 0: a kernel without barriers may run as a loop. Bit 1: all blocks run at once."""
    return int(operation.order == "forward") | 2 * operation.cooperative


def failure(operation: Operation, report: dict[str, Any], *, trace: bool = False) -> KernelFailure:
    """The error for what the worker reported, with the learner's file and line in it."""
    function: Function = operation.function
    module = function.module
    waiting = report.get("waiting") or []
    sites = [*report.get("sites", []), *(w["site"] for w in waiting)]
    places = module.line_of(sites, trace=trace)
    found = places[0] if places else None
    for entry, place in zip(waiting, places[len(sites) - len(waiting) :], strict=True):
        entry["line"] = place.line
    report = {
        "kernel": operation.name,
        "grid": list(operation.grid), "threads": list(operation.block),
        "block": [0, 0, 0], "thread": [0, 0, 0], **report,
        "file": found.file if found and found.line else module.path,
        "line": found.line if found else 0,
    }  # fmt: skip
    if report["kind"] == "deadlock" and waiting:
        report["message"] += ": " + _who_waits(waiting)
    if report["kind"] == "timeout" and _blocks_behind(operation, report["block"]):
        report["message"] += (
            "; if it waits for a block with a higher number, it waits for ever: here blocks run in "
            "order, and CUDA promises no other"
        )
    if report["kind"] == "fault":
        report["message"] += f", at address {report['address']:#x}"
    return KernelFailure(report)


def _blocks_behind(operation: Operation, block: Sequence[int]) -> int:
    """How many blocks of the grid come after this one."""
    x, y, z = operation.grid
    return x * y * z - 1 - (block[0] + x * (block[1] + y * block[2]))


def _show(printed: str) -> None:
    if printed:
        with contextlib.suppress(ValueError):
            sys.stdout.write(printed)


def _who_waits(waiting: list[dict[str, Any]]) -> str:
    """`threads 0 to 15 at line 8 for __syncthreads; ...`"""
    groups: dict[tuple[int, str, int], list[Any]] = {}
    for entry in waiting:
        groups.setdefault((entry["line"], entry["waits_for"], entry["mask"]), []).append(
            tuple(entry["thread"])
        )
    parts = []
    for (line, what, mask), threads in groups.items():
        named = (
            f"{threads[0]}"
            if len(threads) == 1
            else f"{threads[0]} to {threads[-1]} ({len(threads)})"
        )
        masked = f" with mask {mask:#010x}" if mask else ""
        parts.append(f"threads {named} wait at line {line} for {what}{masked}")
    return "; ".join(parts)
