"""Starts a compiled program and is its device until it ends."""

import contextlib
import io
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError, KernelFailure
from labkit.cuda.programs import errors
from labkit.cuda.programs.builds import Pass, Program
from labkit.cuda.programs.calls_blas import BlasCalls
from labkit.cuda.programs.calls_fft import FftCalls
from labkit.cuda.programs.calls_graphs import GraphCalls
from labkit.cuda.programs.calls_images import ImageCalls
from labkit.cuda.programs.calls_launch import LaunchCalls, Reported
from labkit.cuda.programs.calls_memory import FRESH_NUMBERS, MemoryCalls
from labkit.cuda.programs.calls_streams import StreamCalls
from labkit.cuda.programs.module import ProgramModule
from labkit.cuda.programs.result import ProgramFinding, ProgramResult
from labkit.cuda.programs.session import Call, Session, calls_of
from labkit.cuda.programs.wire import Answer, ProgramEnded, Question, Wire

DEFAULT_TIMEOUT_S = 60.0
_AFTER_FAILURE = ("cudaDeviceReset", "cudaFree", "cudaFreeHost", "cudaGetDeviceProperties")
_MOST_LEAKS = 3
_IDLE_S = 0.05
"""Longer without a question, and queued work goes on by itself."""


def run_program(
    program: Program,
    arguments: Sequence[str] = (),
    *,
    trace: bool = False,
    driver: EmulatorDriver | None = None,
    output: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> ProgramResult:
    """The program has run to its end, its output where this process writes, or at `output`.

    trace      watch the first launch of each kernel and size
    output     a file descriptor for its standard output and error
    timeout_s  CPU time that one kernel may take; only without a `driver` of one's own

    Raises   CompileError, UnsupportedFeatureError   it cannot be built
    """
    passes: list[Pass] = ["host", "fast", "trace"] if trace else ["host", "fast"]
    host = program.build_all(passes)[0]
    own = driver is None
    driver = driver or EmulatorDriver(why="a whole program", timeout_s=timeout_s)
    try:
        return _Run(program, host, driver, trace).run(list(arguments), output)
    finally:
        if own:
            driver.worker.stop()


class _Run:
    """One program under way."""

    def __init__(self, program: Program, host: Path, driver: EmulatorDriver, trace: bool) -> None:
        self._driver, self._host = driver, host
        self._result = ProgramResult(program.files[0].name)
        module = ProgramModule(driver.worker, program, host)
        self._session = Session(driver, module, self._result, trace, self._call_host)
        self._calls: dict[str, Call] = calls_of(
            MemoryCalls(self._session), StreamCalls(self._session), BlasCalls(self._session),
            launches := LaunchCalls(self._session), GraphCalls(self._session, launches),
            ImageCalls(self._session), FftCalls(self._session),
        )  # fmt: skip
        self._calls |= {
            "host_fault": self._host_fault, "device_only": self._device_only,
            "unlaunched": self._unlaunched,
        }  # fmt: skip
        self._printed = io.StringIO()
        self._wire: Wire
        self._host_calls: Wire

    def run(self, arguments: list[str], output: int | None) -> ProgramResult:
        (ours, theirs), (calls, called) = socket.socketpair(), socket.socketpair()
        arena = self._driver.arena
        told = (
            theirs.fileno(),
            called.fileno(),
            arena.fd,
            f"{arena.base:x}",
            arena.reserved,
            arena.capacity,
        )
        with ours, theirs, calls, called:
            process = subprocess.Popen(
                [f"./{Path(self._result.program).stem}", *arguments],
                executable=self._host,
                env={**os.environ, "LABKIT_PROGRAM": " ".join(map(str, told))},
                pass_fds=(theirs.fileno(), called.fileno(), arena.fd),
                stdout=output,
                stderr=output,
            )
            theirs.close()
            called.close()
            self._wire, self._host_calls = Wire(ours), Wire(calls)
            try:
                self._serve()
                status = process.wait()
            except KeyboardInterrupt:
                self._result.status = 128 + signal.SIGINT
                self._result.notes.append("interrupted: what had been found until then is told")
                return self._result
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        self._result.status = status if status >= 0 else 128 - status
        self._at_the_end(status)
        return self._result

    def _serve(self) -> None:
        with contextlib.suppress(ProgramEnded):
            while True:
                self._work_until_asked()
                self._answer(self._wire.question())

    def _work_until_asked(self) -> None:
        """While the program asks nothing for a while, the device goes on by itself."""
        while self._driver.queue.pending and not self._session.failed:
            if _readable(_IDLE_S, self._wire):
                return
            with contextlib.redirect_stdout(self._printed):
                try:
                    self._driver.queue.step()
                except KernelFailure as error:
                    self._session.kernel_failed(error)

    def _answer(self, question: Question) -> None:
        """One call has been answered; kernels that ran for it have printed."""
        code, answer = "cudaSuccess", Answer()
        with contextlib.redirect_stdout(self._printed):
            try:
                if self._session.failed and question.name not in _AFTER_FAILURE:
                    raise Reported(self._session.failed)
                answer = self._handler(question)(question) or answer
            except Reported as error:
                code = error.code
            except CudaError as error:
                code = self._session.refused(error, question)
        number = errors.numbers().get(code, errors.numbers()["cudaErrorUnknown"])
        self._wire.answer(number, answer, self._take_printed())

    def _handler(self, question: Question) -> Callable[[Question], Answer | None]:
        if question.name not in self._calls:
            raise CudaError(
                f"the emulator has no {question.name}; on a GPU the same program may use it",
                "cudaErrorNotSupported",
            )
        return self._calls[question.name]

    def _take_printed(self) -> str:
        text = self._printed.getvalue()
        self._printed.seek(0)
        self._printed.truncate()
        return text

    def _call_host(self, function: int, argument: int, stream: int | None) -> None:
        """The program's own function has returned; what it asks meanwhile is answered."""
        self._host_calls.call(function, argument, stream, self._take_printed())
        while not (readable := _readable(None, self._wire, self._host_calls)) or (
            self._host_calls not in readable
        ):
            self._answer(self._wire.question())
        self._host_calls.called()

    def _host_fault(self, question: Question) -> None:
        address, writes = question.numbers[:2]
        verb = "writes" if writes else "reads"
        self._session.host_finding(
            "host_access",
            f"host code {verb} {self._session.describe(address)}; copy it with cudaMemcpy",
            question,
        )

    def _device_only(self, question: Question) -> None:
        self._session.host_finding(
            "device_only", "host code calls a device-only function", question
        )

    def _unlaunched(self, question: Question) -> None:
        self._session.host_finding(
            "device_only",
            "host code calls this kernel as a function, without <<<grid, block>>>: "
            "nothing is launched",
            question,
        )

    def _at_the_end(self, status: int) -> None:
        session, arena = self._session, self._driver.arena
        if self._driver.queue.pending and not session.failed:
            self._result.notes.append("the program ended before all of its launches had run")
        left = [address for address in session.allocated_at if address in arena.allocations]
        if left:
            total = sum(arena.allocations[address] for address in left)
            where = [session.module.host_line(session.allocated_at[a][1]).line for a in left]
            lines = ", ".join(str(line) for line in dict.fromkeys(where[:_MOST_LEAKS]))
            self._result.notes.append(
                f"{len(left)} allocations ({total:,} bytes) were never freed, of line {lines}"
            )
        if status > 0 and session.trace:
            self._result.notes.append(
                f"the program failed: watched, what cudaMalloc returns holds {FRESH_NUMBERS} until "
                "it is written, where a GPU's may hold 0 by chance"
            )
        if status < 0 and not self._result.findings:
            name = signal.Signals(-status).name
            self._result.add(
                ProgramFinding("crash", f"the program ended with {name}", session.module.path, 0)
            )


def _readable(seconds: float | None, *wires: Wire) -> list[Wire]:
    """Those of the wires that have something to say within so many seconds; None: for ever."""
    return select.select(wires, [], [], seconds)[0]
