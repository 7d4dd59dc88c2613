"""Slow kernels: how busy a GPU is, the least time of a launch, and three counters brought down."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "4_vision_low_level/13b_slow_kernels"

# --- busy_share

MANY = 70


def _some_spans(rng: Rng, size: int) -> tuple[list[tuple[float, float]]]:
    """(start, end) of the work of a GPU, one after the other."""
    unit = rng.choice((0.5, 1e-6, 4096.0))
    spans, now = [], unit * rng.randint(0, 40)
    for _ in range(MANY if size == 6 else 1 + rng.randint(0, size)):
        now += unit * rng.choice((0, 0, rng.randint(1, 9), rng.uniform(0.01, 9)))
        end = now + unit * rng.choice((rng.randint(1, 9), rng.uniform(0.01, 9)))
        spans.append((now, end))
        now = end
    return (spans,)


def _busy_share(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans) / (spans[-1][1] - spans[0][0])


busy_share = Exercise(
    id="slow_kernels.busy_share",
    rung="warm-up",
    case=_some_spans,
    expected=_busy_share,
    tolerance=1e-9,
    cases=60,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "{got}: the time begins with the first work, not with 0.",
            when=lambda e: e.inputs[0][0][0] > 0 and e.value < e.right,
        ),
        Hint("{got}: time in which nothing runs counts in the whole.",
             when=lambda e: e.value > e.right),
        "Time at work, divided by the time from the first start to the last end.",
    ),
    must_fail=(
        "begins at 0",
        "counts the pieces of work",
        "gives the idle share",
        "divides by the sum of the work",
        "looks at some of the spans",
        "knows whole numbers only",
        "knows whole halves only",
        "leaves out short pieces",
        "knows short programs only",
        FIRST,
    ),
)  # fmt: skip

# --- least_time


def _some_work(rng: Rng, size: int) -> tuple[float, float, float, float]:
    """(bytes, FLOPs, bytes per second, FLOPs per second)."""
    scale, times = 10.0 ** rng.randint(0, size), float(rng.randint(0, 9))
    bandwidth, rate = rng.randint(1, 40) * 1e11, rng.randint(1, 90) * 1e12
    if size == 0:
        return 0.0, 0.0, bandwidth, rate
    if rng.chance(0.3):  # as small as in the example
        nbytes, flops = (float(rng.randint(0, 20)) for _ in range(2))
        return nbytes, flops, float(rng.randint(1, 20)), float(rng.randint(1, 20))
    if rng.chance(0.4):  # both take equally long, or nearly
        nearly = rng.choice((1.0, 1.0, 1 + 1e-6, 1 - 1e-6))
        return times * bandwidth, times * rate * nearly, bandwidth, rate
    return rng.randint(0, 999) * scale, rng.randint(0, 99_999) * scale, bandwidth, rate


def _least_time(nbytes: float, flops: float, bandwidth: float, rate: float) -> tuple[float, str]:
    moving, computing = nbytes / bandwidth, flops / rate
    return max(moving, computing), "bytes" if moving >= computing else "FLOPs"


least_time = Exercise(
    id="slow_kernels.least_time",
    rung="warm-up",
    case=_some_work,
    expected=_least_time,
    tolerance=1e-12,
    cases=80,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "{got}: a GPU moves and computes at the same time, so the two do not add up.",
            when=lambda e: e.value[0] > 1.000001 * e.right[0],
        ),
        Hint("{got}: the slower of the two decides.", when=lambda e: e.value[0] < e.right[0]),
        Hint("Where both take equally long, it is the bytes.",
             when=lambda e: e.value[0] == e.right[0] and e.value[1] != e.right[1]),
        "max(bytes / bandwidth, FLOPs / rate), and its name.",
    ),
    must_fail=("adds the two", "takes the faster one", "compares bytes with FLOPs",
               "names the FLOPs where both are equal", "takes nearly equal for equal",
               "knows large GPUs only", "rounds to picoseconds", FIRST),
)  # fmt: skip

# --- slow_on_purpose

KERNELS = ("twice", "turned", "mixed")
SLOW = {
    "twice": """extern "C" __global__ void twice(const float* x, float* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    const int row = i % rows, col = i / rows;
    y[row * cols + col] = 2.0f * x[row * cols + col];
}
""",
    "turned": """extern "C" __global__ void turned(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    const int tx = threadIdx.x, left = blockIdx.x * 32, top = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (top + k < n && left + tx < n) tile[k][tx] = x[(top + k) * n + left + tx];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        if (left + k < n && top + tx < n) y[(left + k) * n + top + tx] = tile[tx][k];
}
""",
    "mixed": """extern "C" __global__ void mixed(const float* x, float* y, int n, int a, int b) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (i % 2 == 0)
        for (int k = 0; k < a; ++k) v = 0.5f * v + 1.0f;
    else
        for (int k = 0; k < b; ++k) v = 2.0f - 0.5f * v;
    y[i] = v;
}
""",
}
"""The kernels as a reader is given them: right, and slow."""
FINE = {
    "the launch": "runs",
    "y": "right everywhere",
    "x": "as it was",
    "findings": [],
    "bytes around the arrays": "untouched",
    "lanes": kernel_bench.ALL_LANES,
    "the counter": "below its gate",
}


COUNTED = 512
"""Numbers from which on the lanes of `mixed` are counted."""
EDGES: dict[int, tuple[int, tuple[int, ...]]] = {
    0: (0, (1, 1)),
    1: (1, (1,)),
    2: (2, (40, 8, 20)),
    3: (2, (577, 0, 40)),
    4: (1, (100,)),
}
"""(which kernel, its numbers) at the first sizes, whatever the seed."""


def _a_slow_launch(rng: Rng, size: int, which: int | None = None) -> tuple[Any, ...]:
    """(which kernel, its numbers, order)."""
    edge, edges = EDGES.get(size, (size % 3, ()))
    kernel = edge if which is None else which
    order = rng.choice(("reverse", rng.randint(1, 99)))
    numbers: tuple[int, ...] = (64 * rng.randint(8, 9 + size) + rng.choice((0, 1, 33)),
                                rng.randint(8, 10), rng.randint(20, 24))  # fmt: skip
    if edges and kernel == edge:
        numbers = edges
    elif kernel == 0:
        numbers = (rng.randint(33, 48 + 4 * size), rng.randint(33, 48 + 4 * size))
    elif kernel == 1:
        numbers = (rng.choice((32, 33, 64, 65, rng.randint(20, 40 + 8 * size))),)
    return kernel, numbers, order


@handed_out
def _right(kernel: int, numbers: tuple[int, ...], x: Any) -> Any:
    if kernel == 0:
        return 2 * x
    if kernel == 1:
        return x.reshape(numbers[0], numbers[0]).T.ravel()
    even, odd = x.copy(), x.copy()
    for _ in range(numbers[1]):
        even = np.float32(0.5) * even + np.float32(1)
    for _ in range(numbers[2]):
        odd = np.float32(2) - np.float32(0.5) * odd
    return np.where(np.arange(len(x)) % 2 == 0, even, odd)


@handed_out
def _shape(kernel: int, numbers: tuple[int, ...]) -> tuple[int, Any, Any]:
    """(elements, grid, block)."""
    if kernel == 1:
        tiles = -(-numbers[0] // 32)
        return numbers[0] ** 2, (tiles, tiles), (32, 8)
    count = numbers[0] * numbers[1] if kernel == 0 else numbers[0]
    return count, -(-count // 128), 128


def _drive_slow(answer: Any, kernel: int, numbers: tuple[int, ...], order: Any) -> Found:
    """What one of the three kernels left, and its own counter."""
    code = answer[kernel]()
    count, grid, block = _shape(kernel, numbers)
    x = np.array([100.25 * ((7 * i * i + 3) % 64 - 24.5) for i in range(count)], np.float32)
    done = kernel_bench.launch(
        code, KERNELS[kernel], grid, block, (x, np.full(count, 7, np.float32), *numbers),
        order=order, trace=True,
    )  # fmt: skip
    if done.report is None:
        return Found({"the launch": done.failure})
    found, right = dict(FINE), _right(kernel, numbers, x)
    if wrong := np.flatnonzero(~np.isclose(done.arrays[-1], right)).tolist():
        at = wrong[0]
        found["y"] = f"y[{at}] is {done.arrays[-1][at]}, not {right[at]}; {len(wrong)} are wrong"
    if not np.array_equal(done.arrays[0], x):
        found["x"] = "written over"
    found["findings"], found["bytes around the arrays"] = done.findings[:2], done.outside
    found["lanes"] = _at_work(done, grid, block)
    if said := _counter(kernel, numbers, done.report):
        found["the counter"] = said
    return Found(found).seen_in(done.report)


@handed_out
def _at_work(done: Any, grid: Any, block: Any) -> str:
    """Whether whole warps read and write; a tile has four rows for each of its eight warps."""
    grid = grid if isinstance(grid, tuple) else (grid,)
    block = block if isinstance(block, tuple) else (block,)
    enough = kernel_bench.warps(grid, block) * (4 if len(block) == 2 else 1)
    names = done.names
    return kernel_bench.few_lanes(
        done.report, {("read", names[0]): enough, ("write", names[1]): enough}
    )


@handed_out
def _counter(kernel: int, numbers: tuple[int, ...], report: Any) -> str:
    """What this kernel's counter says against it."""
    if kernel == 0:
        return _too_many_sectors(report)
    if kernel == 1:
        waves = report.total("wavefronts", space="shared")
        most = 2 * report.total("requests", space="shared")
        if waves > most:
            return f"{waves} wavefronts, at most {most}"
        return _too_many_sectors(report)
    if numbers[0] < COUNTED:
        return ""
    runs = sum(line.runs for line in report.lines)
    most = round(0.8 * _slow_runs(numbers))
    if report.simd_efficiency < 0.85:
        return f"{report.simd_efficiency:.0%} of the lanes at work, at least 85%"
    return f"{runs} runs of a line by a warp, at most {most}" if runs > most else ""


@handed_out
def _too_many_sectors(report: Any) -> str:
    """A request of neighbours may begin in the middle of a sector, and needs one more then."""
    every = [*report.select(space="global")]
    sectors = sum(one.sectors for one in every)
    most = sum(one.ideal_sectors + one.requests for one in every)
    return f"{sectors} sectors, at most {most}" if sectors > most else ""


@handed_out
def _slow_runs(numbers: tuple[int, ...]) -> int:
    """How often warps run a line of the slow kernel, which goes through both of its loops."""
    count, grid, block = _shape(2, numbers)
    x = np.ones(count, np.float32)
    done = kernel_bench.launch(SLOW["mixed"], "mixed", grid, block, (x, x, *numbers), trace=True)
    assert done.report is not None, done.failure
    return sum(line.runs for line in done.report.lines)


def _stage(which: int) -> Any:
    return lambda rng, size: _a_slow_launch(rng, size, which)


def _score(answer: Any) -> str:
    """The three counters at one size."""
    said = []
    for kernel, numbers in enumerate(((64, 64), (64,), (1024, 8, 20))):
        done = _drive_slow(answer, kernel, numbers, "reverse").report
        assert done is not None
        each = done.total("sectors") / done.total("requests", space="global")
        waves = done.total("wavefronts") / max(1, done.total("requests", space="shared"))
        said.append(
            (f"{each:.1f} sectors", f"{waves:.1f} wavefronts", f"{done.simd_efficiency:.0%} lanes")
            [kernel]
        )  # fmt: skip
    return f"yours: {', '.join(said)}; ideal: 4 sectors, 1 wavefront, 100% lanes"


def _fewer(kernel: int, numbers: tuple[int, ...], order: Any) -> Iterator[tuple[Any, ...]]:
    if order != "reverse":
        yield kernel, numbers, "reverse"
    if kernel == 0 and min(numbers) > 33:
        yield kernel, tuple(33 for _ in numbers), order


slow_on_purpose = Exercise(
    id="slow_kernels.slow_on_purpose",
    stages=(
        Stage("sectors", case=_stage(0), cases=5),
        Stage("wavefronts", case=_stage(1), cases=5),
        Stage("lanes", case=_stage(2), cases=5),
        Stage("all three"),
    ),
    case=_a_slow_launch,
    expected=lambda *case: FINE,
    drive=_drive_slow,
    returns=(Found,),
    picture=kernel_bench.drawn,
    score=_score,
    smaller=_fewer,
    show=lambda kernel, numbers, order: (
        f"{KERNELS[kernel]} with {', '.join(map(str, numbers))}, threads in order {order}"
    ),
    cases=12,
    minutes=15,
    seconds=60.0,
    processes=True,
    hints=(
        Hint(
            "A faster wrong answer is no repair. Which element does each thread make?",
            when=lambda e: e.value.get("y", FINE["y"]) != FINE["y"],
        ),
        Hint(
            "Lanes 0 and 1 are neighbours. How far apart are the numbers that they ask for?",
            stage="sectors",
        ),
        Hint(
            "32 lanes read one column of the tile. Two numbers share a bank when they are a "
            "multiple of 32 apart.",
            stage="wavefronts",
        ),
        Hint(
            "Neighbouring lanes take different branches, or all lanes go through both loops: in "
            "each case a warp runs both. Let a warp, not a lane, decide.",
            when=lambda e: e.value.get("the counter") != e.right["the counter"],
            stage="lanes",
        ),
        "For the third: of each 64 elements one warp takes the even ones, the next one the odd "
        "ones.",
    ),
    must_fail=(
        "is as it was",
        "does a part of the work",
        "lets one thread do all the work",
        "swaps the tile for reads across rows",
        "computes both branches and selects",
        "has another kernel name",
        "remembers which sizes were asked for",
        "drops the last elements",
        "turns square images of whole tiles only",
        "writes over x",
        "knows whole numbers only",
        "knows positive numbers only",
        "does nothing for small sizes",
        "does nothing for large tiles",
        "does one round where none is asked for",
    ),
)

EXERCISES = (busy_share, least_time, slow_on_purpose)
