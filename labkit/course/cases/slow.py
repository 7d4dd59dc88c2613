"""Five programs that are right, and what their counters say; one of them has nothing to repair.

V   forty small launches, as in pytorch/pytorch#3929
W   lanes that walk down a column, as in siboehm/SGEMM_CUDA#7
X   a barrier too many in a loop, as discussed in pytorch/pytorch#5242
Y   a kernel that moves what it must, and no more
Z   a network with one operator that grows with the square of its input
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import labkit as lab
from labkit import cuda
from labkit.course.cases.sealed import sealed
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.report import Report

COLUMNS = """\
extern "C" __global__ void doubled(const float* x, float* y, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && column < n) y[row * n + column] = 2.0f * x[row * n + column];
}
"""
WINDOWS = """\
extern "C" __global__ void windows(const float* x, float* y, int rounds) {
    __shared__ float tile[66];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < rounds; ++k) {
        __syncthreads();
        for (int j = t; j < 66; j += 64) tile[j] = x[k * 66 + j];
        __syncthreads();
        sum += tile[t] + tile[t + 1] + tile[t + 2];
        __syncthreads();
    }
    y[t] = sum;
}
"""
FUSED = """\
extern "C" __global__ void scaled(const float* x, float* y, float a, float b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(a * x[i] + b, 0.0f);
}
"""


@dataclass(frozen=True)
class Launch:
    """A kernel and what it is launched with; its second array is its result."""

    source: str
    name: str
    grid: Any
    block: Any
    given: Callable[[], tuple[Any, ...]]

    def run(self) -> tuple[Report, Any]:
        """(the trace, the result) of one launch."""
        args = self.given()
        driver = EmulatorDriver(capacity=1 << 24, why="to count what it does")
        kernel = cuda.RawModule(self.source, driver=driver).get_function(self.name)
        report = kernel(self.grid, self.block, args, trace=cuda.Trace())
        return report, args[1]

    def report(self) -> Report:
        """The trace, without the source."""
        return sealed(self.run()[0])

    def without(self, *lines: int, **more: Any) -> "Launch":
        """The kernel without these lines, counted from 1."""
        text = self.source.splitlines(keepends=True)
        kept = [line for number, line in enumerate(text, 1) if number not in lines]
        return replace(self, source="".join(kept), **more)

    def launched(self, **more: Any) -> "Launch":
        """The kernel with another grid, block or other arguments."""
        return replace(self, **more)

    def changed(self, old: str, new: str, **more: Any) -> "Launch":
        """The kernel with a piece of its text replaced.

        Raises   ValueError   the piece is not in the text
        """
        if old not in self.source:
            raise ValueError(f"{self.name} has no {old!r}")
        return replace(self, source=self.source.replace(old, new), **more)


def _numbers(count: int) -> Any:
    return np.array([(7 * i * i + 3) % 101 for i in range(count)], np.float32)


LAUNCHES = {
    "W": Launch(COLUMNS, "doubled", (2, 16), (32, 4),
                lambda: (_numbers(64 * 64), np.zeros(64 * 64, np.float32), 64)),
    "X": Launch(WINDOWS, "windows", 1, 64,
                lambda: (_numbers(66 * 8), np.zeros(64, np.float32), 8)),
    "Y": Launch(FUSED, "scaled", 32, 128,
                lambda: (_numbers(4096), np.zeros(4096, np.float32), 2.0, -90.0, 4096)),
}  # fmt: skip


def patient(name: str) -> Launch:
    """The kernel "W", "X" or "Y"."""
    return LAUNCHES[name]


def kernels_of(program: Callable[[Any], Any]) -> int:
    """How many kernels a program of labkit tensors launches for a tensor of 64 ones."""
    driver = EmulatorDriver(capacity=1 << 24, why="to count launches")
    with cuda.use(driver):
        x = lab.ones(64, device="cuda")
        driver.synchronize()
        driver.queue.log.clear()
        program(x)
        driver.synchronize()
        return sum(work.kind == "kernel" for work in driver.queue.log)


def forty(x: Any) -> Any:
    """Patient V: forty operators, one after the other."""
    for _ in range(20):
        x = x * 1.5
        x = x - 0.5
    return x


def on_a_clock(launches: int, launch_us: float, work_us: float) -> list[dict[str, Any]]:
    """Spans for `show.timeline`: a host that launches, and a GPU that works off its queue."""
    spans: list[dict[str, Any]] = []
    free = 0.0
    for number in range(launches):
        queued = (number + 1) * launch_us
        start = max(queued, free)
        free = start + work_us
        spans.append({"lane": "host", "name": f"launch {number}",
                      "start": queued - launch_us, "end": queued})  # fmt: skip
        spans.append({"lane": "GPU", "name": f"kernel {number}", "start": start, "end": free})
    return spans


def network(tokens: int) -> dict[str, Callable[[], torch.Tensor]]:
    """Patient Z: the parts of a network, by name, for an input of so many tokens."""
    x, weight = torch.ones(tokens, 64), torch.ones(64, 64)
    return {
        "embed": lambda: x @ weight,
        "mix": lambda: (x @ weight).relu() @ weight,
        "compare": lambda: torch.softmax(x @ x.t(), 1) @ x,
        "classify": lambda: x.mean(0, keepdim=True) @ weight,
    }


def flops(tokens: int) -> dict[str, int]:
    """FLOPs of each part of Z."""
    found = {}
    for name, part in network(tokens).items():
        with FlopCounterMode(display=False) as counter:
            part()
        found[name] = counter.get_total_flops()
    return found
