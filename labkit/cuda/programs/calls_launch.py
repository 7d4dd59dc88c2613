"""Launches and what a program asks about its kernels and the device."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit.cuda.arguments import Extent
from labkit.cuda.driver import Dim3
from labkit.cuda.emulator.module import Function
from labkit.cuda.errors import CudaError, InvalidLaunchError, KernelFailure
from labkit.cuda.launch import Limits, check_launch
from labkit.cuda.operation import Node, Operation
from labkit.cuda.programs.result import ProgramFinding
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question
from labkit.cuda.report import Report
from labkit.cuda.signature import ParamKind
from labkit.cuda.trace import Trace

_HEAD = struct.Struct("<11I")
SM_COUNT = 8
"""Multiprocessors of the emulated device: with what one holds, how large a grid may be at once."""
SM_THREADS, SM_BLOCKS, SM_SHARED = 2048, 32, 228 << 10
MOST_EVENTS = 20_000_000
MOST_REPORTS = 32
_FAILED_KINDS = {
    "assert": "cudaErrorAssert",
    "trap": "cudaErrorLaunchFailure",
    "grid_sync": "cudaErrorLaunchFailure",
    "deadlock": "cudaErrorLaunchTimeout",
}


@dataclass(frozen=True)
class Wanted:
    """One launch as the program asked for it."""

    grid: Dim3
    block: Dim3
    cooperative: bool
    line: int
    file: str
    spoken: str
    args: tuple[bytes, ...]

    @classmethod
    def read(cls, data: bytes) -> "Wanted":
        """From the bytes that `cuemu_launch` sends."""
        *sizes, line, cooperative, name, file, count = _HEAD.unpack_from(data)
        lengths = struct.unpack_from(f"<{count}I", data, _HEAD.size)
        at = _HEAD.size + 4 * count
        spoken, at = data[at : at + name].decode(), at + name
        shown, at = data[at : at + file].decode(), at + file
        args = []
        for length in lengths:
            args.append(data[at : at + length])
            at += length
        x, y, z, bx, by, bz = sizes
        return cls((x, y, z), (bx, by, bz), bool(cooperative), line, shown, spoken, tuple(args))


class LaunchCalls:
    """The runtime's launch, occupancy and device functions."""

    def __init__(self, session: Session) -> None:
        self._session, self._driver = session, session.driver
        self._seen: set[tuple[Any, Dim3, Dim3]] = set()
        self._limits: dict[tuple[int, int], int] = {}

    def cudaLaunchKernel(self, question: Question) -> Answer:
        place, shared = (question.numbers[0], question.numbers[1]), question.numbers[2]
        operation = self.operation(place, Wanted.read(question.data), shared)
        self.submit(operation, self._session.stream(question.numbers[3]))
        return Answer()

    def operation(self, place: tuple[int, int], wanted: Wanted, shared: int) -> Operation:
        """The launch of the kernel whose text and thunk lie there in the host's build.

        Raises   Reported   a GPU would not launch it
        """
        session = self._session
        function = session.module.kernel(place, wanted.spoken)
        try:
            self._check(function, wanted, shared)
        except InvalidLaunchError as error:
            session.result.launches += 1
            text = str(error).removeprefix(f"{error.code}: ")
            number = session.result.launches
            self._found("launch_configuration", text, wanted, number, function.name)
            raise Reported(error.code) from None
        return Operation(
            "kernel", function.name, function=function, grid=wanted.grid, block=wanted.block,
            args=wanted.args, shared_bytes=shared, cooperative=wanted.cooperative,
        )  # fmt: skip

    def submit(self, operation: Operation, stream: int, *, within: bool = False) -> None:
        """The operation is queued; a launch that is watched has run, as all queued before it.

        within   another operation, behind which the rest of the queue has to wait
        """
        if operation.kind != "kernel" or self._driver.capture_of(stream) is not None:
            self._driver.submit(stream, operation)
            return
        self._session.result.launches += 1
        if self._is_new(operation):
            self._seen.add(_size(operation))
            if not within:
                self._driver.synchronize()
            self._traced(operation, stream, self._session.result.launches)
        else:
            self._driver.launch(operation, stream)

    def watches(self, nodes: Sequence[Node]) -> bool:
        """Whether one of a graph's nodes is a launch to watch."""
        return any(self._is_new(node.operation) for node in nodes)

    def _is_new(self, operation: Operation) -> bool:
        wanted = self._session.trace and operation.kind == "kernel" and not operation.cooperative
        return wanted and _size(operation) not in self._seen

    def _found(self, kind: str, message: str, wanted: Wanted, number: int, kernel: str) -> None:
        file = self._session.module.program.named(wanted.file)
        self._session.result.add(ProgramFinding(kind, message, file, wanted.line, number, kernel))

    def _check(self, function: Function, wanted: Wanted, shared: int) -> None:
        limits = Limits(
            function.name, self._driver.properties(), function.static_shared_bytes,
            self._dynamic_limit(function), function.max_threads,
        )  # fmt: skip
        check_launch(wanted.grid, wanted.block, shared, limits)
        x, y, z = wanted.grid
        bx, by, bz = wanted.block
        most = SM_COUNT * self._blocks_per_sm(function, bx * by * bz, shared)
        if wanted.cooperative and x * y * z > most:
            raise InvalidLaunchError(
                f"{function.name}: a cooperative grid of {x * y * z} blocks does not fit, at most "
                f"{most} of this size are there at once",
                "cudaErrorCooperativeLaunchTooLarge",
            )

    def _dynamic_limit(self, function: Function) -> int:
        assert function.place is not None
        device = self._driver.properties()
        usual = max(0, device.shared_memory_per_block - function.static_shared_bytes)
        return max(usual, self._limits.get(function.place, 0))

    def _traced(self, operation: Operation, stream: int, number: int) -> None:
        """The launch has run, watched."""
        session, function = self._session, operation.function
        try:
            report = Trace(max_events=MOST_EVENTS).run(
                self._driver, operation, self._extents(function, operation.args), stream
            )
        except KernelFailure as error:
            error.report["launch"] = number
            raise
        session.result.traced += 1
        if len(session.result.reports) < MOST_REPORTS:
            session.result.reports.append(self._with_text(report))
        print(report.printed, end="")
        if report.truncated:
            session.result.notes.append(
                f"launch {number}, {function.name}: only {MOST_EVENTS:,} events were watched"
            )
        for one in report.findings:
            session.result.add(
                ProgramFinding(
                    one.kind, one.message, session.module.program.named(one.file), one.line, number,
                    function.name, one.other_line, one.count, called_at=one.called_at,
                )
            )  # fmt: skip
            if one.kind in _FAILED_KINDS:
                session.failed = _FAILED_KINDS[one.kind]
            elif one.kind == "out_of_bounds" and one.space == "global" and not one.array:
                session.failed = "cudaErrorIllegalAddress"
        if session.failed:
            raise Reported(session.failed)

    def _with_text(self, report: Report) -> Report:
        """The report as one of the file that its lines are in."""
        files = [one.file for one in report.accesses]
        main = max(set(files), key=files.count, default=report.file)
        text = self._session.module.program.text_of(main)
        return replace(report, file=main, source=text) if text else report

    def _extents(self, function: Function, args: Sequence[bytes]) -> list[Extent]:
        """What the arguments point to, named as the kernel names it."""
        found: dict[int, Extent] = {}
        for param, value in zip(function.signature.params, args, strict=True):
            if param.kind == ParamKind.POINTER:
                owner = self._driver.arena.owner_of(int.from_bytes(value, "little"))
                if owner is not None:
                    found.setdefault(owner[0], Extent(param.name, *owner))
        return list(found.values())

    # Questions

    def _kernel(self, question: Question) -> Function:
        return self._session.module.kernel((question.numbers[0], question.numbers[1]))

    def cudaFuncSetAttribute(self, question: Question) -> Answer:
        function, size = self._kernel(question), question.numbers[2]
        most = (
            self._driver.properties().shared_memory_per_block_optin - function.static_shared_bytes
        )
        if not 0 <= size <= most:
            raise CudaError(
                f"{function.name}: dynamic shared memory is 0 to {most} bytes, not {size}",
                "cudaErrorInvalidValue",
            )
        assert function.place is not None
        self._limits[function.place] = size
        return Answer()

    def cudaFuncGetAttributes(self, question: Question) -> Answer:
        function = self._kernel(question)
        return Answer(
            (function.static_shared_bytes, function.max_threads, self._dynamic_limit(function))
        )

    def cudaOccupancyMaxActiveBlocksPerMultiprocessor(self, question: Question) -> Answer:
        threads, shared = question.numbers[2:4]
        return Answer((self._blocks_per_sm(self._kernel(question), threads, shared),))

    def _blocks_per_sm(self, function: Function, threads: int, shared: int) -> int:
        if not 0 < threads <= function.max_threads:
            return 0
        used = function.static_shared_bytes + shared + 1024
        warps = -(-threads // 32) * 32
        return min(SM_BLOCKS, SM_THREADS // warps, SM_SHARED // used)

    def cudaOccupancyMaxPotentialBlockSize(self, question: Question) -> Answer:
        function = self._kernel(question)
        shared, limit = question.numbers[2:4]
        most = min(limit or 1024, function.max_threads, 1024)
        best = max(
            range(32, most + 1, 32),
            key=lambda threads: (self._blocks_per_sm(function, threads, shared) * threads, threads),
            default=most,
        )
        return Answer((SM_COUNT * max(1, self._blocks_per_sm(function, best, shared)), best))

    def cudaGetDeviceProperties(self, question: Question) -> Answer:
        device = self._driver.properties()
        return Answer((device.total_memory, SM_COUNT), device.name.encode())

    def cudaDeviceSynchronize(self, question: Question) -> Answer:
        self._driver.synchronize()
        return Answer()

    cudaThreadSynchronize = cudaDeviceSynchronize

    def cudaDeviceReset(self, question: Question) -> Answer:
        try:
            self._driver.synchronize()
        finally:
            self._session.failed = ""
            for address in list(self._session.allocated_at):
                self._driver.arena.free(address)
            self._session.allocated_at.clear()
        return Answer()


def _size(operation: Operation) -> tuple[Any, Dim3, Dim3]:
    return operation.function.place, operation.grid, operation.block


class Reported(CudaError):
    """A call that fails, whose reason is a finding already."""

    def __init__(self, code: str) -> None:
        super().__init__("", code)
