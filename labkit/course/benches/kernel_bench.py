"""A learner's kernel put to work: arrays between guard bytes, any order of threads, a trace."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labkit.course.exercise import Case, Evidence, Hint
from labkit.cuda.arguments import DevicePointer
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CompileError, CudaError
from labkit.cuda.module import RawModule
from labkit.cuda.report import Report
from labkit.cuda.trace import Trace

Array = NDArray[Any]
GUARD_BYTES = 256
GUARD = 0xA5
SECONDS = 2.0
"""Of CPU time, after which a kernel is ended: no lesson needs a tenth of it."""
KEPT_MODULES = 64


@dataclass(frozen=True)
class Slab:
    """Part of a larger array: the kernel gets the address that element 0 would have.

    data   elements `first` to `first + len(data) - 1`; nothing else of the array exists
    """

    data: Array
    first: int = 0


@dataclass(frozen=True)
class Launched:
    """What a launch left.

    arrays    the array arguments afterwards, in order
    names     the kernel's names for them
    outside   "untouched", or which array was written outside
    failure   "" when it ran, else one line: it did not compile, hung, faulted ...
    report    of the traced run, None where none was asked for or it failed
    """

    arrays: tuple[Array, ...]
    names: tuple[str, ...] = ()
    outside: str = "untouched"
    failure: str = ""
    report: Report | None = None

    @property
    def findings(self) -> list[str]:
        """What the trace found, as "line 4: out of bounds: ..."."""
        found = self.report.findings if self.report else ()
        return [f"line {one.line}: {one.kind.replace('_', ' ')}: {one.message}" for one in found]


class Found(dict[str, Any]):
    """What a check found out about a kernel, point by point, and the trace that shows it."""

    report: Report | None = None
    result: Any = None

    def __repr__(self) -> str:
        return repr({name: one for name, one in self.items() if not isinstance(one, np.ndarray)})

    def seen_in(self, report: Report | None, result: Any = None) -> Self:
        """These findings, with the trace that `drawn` draws and the array that was computed."""
        self.report, self.result = report, result
        return self


def drawn(case: Case, got: Any, right: Any) -> Any:
    """The picture of a failing case: the learner's own kernel, request by request."""
    from labkit import show

    report = getattr(got, "report", None)
    return None if report is None else show.kernel(report)


NOT_RUN = Hint(
    "It did not run, so nothing else was judged. Is it the text of a kernel, with the name and the "
    "arguments of the task? The message says what is wrong first.",
    when=lambda e: e.value["the launch"] != "runs",
)
ALL_LANES = "at work together"
"""What a check says of a kernel that `few_lanes` has nothing against."""
LEEWAY = 2
"""Times the fewest requests: a warp may take its part in two goes."""


def warps(grid: Sequence[int], block: Sequence[int]) -> int:
    """The warps of a launch."""
    return math.prod(grid) * math.ceil(math.prod(block) / 32)


def few_lanes(report: Report, fewest: Mapping[tuple[str, str], int]) -> str:
    """ALL_LANES, or which array is asked for by a few lanes at a time.

    One thread that does the work of all makes one request per element, where a warp makes one for
    32 of them: its results are right and its findings none, so only the requests tell.

    fewest  (access, name of the array, or "shared") -> requests when all lanes work together
    """
    for (access, array), enough in fewest.items():
        which = {"space": "shared"} if array == "shared" else {"array": array}
        requests = report.total("requests", access=access, **which)
        if requests > LEEWAY * enough:
            lanes = report.total("lanes", access=access, **which) / requests
            done = "read" if access == "read" else "written"
            return (
                f"{array} is {done} in {requests} requests of {lanes:.1f} lanes; {enough} would do"
            )
    return ALL_LANES


def off(key: str, *words: str) -> Callable[[Evidence], bool]:
    """True of evidence where this point is not right, and names one of the words, if any."""
    return lambda e: (
        e.value[key] != e.right[key] and (not words or any(w in str(e.value[key]) for w in words))
    )


def written_inputs(done: Launched, given: Sequence[Array]) -> str:
    """The names of the arrays that a kernel may only read and has changed, "" where none is.

    given  what the launch was given as its first arrays, in order
    """
    found = zip(done.names, done.arrays, given, strict=False)
    changed = [name for name, after, before in found if after.tobytes() != before.tobytes()]
    return f"{', '.join(changed)} is no longer what it was" if changed else ""


def spread_reads(report: Report, array: str, fewest: int) -> str:
    """Where lanes of a request read an array far apart: how many sectors that took, or ""."""
    sectors = report.total("sectors", access="read", array=array)
    if sectors <= LEEWAY * fewest:
        return ""
    return f"{array} is read in {sectors} sectors; {fewest} would do: the lanes are no neighbours"


def passes(report: Report) -> str:
    """Where bank conflicts take more than 1.05 times the fewest passes: the worst line, or ""."""
    taken, fewest = (report.total(n, space="shared") for n in ("wavefronts", "ideal_wavefronts"))
    if taken <= fewest * 1.05:
        return ""
    worst = max(
        report.select(space="shared"), key=lambda one: one.wavefronts - one.ideal_wavefronts
    )
    return (
        f"{taken}, where {fewest} would do; most of them in line {worst.line}, where {worst.array} "
        f"is {'read' if worst.access == 'read' else 'written'}"
    )


def barriers(report: Report) -> float:
    """How many barriers a warp waited at: those in a loop as often as it ran, the others once."""
    runs = {one.line: one.runs for one in report.lines}
    found = 0.0
    for number, text in enumerate(report.source.splitlines(), start=1):
        written = text.partition("//")[0].count("__syncthreads")
        found += written * max(1.0, runs.get(number, 0) / warps(report.grid, report.block))
    return found


def device() -> EmulatorDriver:
    """The emulator on which learners' kernels are checked, also where there is a GPU.

    An answer asked in a process of its own has another: a device does not come along.
    """
    return _device(os.getpid())


@functools.cache
def _device(process: int) -> EmulatorDriver:
    return EmulatorDriver(capacity=64 << 20, timeout_s=SECONDS, why="checking exercises")


@functools.lru_cache(KEPT_MODULES)
def _module(
    code: str, names: tuple[str, ...], options: tuple[str, ...], driver: EmulatorDriver
) -> RawModule:
    return RawModule(code, name_expressions=names, options=options, driver=driver)


def launch(
    code: str,
    kernel: str,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    names: Sequence[str] = (),
    options: Sequence[str] = (),
    order: str | int = "forward",
    shared_mem: int = 0,
    trace: bool = False,
    kept: int = 8,
) -> Launched:
    """The kernel has run on copies of the arrays among `args`.

    args    arrays and `Slab`s, and numbers
    names   name expressions of a template; `kernel` is one of them
    order   "forward", "reverse" or a seed: which of a block's threads goes first
    trace   run it once more, watched, when the first run came to an end
    kept    raw requests of each access in the report

    Nothing is raised for what a kernel does wrong: `failure` says it.
    """
    slabs = [arg if isinstance(arg, Slab) else Slab(arg) for arg in args if _is_array(arg)]
    before = tuple(slab.data.copy() for slab in slabs)
    try:
        function = _module(code, tuple(names), tuple(options), device()).get_function(kernel)
    except CompileError as error:
        return Launched(before, failure=f"it does not compile: {_first_error(error)}")
    except CudaError as error:
        return Launched(before, failure=_one_line(error))
    ran = _run(function, grid, block, args, slabs, {"order": order, "shared_mem": shared_mem})
    if ran.failure or not trace:
        return ran
    watch = Trace(requests=kept)
    watched = _run(function, grid, block, args, slabs, {"shared_mem": shared_mem}, watch)
    return replace(ran, failure=watched.failure, report=watched.report)


def _is_array(arg: Any) -> bool:
    return isinstance(arg, np.ndarray | Slab)


def _run(
    function: Any, grid: Any, block: Any, args: Sequence[Any], slabs: Sequence[Slab],
    options: dict[str, Any], trace: Trace | None = None,
) -> Launched:  # fmt: skip
    driver = device()
    starts = [driver.malloc(slab.data.nbytes + 2 * GUARD_BYTES) for slab in slabs]
    places = iter(zip(slabs, starts, strict=True))
    try:
        given: list[Any] = []
        for arg in args:
            if not _is_array(arg):
                given.append(arg)
                continue
            slab, start = next(places)
            _put(driver, start, slab.data)
            before = slab.first * slab.data.itemsize
            given.append(DevicePointer(start + GUARD_BYTES - before, slab.data.nbytes, before))
        report, failure = None, ""
        try:
            report = function(grid, block, given, trace=trace, **options)
            driver.synchronize()
        except CudaError as error:
            failure = _one_line(error)
        after = [_get(driver, start, slab.data) for slab, start in zip(slabs, starts, strict=True)]
    finally:
        for start in starts:
            driver.free(start)
    params = function.function.signature.params
    names = tuple(p.name for p, arg in zip(params, args, strict=False) if _is_array(arg))
    # fewer names than arrays only where the launch was refused: then nothing was written
    spilled = [name for name, (_, intact) in zip(names, after, strict=False) if not intact]
    outside = f"written around {', '.join(spilled)}" if spilled else "untouched"
    return Launched(tuple(array for array, _ in after), names, outside, failure, report)


def _put(driver: EmulatorDriver, start: int, data: Array) -> None:
    guard = np.full(GUARD_BYTES, GUARD, np.uint8)
    whole = np.concatenate([guard, np.ascontiguousarray(data).view(np.uint8).ravel(), guard])
    driver.memcpy(start, whole.ctypes.data, whole.nbytes)


def _get(driver: EmulatorDriver, start: int, data: Array) -> tuple[Array, bool]:
    """The array as it is now, and whether its guard bytes are as they were."""
    whole = np.empty(data.nbytes + 2 * GUARD_BYTES, np.uint8)
    driver.memcpy(whole.ctypes.data, start, whole.nbytes)
    inside = whole[GUARD_BYTES : GUARD_BYTES + data.nbytes]
    guards = np.concatenate([whole[:GUARD_BYTES], whole[GUARD_BYTES + data.nbytes :]])
    return inside.view(data.dtype).reshape(data.shape).copy(), bool((guards == GUARD).all())


def _first_error(error: CompileError) -> str:
    lines = str(error).splitlines()
    return next((line.strip() for line in lines if "error:" in line), lines[0])


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0]
