"""What the calls of one running program share: the device, its kernels, what was found."""

from collections.abc import Callable
from dataclasses import dataclass, field

from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError, KernelFailure
from labkit.cuda.programs.module import ProgramModule
from labkit.cuda.programs.result import ProgramFinding, ProgramResult
from labkit.cuda.programs.wire import Answer, Question

_STREAM_NAMES = {1: 0, 2: 0}
"""cudaStreamLegacy and cudaStreamPerThread, which is the default stream here."""


@dataclass
class Session:
    """One running program.

    trace         watch the first launch of each kernel and size
    call_host     calls a function of the program: (function, argument, stream or None)
    failed        the error that every later call gets, as after a fault on a GPU
    """

    driver: EmulatorDriver
    module: ProgramModule
    result: ProgramResult
    trace: bool
    call_host: Callable[[int, int, int | None], None]
    failed: str = ""
    allocated_at: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Address -> (call, site) of everything not freed yet."""
    graph_memory: dict[int, int] = field(default_factory=dict)
    """Address -> bytes of what graphs allocate, which is theirs as long as the program runs."""

    def stream(self, handle: int) -> int:
        """The device's number of a stream as the program names it."""
        return _STREAM_NAMES.get(handle, handle - 2 if handle > 2 else 0)

    def stream_handle(self, stream: int) -> int:
        """What the program calls a stream: the first numbers are CUDA's own."""
        return stream + 2

    def host_finding(self, kind: str, message: str, question: Question) -> None:
        """A defect in host code, at the call that asked; without a line, in the file of `main`."""
        place = self.module.host_line(question.site)
        self.result.add(ProgramFinding(kind, message, place.file or self.module.path, place.line))

    def refused(self, error: CudaError, question: Question) -> str:
        """The error's name; what the kernel did, or what the call did wrong, is a finding."""
        if isinstance(error, KernelFailure):
            self.kernel_failed(error)
        elif error.code != "cudaErrorNotReady":
            text = str(error).removeprefix(f"{error.code}: ")
            self.host_finding("api_error", f"{question.name}: {text} ({error.code})", question)
        return error.code

    def kernel_failed(self, error: KernelFailure) -> None:
        """Every later call fails, too, and the kernel's line is known."""
        report = error.report
        self.failed = error.code
        block, thread = tuple(report["block"]), tuple(report["thread"])
        self.result.add(
            ProgramFinding(
                report["kind"],
                f"thread {thread} of block {block}: {report['message']}",
                report["file"], report["line"], report.get("launch", 0), report["kernel"],
            )
        )  # fmt: skip

    def describe(self, address: int) -> str:
        """Which allocation an address lies in, in words."""
        owner = self.driver.arena.owner_of(address)
        if owner is None:
            return "device memory that is not allocated"
        call, site = self.allocated_at.get(owner[0], ("", 0))
        place = self.module.host_line(site)
        made = f", which {call} returned at line {place.line}" if place.line else ""
        return f"byte {address - owner[0]} of {owner[1]} bytes of device memory{made}"


Call = Callable[[Question], Answer | None]


def calls_of(*holders: object) -> dict[str, Call]:
    """Name -> method of everything that holders offer under a runtime function's name."""
    return {
        name: getattr(holder, name)
        for holder in holders
        for name in dir(holder)
        if name.startswith(("cuda", "cublas", "cufft", "cuemu"))
    }
