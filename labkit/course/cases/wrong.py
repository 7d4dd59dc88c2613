"""Five kernels with one bug each, and what is needed to run them in more ways than one.

P   a barrier is missing
Q   a store without a guard, as in risc0/risc0#3803
R   threads that return before a barrier, as in pytorch/FBGEMM#5857
S   an image read as if its channels came first, as in pytorch/pytorch#67239
T   memory that is read before anybody wrote it
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Launched
from labkit.course.cases.sealed import sealed
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import Report
from labkit.widgets.cuda.tile_view import TileView

Array = NDArray[Any]
SMOOTH = """\
extern "C" __global__ void smooth(const float* x, float* out, int n) {
    __shared__ float tile[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t] = i < n ? x[i] : 0.0f;
    const float left = t > 0 ? tile[t - 1] : tile[t];
    if (i < n) out[i] = 0.5f * (left + tile[t]);
}
"""
BLUR = """\
extern "C" __global__ void blur(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = -1; k <= 1; ++k) {
        if (i + k >= 0 && i + k < n) sum += x[i + k];
    }
    out[i] = sum;
}
"""
LARGEST = """\
extern "C" __global__ void largest(const float* x, float* out, int n) {
    __shared__ float part[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i >= n) return;
    part[t] = x[i];
    __syncthreads();
    const int count = n - blockIdx.x * 64 < 64 ? n - blockIdx.x * 64 : 64;
    float best = part[t];
    for (int k = 1; k < count; ++k) best = fmaxf(best, part[(t + k) % count]);
    out[i] = best;
}
"""
STEPS = """\
extern "C" __global__ void steps(const float* x, float* out, int C, int H, int W) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= C * H * W) return;
    const int w = i % W;
    out[i] = w > 0 ? fabsf(x[i] - x[i - 1]) : 0.0f;
}
"""
CAUSAL = """\
extern "C" __global__ void causal(const float* x, float* table, float* out, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    for (int j = 0; j <= i; ++j) table[i * n + j] = x[i] * x[j];
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += table[i * n + j];
    out[i] = sum;
}
"""
ORDERS = ("forward", "reverse", 7)
"""Which of a block's threads goes first; a number is the seed of a shuffled order."""


@dataclass(frozen=True)
class Kernel:
    """A kernel and its launch; the last array it is given is its result.

    given  (what memory held before, layout of the image) -> its arguments
    right  the result it should have
    """

    source: str
    name: str
    grid: int
    block: int
    given: Callable[[float, str], tuple[Any, ...]]
    right: Array

    def run(
        self, order: str | int = "forward", memory: float = 0.0, layout: str = "rows",
        trace: bool = False,
    ) -> Launched:  # fmt: skip
        """One launch on the emulator.

        order   of the threads of a block
        memory  the number that the arrays to be written hold before
        layout  of an image: "rows" (channel by channel) or "channels last"
        trace   also the findings
        """
        return kernel_bench.launch(
            self.source, self.name, self.grid, self.block, self.given(memory, layout),
            order=order, trace=trace,
        )  # fmt: skip

    def result(self, **how: Any) -> Array:
        """What the launch left in its result."""
        return self.run(**how).arrays[-1]

    def errors(self, **how: Any) -> int:
        """How many elements of the result are wrong."""
        return int((~np.isclose(self.result(**how), self.right)).sum())

    def findings(self) -> list[str]:
        """What the trace of one launch found."""
        return self.run(trace=True).findings

    def report(self) -> Report:
        """The trace of one launch, without the source."""
        report = self.run(trace=True).report
        assert report is not None
        return sealed(report)

    def compiled(self) -> tuple[RawKernel, tuple[Any, ...]]:
        """The kernel on the emulator, and the arguments of its launch, for `find_witness`."""
        module = RawModule(self.source, driver=kernel_bench.device())
        return module.get_function(self.name), self.given(0.0, "rows")

    def changed(self, *changes: tuple[str, str], **more: Any) -> "Kernel":
        """The kernel with pieces of its text replaced.

        Raises   ValueError   a piece is not in the text
        """
        text = self.source
        for old, new in changes:
            if old not in text:
                raise ValueError(f"{self.name} has no {old!r}")
            text = text.replace(old, new)
        return replace(self, source=text, **more)


def table(kernel: Kernel, runs: Mapping[str, Mapping[str, Any]]) -> TileView:
    """A grid for each way to run it: which elements of the result are right."""
    layers = []
    for name, how in runs.items():
        fine = np.isclose(kernel.result(**how), kernel.right)
        cells = np.where(fine, "right", "wrong").reshape(-1, 32)
        layers.append({"name": name, "values": np.full(cells.shape, ""), "status": cells})
    return TileView(layers)


def _numbers(count: int) -> Array:
    return np.array([(7 * i * i + 3) % 101 for i in range(count)], np.float32)


def _row(count: int) -> Callable[[float, str], tuple[Any, ...]]:
    """A row of numbers, a result as long, and the count."""
    return lambda memory, layout: (_numbers(count), np.full(count, memory, np.float32), count)


def _smoothed(x: Array) -> Array:
    rows = x.reshape(-1, 64)
    left = np.concatenate([rows[:, :1], rows[:, :-1]], axis=1)
    return (0.5 * (left + rows)).ravel()


def _blurred(x: Array) -> Array:
    padded: Array = np.pad(x, 1)
    return padded[:-2] + padded[1:-1] + padded[2:]


def picture() -> Array:
    """An image [C, H, W] of three channels: a disc, a bar and a ramp."""
    h, w = np.mgrid[0:32, 0:32]
    disc = (h - 12) ** 2 + (w - 14) ** 2 < 60
    bar = (w > 20) & (w < 26)
    return np.stack([disc * 40, bar * 60, w // 8 * 9]).astype(np.float32)


def _image(memory: float, layout: str) -> tuple[Any, ...]:
    image = picture()
    data = image if layout == "rows" else np.ascontiguousarray(image.transpose(1, 2, 0))
    return data.ravel(), np.full(image.size, memory, np.float32), *image.shape


def _stepped(image: Array) -> Array:
    steps: Array = np.abs(np.diff(image, axis=2, prepend=image[:, :, :1]))
    return steps.ravel()


def _square(memory: float, layout: str) -> tuple[Any, ...]:
    n = 16
    return _numbers(n), np.full(n * n, memory, np.float32), np.full(n, memory, np.float32), n


KERNELS = {
    "P": Kernel(SMOOTH, "smooth", 2, 64, _row(128), _smoothed(_numbers(128))),
    "Q": Kernel(BLUR, "blur", 2, 64, _row(100), _blurred(_numbers(100))),
    "R": Kernel(LARGEST, "largest", 1, 64, _row(50), np.full(50, _numbers(50).max())),
    "S": Kernel(STEPS, "steps", 48, 64, _image, _stepped(picture())),
    "T": Kernel(
        CAUSAL, "causal", 1, 32, _square,
        _numbers(16) * np.cumsum(_numbers(16)),
    ),
}  # fmt: skip


def patient(name: str) -> Kernel:
    """A kernel from "P" to "T"."""
    return KERNELS[name]
