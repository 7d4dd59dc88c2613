"""A kernel file as the lab sees it: what its header promises, and how it is put to work."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.cuda.errors import InvalidValueError, UnsupportedFeatureError
from labkit.cuda.launch_line import launch_line
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import AccessCounters, Report
from labkit.cuda.source import KERNELS, parse
from labkit.cuda.trace import Trace

Array = NDArray[Any]
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""The largest relative error of rounding to the dtype."""
_TITLE = re.compile(r"// (?P<what>[^,]+), rung (?P<number>\d+) of (?P<of>\d+): (?P<idea>.+)")
_COUNTER = re.compile(
    r"// Counter(?: of (?P<step>\w+))?: (?P<access>\w+) (?P<space>\w+)\.(?P<array>[\w*]+) "
    r"(?P<metric>\S+) = (?P<value>\S+)"
)
_GPU_ONLY = re.compile(r"^// GPU only: (?P<archs>sm_\w+(?:, sm_\w+)*); (?P<why>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Prediction:
    """One counter a rung's header promises, measured on its probe.

    metric  bytes/lane, or an `AccessCounters` field per something: sectors/request,
            wavefronts/request, lanes/output, lanes/output/K, lanes/input, lanes/block,
            requests/warp-of-outputs, or per one of the probe's own `bases`
    step    of the launch it is measured on: the first with that step
    """

    access: str
    space: str
    array: str
    metric: str
    value: float
    step: str = ""

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
            **probe.bases,
        }
        if per not in bases:
            raise InvalidValueError(f"{self}: a metric is per request or per {sorted(bases)}")
        base: float = bases[per]
        return base

    def __str__(self) -> str:
        of = f"{self.step}: " if self.step else ""
        return f"{of}{self.access} {self.space}.{self.array} {self.metric} = {self.value:g}"


def _total(chosen: Sequence[AccessCounters], counter: str) -> float:
    return float(sum(getattr(one, counter) for one in chosen))


@dataclass
class Launch:
    """One launch of a problem: arrays stand for themselves, the output included.

    step  for a rung of several kernels: which one, as the word its name ends in; "" is the rung's
          own kernel
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: Sequence[Any]
    shared: int = 0
    step: str = ""


@dataclass
class Output:
    """One array that launches fill, and what must be in it.

    array     on the host; a torch tensor where NumPy lacks the dtype; starts out poisoned
    expected  the answer in float64
    """

    array: Any
    expected: Array
    atol: float
    rtol: float = 1e-5

    def check(self, message: str = "") -> None:
        """The array holds what it must.

        Raises   AssertionError   it does not
        """
        wide = getattr(self.array, "double", None)
        actual = wide().numpy() if wide else self.array
        np.testing.assert_allclose(
            actual, self.expected, rtol=self.rtol, atol=self.atol, err_msg=message
        )


@dataclass
class Problem:
    """Data for a rung, and what must come out.

    inputs      host arrays the launches read
    output      host array the launches fill; starts out poisoned
    expected    the answer in float64
    launches    in order
    depth       of the sums behind an output element, for tolerances and per-K counters
    atol, rtol  how far the output may be from the answer; `tolerance()` where atol is not given
    more        further outputs
    bases       name -> count, for metrics per that name
    """

    inputs: list[Array]
    output: Array
    expected: Array
    launches: list[Launch]
    depth: int = 1
    atol: float | None = None
    rtol: float = 1e-5
    more: Sequence[Output] = ()
    bases: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, inputs: list[Array], outputs: list[Output], launches: list[Launch], depth: int = 1
    ) -> "Problem":
        """Several outputs, each with a tolerance of its own."""
        first, *more = outputs
        return cls(
            inputs, first.array, first.expected, launches, depth, atol=first.atol, rtol=first.rtol,
            more=more,
        )  # fmt: skip

    @property
    def outputs(self) -> list[Output]:
        """Every array the launches fill."""
        first = Output(self.output, self.expected, self.tolerance(), self.rtol)
        return [first, *self.more]

    def check(self, message: str = "") -> None:
        """Every output holds what it must.

        Raises   AssertionError   one does not
        """
        for i, output in enumerate(self.outputs):
            output.check(f"{message} output {i}")

    def tolerance(self) -> float:
        """Absolute: float32 rounding of a sum of `depth` terms about as large as the inputs."""
        if self.atol is not None:
            return self.atol
        scale = max((float(np.abs(x).max()) for x in self.inputs if x.size), default=1.0)
        return 2e-6 * max(1.0, scale**2) * (1 + math.sqrt(self.depth))


@dataclass(frozen=True)
class Rung:
    """One file of the shelf.

    probe_shape  the case its counters are promised for
    shapes       the cases it is tested on; a case is what the ladder's `make` understands: sizes,
                 or a tuple or dataclass of sizes and options
    """

    op: str
    path: Path
    make: Callable[["Rung", np.random.Generator, Any], Problem]
    probe_shape: Any
    shapes: tuple[Any, ...]

    @cached_property
    def code(self) -> str:
        """What stands in the file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def _title(self) -> re.Match[str]:
        match = _TITLE.match(self.code)
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
    def _gpu_only(self) -> re.Match[str] | None:
        return _GPU_ONLY.search(self.code)

    @property
    def gpu_only(self) -> str:
        """Why the emulator refuses it, as its header says; "" when it runs anywhere."""
        return self._gpu_only["why"] if self._gpu_only else ""

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPU generations it is written for; empty for all."""
        return tuple(self._gpu_only["archs"].split(", ")) if self._gpu_only else ()

    def runs_on(self, compute_capability: tuple[int, int]) -> bool:
        """True on a GPU of that capability; "sm_90a" is for 9.0 alone, "sm_80" for all from 8.0."""
        number = 10 * compute_capability[0] + compute_capability[1]
        only = {int(arch[3:-1]) for arch in self.archs if arch.endswith("a")}
        since = [int(arch[3:]) for arch in self.archs if arch[3:].isdigit()]
        return not self.archs or number in only or number >= min(since, default=1000)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """The counters its header promises."""
        return tuple(
            Prediction(
                m["access"], m["space"], m["array"], m["metric"], float(m["value"]), m["step"] or ""
            )
            for m in _COUNTER.finditer(self.code)
        )

    @cached_property
    def _parameters(self) -> dict[str, tuple[str, ...]]:
        kernels = parse(self.code).kernels
        return {one.name: tuple(each.name for each in one.parameters) for one in kernels}

    @property
    def steps(self) -> tuple[str, ...]:
        """The words in which the names of its further kernels end."""
        return tuple(name.removeprefix(f"{self.name}_") for name in self._parameters)[1:]

    def takes(self, parameter: str) -> bool:
        """Whether its own kernel has a parameter of that name."""
        return parameter in self._parameters[self.name]

    @property
    def adds(self) -> bool:
        """Whether it adds to what it writes, which must be zero before, as its header says."""
        return "zero before" in self.code

    def output(self, shape: tuple[int, ...]) -> Array:
        """A float32 array for it to write: zeros where it `adds`, poisoned where it must not."""
        return np.zeros(shape, np.float32) if self.adds else poisoned(shape)

    def launch(
        self,
        args: Sequence[Any],
        step: str = "",
        /,
        *,
        grid: int | None = None,
        block: int | None = None,
        **sizes: int,
    ) -> Launch:
        """One launch, by the launch line of its header: see `labkit.cuda.launch_line`."""
        line = launch_line(self.code, f"{self.name}_{step}")
        return Launch(*line.extents(sizes, grid, block), args, line.shared_bytes(sizes), step)

    def kernel(self, step: str = "") -> RawKernel:
        """The compiled kernel, for the device that serves.

        Raises   UnsupportedFeatureError   it is for a GPU only, and the emulator serves
        """
        chip = [f"--gpu-architecture={arch}" for arch in self.archs if arch.endswith("a")]
        module = RawModule(path=self.path, options=chip)
        if self.gpu_only and module.driver.name == "emulator":
            raise UnsupportedFeatureError(
                f"{self.name} runs on a GPU only ({', '.join(self.archs)}): {self.gpu_only}; "
                "the emulator serves here"
            )
        return module.get_function(f"{self.name}_{step}" if step else self.name)

    def problem(self, generator: np.random.Generator, shape: Any) -> Problem:
        """Random data of that shape."""
        return self.make(self, generator, shape)

    def run(self, problem: Problem, **options: Any) -> list[Any]:
        """The problem's launches have run; what each returned (reports, with a trace)."""
        kernels = {step: self.kernel(step) for step in {one.step for one in problem.launches}}
        returned = []
        for one in problem.launches:
            kernel = kernels[one.step]
            if one.shared > kernel.max_dynamic_shared_size_bytes:
                kernel.max_dynamic_shared_size_bytes = one.shared
            returned.append(kernel(one.grid, one.block, one.args, shared_mem=one.shared, **options))
        return returned

    def measured(self) -> list[tuple[Prediction, float]]:
        """Each prediction with what a traced run of the probe counts."""
        probe = self.problem(np.random.default_rng(0), self.probe_shape)
        reports: dict[str, Report] = {}
        for launch, report in zip(
            probe.launches, self.run(probe, trace=Trace(races=False)), strict=True
        ):
            reports.setdefault(launch.step, report)
        return [(one, one.measure(reports[one.step], probe)) for one in self.predictions]


def rungs_of(
    op: str,
    make: Callable[[Rung, np.random.Generator, Any], Problem],
    probe_shape: Any,
    shapes: Sequence[Any],
) -> tuple[Rung, ...]:
    """Every numbered file of `kernels/<op>/`, in order."""
    paths = sorted((KERNELS / op).glob("[0-9]*.cu"), key=lambda path: int(path.stem.split("_")[0]))
    return tuple(Rung(op, path, make, probe_shape, tuple(shapes)) for path in paths)


def poisoned(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """An output that no kernel has touched: NaN everywhere, the lowest integer, of an int dtype."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.iinfo(dtype).min if dtype.kind in "iu" else np.nan, dtype)


def random(generator: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    """Normal numbers in float32."""
    return generator.standard_normal(shape).astype(np.float32)


def double(array: Any) -> Any:
    """The same numbers in float64, for PyTorch; None stays None."""
    return None if array is None else torch.as_tensor(array).double()


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count`, at least one."""
    return max(1, -(-count // per_block))
