"""The adversarial scheduler: a race is only a claim until a legal schedule gives a wrong answer."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.cuda.arguments import Operand, as_operand
from labkit.cuda.driver import Driver
from labkit.cuda.errors import ArgumentError, InvalidValueError
from labkit.cuda.module import RawKernel
from labkit.cuda.report import Finding, Report, element
from labkit.cuda.trace import Trace

Expected = Callable[[], bool] | Sequence[Any] | None


@dataclass(frozen=True)
class Difference:
    """One element that a schedule made wrong."""

    array: str
    index: int
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.array}[{self.index}] is {self.got}, not {self.expected}"


@dataclass(frozen=True)
class Witness:
    """A legal schedule with a wrong result, which plays back exactly.

    seed, order  name the schedule
    wrong        elements that differ, the first few
    report       of that run; `report.steps` are the racing accesses in the order they happened
    tries        schedules looked at, this one included
    """

    seed: int
    order: str | int
    wrong: tuple[Difference, ...]
    report: Report
    tries: int
    _play: Callable[[str | int, int], tuple[Report, tuple[Difference, ...]]]

    def replay(self) -> "Witness":
        """The same schedule once more, from the same data; its result stays in the arguments."""
        report, wrong = self._play(self.order, self.seed)
        return replace(self, report=report, wrong=wrong)

    def __str__(self) -> str:
        lines = [f"schedule {self.seed} ({self.order}) gives a wrong result: {self.wrong[0]}"]
        for step in self.report.steps:
            stale = ", as it was before another block wrote" if step.stale else ""
            change = f"{step.before:#x}" + (f" -> {step.after:#x}" if step.access != "read" else "")
            lines.append(
                f"  line {step.line}: block {step.block} thread {step.thread} {step.access} "
                f"{element(step.array, step.offset, step.size)} {change}{stale}"
            )
        return "\n".join(lines)


def find_witness(
    kernel: RawKernel,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    finding: Finding | None = None,
    *,
    shared_mem: int = 0,
    expected: Expected = None,
    tries: int = 200,
    seed: int = 0,
    rtol: float = 1e-5,
) -> Witness | None:
    """The first of `tries` seeded schedules whose result is wrong, or None.

    finding   the race to interfere with; None interferes everywhere
    expected  right arrays, one per argument with None where it does not matter; or a function that
              looks at the arguments and says whether they are right; or None: the result of the
              undisturbed schedule counts as right, and a legal one that disagrees is the witness

    The arguments' data are the same before and after the search.

    Raises   InvalidValueError   `tries` is not positive, or `expected` does not fit the arguments
    """
    if tries < 1:
        raise InvalidValueError(f"tries is at least 1, not {tries}")
    memory = _Arguments(args, kernel)
    if not callable(expected) and expected is not None and len(expected) != len(args):
        raise InvalidValueError(f"expected has {len(expected)} entries for {len(args)} arguments")
    quiet = Trace(races=False, requests=1)
    watch = tuple(finding.sites) if finding is not None else ()

    def run(order: str | int, trace: Trace) -> Report:
        memory.restore()
        report: Report = kernel(grid, block, args, shared_mem=shared_mem, trace=trace, order=order)
        return report

    def play(order: str | int, schedule: int) -> tuple[Report, tuple[Difference, ...]]:
        report = run(order, replace(quiet, adversary=schedule, watch=watch))
        return report, memory.differences(right, rtol)

    right: Any = expected
    try:
        if expected is None:
            run("forward", quiet)
            right = memory.arrays()
        for attempt in range(tries):
            order = ("forward", "reverse", seed + attempt)[attempt % 3]
            report, wrong = play(order, seed + attempt)
            if wrong:
                return Witness(seed + attempt, order, wrong, report, attempt + 1, play)
    finally:
        memory.restore()
    return None


class _Arguments:
    """The data behind a launch's arrays: saved once, restored before every schedule."""

    def __init__(self, args: Sequence[Any], kernel: RawKernel) -> None:
        self.args = list(args)
        self.names = [param.name for param in kernel.function.signature.params]
        self.driver: Driver = kernel.module.driver
        self.operands = [as_operand(arg) for arg in args]
        self.saved = [self._read(operand) for operand in self.operands]

    def _read(self, operand: Operand | None) -> bytes | None:
        if operand is None or operand.high <= operand.low:
            return None
        size = operand.high - operand.low
        if operand.on_host:
            return ctypes.string_at(operand.low, size)
        buffer = ctypes.create_string_buffer(size)
        self.driver.memcpy(ctypes.addressof(buffer), operand.low, size)
        return buffer.raw

    def restore(self) -> None:
        for operand, data in zip(self.operands, self.saved, strict=True):
            if operand is None or data is None:
                continue
            if operand.on_host:
                if operand.writable:
                    ctypes.memmove(operand.low, data, len(data))
            else:
                buffer = ctypes.create_string_buffer(data, len(data))
                self.driver.memcpy(operand.low, ctypes.addressof(buffer), len(data))

    def arrays(self) -> list[NDArray[Any] | None]:
        return [self._array(operand) for operand in self.operands]

    def _array(self, operand: Operand | None) -> NDArray[Any] | None:
        data = self._read(operand)
        if operand is None or data is None:
            return None
        try:
            dtype = np.dtype(operand.dtype or "uint8")
        except TypeError:
            dtype = np.dtype("uint8")  # bfloat16: compared byte by byte
        return np.frombuffer(data, dtype)

    def differences(self, right: Any, rtol: float) -> tuple[Difference, ...]:
        if callable(right):
            return () if right() else (Difference("the result", 0, "right", "refused"),)
        found = []
        for name, got, wanted in zip(self.names, self.arrays(), right, strict=True):
            if got is None or wanted is None:
                continue
            flat = np.asarray(wanted).ravel()
            if flat.size != got.size:
                raise ArgumentError(f"expected for {name} has {flat.size} elements, not {got.size}")
            if got.dtype.kind in "fc":
                wrong = ~np.isclose(got, flat, rtol=rtol, atol=rtol, equal_nan=True)
            else:
                wrong = got != flat
            for index in np.flatnonzero(wrong)[:4]:
                found.append(Difference(name, int(index), flat[index].item(), got[index].item()))
        return tuple(found)
