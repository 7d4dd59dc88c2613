"""A kernel file as the lab sees it: what its header promises, and how it is put to work."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.cuda.emulator.build import KERNELS
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import AccessCounters, Report

Array = NDArray[Any]
_TITLE = re.compile(r"// (?P<what>[^,]+), rung (?P<number>\d+) of (?P<of>\d+): (?P<idea>.+)")
_COUNTER = re.compile(
    r"// Counter: (?P<access>\w+) (?P<space>\w+)\.(?P<array>[\w*]+) "
    r"(?P<metric>\S+) = (?P<value>\S+)"
)


@dataclass(frozen=True)
class Prediction:
    """One counter a rung's header promises, measured on its probe.

    metric  sectors/request, wavefronts/request, bytes/lane, lanes/output, lanes/output/K,
            lanes/input, lanes/block, requests/warp-of-outputs
    """

    access: str
    space: str
    array: str
    metric: str
    value: float

    def measure(self, report: Report, probe: "Problem") -> float:
        """The counter in a traced launch of the probe.

        Raises   InvalidValueError   the metric is not known, or the launch has no such access
        """
        chosen = list(
            report.select(
                space=self.space,
                access=self.access,
                array=None if self.array == "*" else self.array,
            )
        )
        if self.metric == "bytes/lane":
            sizes = {one.size for one in chosen}
            if len(sizes) != 1:
                raise InvalidValueError(f"{self}: the accesses have sizes {sorted(sizes)}")
            return float(sizes.pop())
        counter, _, per = self.metric.partition("/")
        return _total(chosen, counter) / self._base(per, chosen, report, probe)

    def _base(
        self, per: str, chosen: Sequence[AccessCounters], report: Report, probe: "Problem"
    ) -> float:
        if per == "request":
            requests = _total(chosen, "requests")
            if not requests:
                raise InvalidValueError(f"{self}: the launch has no such access")
            return requests
        outputs = int(probe.expected.size)
        bases: dict[str, float] = {
            "output": outputs,
            "output/K": outputs * probe.depth,
            "input": probe.inputs[0].size,
            "block": report.blocks_traced,
            "warp-of-outputs": outputs / 32,
        }
        if per not in bases:
            raise InvalidValueError(f"{self}: a metric is per request or per {sorted(bases)}")
        base: float = bases[per]
        return base

    def __str__(self) -> str:
        return f"{self.access} {self.space}.{self.array} {self.metric} = {self.value:g}"


def _total(chosen: Sequence[AccessCounters], counter: str) -> float:
    return float(sum(getattr(one, counter) for one in chosen))


@dataclass
class Launch:
    """One launch of a problem: arrays stand for themselves, the output included."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: Sequence[Any]
    shared: int = 0


@dataclass
class Problem:
    """Data for a rung, and what must come out.

    inputs    host arrays the launches read
    output    host array the launches fill; starts out poisoned
    expected  the answer in float64
    launches  in order
    depth     of the sums behind an output element, for tolerances and per-K counters
    """

    inputs: list[Array]
    output: Array
    expected: Array
    launches: list[Launch]
    depth: int = 1
    scratch: list[Array] = field(default_factory=list)

    def tolerance(self) -> float:
        """Absolute: float32 rounding of a sum of `depth` terms about as large as the inputs."""
        scale = max((float(np.abs(x).max()) for x in self.inputs if x.size), default=1.0)
        return 2e-6 * max(1.0, scale**2) * (1 + math.sqrt(self.depth))


@dataclass(frozen=True)
class Rung:
    """One file of the shelf.

    probe    the problem its counters are promised for
    problem  a random one of any size: `problem(generator, size)` with size "tiny" to "large"
    """

    op: str
    path: Path
    make: Callable[["Rung", np.random.Generator, tuple[int, ...]], Problem]
    probe_shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def _title(self) -> re.Match[str]:
        match = _TITLE.match(self.path.read_text(encoding="utf-8"))
        if match is None:
            raise InvalidValueError(f"{self.path}: the header starts '// What, rung N of M: idea'")
        return match

    @property
    def number(self) -> int:
        """Its place on the ladder, from 1."""
        return int(self._title["number"])

    @property
    def idea(self) -> str:
        """What it changes, in a few words."""
        return self._title["idea"].rstrip(".")

    @property
    def name(self) -> str:
        """The kernel's name, which is the file's with its op in front."""
        return f"{self.op}_{self.path.stem}"

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """The counters its header promises."""
        text = self.path.read_text(encoding="utf-8")
        return tuple(
            Prediction(m["access"], m["space"], m["array"], m["metric"], float(m["value"]))
            for m in _COUNTER.finditer(text)
        )

    def kernel(self) -> RawKernel:
        """The compiled kernel, for the device that serves."""
        return RawModule(path=self.path).get_function(self.name)

    def problem(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
        """Random data of that shape."""
        return self.make(self, generator, shape)

    def run(self, problem: Problem, **options: Any) -> list[Any]:
        """The problem's launches have run; what each returned (reports, with a trace)."""
        kernel = self.kernel()
        return [
            kernel(one.grid, one.block, one.args, shared_mem=one.shared, **options)
            for one in problem.launches
        ]


def rungs_of(
    op: str,
    make: Callable[[Rung, np.random.Generator, tuple[int, ...]], Problem],
    probe_shape: tuple[int, ...],
    shapes: Sequence[tuple[int, ...]],
) -> tuple[Rung, ...]:
    """Every numbered file of `kernels/<op>/`, in order."""
    paths = sorted((KERNELS / op).glob("[0-9]*.cu"), key=lambda path: int(path.stem.split("_")[0]))
    return tuple(Rung(op, path, make, probe_shape, tuple(shapes)) for path in paths)


def poisoned(shape: tuple[int, ...]) -> Array:
    """An output that no kernel has touched: NaN everywhere."""
    return np.full(shape, np.nan, np.float32)


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count`, at least one."""
    return max(1, -(-count // per_block))
