"""Convolution for real: its three gradients, and the product whose matrix is never written."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from labkit.course import conv_bench, kernel_bench
from labkit.course.conv_bench import off
from labkit.course.exercise import Exercise, Hint, Rng, handed_out
from labkit.cuda import inspect
from labkit.cuda.errors import CompileError
from labkit.cuda.shelf.conv_sizes import Conv, double

NOTEBOOK = "4_vision_low_level/5_convolution_real"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"


def _a_convolution(rng: Rng, size: int, groups: int) -> Conv:
    def pair(low: int, high: int) -> tuple[int, int]:
        return rng.randint(low, high), rng.randint(low, high)

    hard = size > 1
    channels, outputs = (groups * rng.randint(1, 1 + size // 3) for _ in range(2))
    taps, stride = pair(1, 3 if hard else 2), pair(1, 3 if hard else 1)
    dilation, padding = pair(1, 1 + size // 3), pair(0, 2 if hard else 1)
    height, width = (
        max(1, dilation[i] * (taps[i] - 1) + 1 - 2 * padding[i]) + rng.randint(0, 2 + size)
        for i in (0, 1)
    )
    return Conv(
        (rng.choice((1, 1, 2, 3)), channels, height, width), (outputs, channels // groups, *taps),
        stride, padding, dilation, groups,
    )  # fmt: skip


def _smaller(conv: Conv) -> Iterator[Conv]:
    batch, channels, height, width = conv.x
    if batch > 1:
        yield conv._replace(x=(1, channels, height, width))
    if conv.stride != (1, 1):
        yield conv._replace(stride=(1, 1))
    if conv.dilation != (1, 1):
        yield conv._replace(dilation=(1, 1))
    if conv.padding != (0, 0) and min(conv._replace(padding=(0, 0)).out_size) > 0:
        yield conv._replace(padding=(0, 0))
    if conv.groups > 1:
        less = (batch, conv.w[1], height, width), (conv.w[0] // conv.groups, *conv.w[1:])
        yield conv._replace(x=less[0], w=less[1], groups=1)
    if conv.groups == 1 and channels > 1:
        yield conv._replace(x=(batch, 1, height, width), w=(conv.w[0], 1, *conv.w[2:]))
    for image in ((height - 1, width), (height, width - 1)):
        smaller = conv._replace(x=(batch, channels, *image))
        if min(image) > 0 and min(smaller.out_size) > 0:
            yield smaller


# --- conv_backward


def _a_backward(rng: Rng, size: int) -> tuple[Any, ...]:
    groups = rng.choice((1, 1, 2, 3)) if size > 1 else 1
    order = rng.choice(("forward", "reverse", rng.randint(1, 999)))
    return _a_convolution(rng, size, groups), rng.choice((32, 64)), order, rng.getrandbits(30)


GRADIENTS = ("dx", "dw", "db")
BACKWARD = {
    "the launches": "run",
    "dx": "right everywhere",
    "dw": "right everywhere",
    "db": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "atomics": 0,
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_backward(*inputs: Any) -> dict[str, Any]:
    return BACKWARD


@handed_out
def gradients(conv: Conv, x: Any, w: Any, dy: Any) -> list[Any]:
    """PyTorch's gradients for x, w and the bias, in float64."""
    leaves = [double(x), double(w), torch.zeros(conv.w[0], dtype=torch.float64)]
    for leaf in leaves:
        leaf.requires_grad_()
    with torch.enable_grad():
        y = conv.apply(*leaves)
    return [one.numpy() for one in torch.autograd.grad(y, leaves, double(dy))]


def _drive_backward(answer: Any, conv: Conv, block: int, order: Any, seed: int) -> dict[str, Any]:
    text = answer()
    x, w, _ = conv_bench.data(conv, seed)
    dy = np.random.default_rng(seed + 1).standard_normal(conv.y).astype(np.float32)
    read = {"dx": (dy, w), "dw": (x, dy), "db": (dy,)}
    shapes = {"dx": conv.x, "dw": conv.w, "db": conv.w[:1]}
    products = math.prod(conv.y)
    depths = {
        "dx": conv.w[0] * math.prod(conv.w[2:]),
        "dw": products // conv.w[0],
        "db": products // conv.w[0],
    }
    found: dict[str, Any] = dict(BACKWARD)
    for name, right in zip(GRADIENTS, gradients(conv, x, w, dy), strict=True):
        out = np.full(shapes[name], np.nan, np.float32)
        kernel = {"dx": "backward_input", "dw": "backward_weight", "db": "backward_bias"}[name]
        done = conv_bench.run(
            text, kernel, conv, math.ceil(out.size / block), block, (*read[name], out), order
        )
        if done.report is None:
            return {"the launches": f"{kernel}: {done.failure}"}
        if wrong := conv_bench.first_wrong(done.arrays[-1], right, depths[name], name):
            found[name] = wrong
        if done.findings:
            found["findings"] = [f"{kernel}: {one}" for one in done.findings[:2]]
        if done.outside != "untouched":
            found["bytes around the arrays"] = f"{kernel}: {done.outside}"
        found["atomics"] += done.report.total("lanes", access="atomic")
        few = conv_bench.lanes(done, {("write", len(read[name])): 1})
        if few != kernel_bench.ALL_LANES:
            found["lanes"] = f"{kernel}: {few}"
    return found


def _smaller_backward(conv: Conv, block: int, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    for less in _smaller(conv):
        yield less, block, order, seed


def _show_backward(conv: Conv, block: int, order: Any, seed: int) -> str:
    return conv_bench.in_words(conv, order) + f"; blocks of {block}"


conv_backward = Exercise(
    id="convolution_real.conv_backward",
    statement=(
        'Return CUDA C++ text with three kernels, each extern "C" __global__ void: '
        "backward_input(const float* dy, const float* w, float* dx, Conv conv), "
        "backward_weight(const float* x, const float* dy, float* dw, Conv conv) and "
        "backward_bias(const float* dy, float* db, Conv conv). Each launch is one-dimensional "
        "with one thread per element of its result: dx [N, C, H, W], dw [K, C / groups, R, S], "
        "db [K]. Any stride, padding, dilation and groups. struct Conv stands before your text. "
        "Example: x [1, 1, 1, 2] = {1, 2}, w [1, 1, 1, 1] = {3}, dy = {10, 20}: dx = {30, 60}, "
        "dw = {50}, db = {30}."
    ),
    rules=(
        "every sum has one owner and one order: no atomics",
        "nothing outside the arrays is read or written",
    ),
    case=_a_backward,
    expected=_expected_backward,
    drive=_drive_backward,
    smaller=_smaller_backward,
    show=_show_backward,
    cases=200,
    seconds=60.0,
    processes=True,
    minutes=30,
    difficulty=4,
    hints=(
        Hint(
            "Stride 1 is right, this one not. Which outputs touched this input? Divide the "
            "distance by the stride, and skip what leaves a remainder.",
            when=lambda e: off("dx")(e) and e.inputs[0].stride != (1, 1),
        ),
        Hint(
            "It is right when groups is 1. Which outputs read this channel, and which channel of "
            "w is it to them?",
            when=lambda e: (off("dx")(e) or off("dw")(e)) and e.inputs[0].groups > 1,
        ),
        Hint(
            "A bias meets every position of every image of its own output channel.",
            when=off("db"),
        ),
        Hint(
            "No atomics: let the thread that owns the result collect what belongs to it.",
            when=off("atomics"),
        ),
        Hint(
            "An element stays as it was when no output touched it: its gradient is 0, and somebody "
            "has to write that.",
            when=lambda e: any(off(name, " nan, not 0")(e) for name in GRADIENTS),
        ),
        Hint(
            "The trace saw an access outside its array. Which two sizes are taken for one another "
            "there?",
            when=off("findings", "out of bounds"),
        ),
        "Write the forward pass as y += x * w over all (n, k, c, p, q, r, s): each gradient keeps "
        "the same products, and sums over other indices.",
        "dx[h] collects from all r with (h + pad - r * dilation) = p * stride, 0 <= p < P. A "
        "negative distance has a remainder of its own: test the sign first.",
        "dw[k, c, r, s] = sum over n, p, q of dy[n, k, p, q] * x[n, c, p * stride - pad + r * "
        "dilation, ...]: the reads of the forward pass.",
    ),
    must_fail=(
        "stride above 1 wrong",
        "weight flipped twice",
        "atomics with random order beyond tolerance",
        "groups mixed",
        "bias gradient over the wrong axes",
        "returns NaN or an uninitialised buffer where a value is expected",
        FIRST,
        "is right only for square, even or contiguous shapes",
    ),
)


# --- implicit_gemm_rung

DTYPES = {"float": np.float32, "double": np.float64}
NAMES = tuple(f"conv2d_gemm<{name}>" for name in DTYPES)
TILE, WARPS = 32, 8
REGULAR = Conv((1, 16, 8, 8), (64, 16, 3, 3), padding=(1, 1))
SECTORS = 0.016
"""Sectors per multiply-add on REGULAR, at most; lanes along k need 0.019."""


def _a_product(rng: Rng, size: int) -> tuple[Any, ...]:
    name = rng.choice(tuple(DTYPES))
    order = rng.choice(("forward", "reverse", rng.randint(1, 999)))
    if size == 8:  # a shape whose counters are known
        return REGULAR, "float", order, rng.getrandbits(30)
    conv = _a_convolution(rng, size, 1)
    if size > 3:
        conv = conv._replace(w=(rng.choice((1, 5, 31, 33, 40)), *conv.w[1:]))
    return conv, name, order, rng.getrandbits(30)


PRODUCT = {
    "the launch": "runs",
    "y": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "elements of x and w read": "each once per tile that needs it",
    "sectors per multiply-add": "few enough",
    "wavefronts per shared request": "at most twice the fewest",
    "written to global memory": "y, once",
    "divisions in the product's loop": "none",
    "bytes spilled": 0,
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_product(*inputs: Any) -> dict[str, Any]:
    return PRODUCT


@functools.lru_cache(64)
@handed_out
def spilled(text: str) -> int:
    """Bytes that NVIDIA's compiler spills; 0 where it is not installed."""
    if not inspect.is_available():
        return 0
    try:
        made = inspect.compile_source(f"{conv_bench.CONV}\n{text}", "sm_90", NAMES)
    except CompileError:
        return 0  # the emulator's compiler has said why
    return sum(one.spill_bytes for one in made.kernels.values())


@handed_out
def hot_divisions(text: str, report: Any, hot: int) -> str:
    """The first line with / or % that warps ran at least `hot` times, "" if there is none.

    A basic block is counted where it begins: the lines after that one run as often.
    """
    runs = {one.line: one.runs for one in report.lines}
    now = 0
    for line, written in enumerate(text.splitlines(), start=1):
        now = runs.get(line) or now
        code = written.partition("//")[0]
        if now >= hot and set("/%") & set(code):
            return f"line {line}: {code.strip()}"
    return ""


def _drive_product(answer: Any, conv: Conv, name: str, order: Any, seed: int) -> dict[str, Any]:
    text = answer()
    x, w, y = conv_bench.data(conv, seed, dtype=DTYPES[name])
    positions = y.size // conv.w[0]
    across, down = math.ceil(positions / TILE), math.ceil(conv.w[0] / TILE)
    done = conv_bench.run(
        text, f"conv2d_gemm<{name}>", conv, (across, down), (16, 16), (x, w, y), order, names=NAMES
    )
    if done.report is None:
        return {"the launch": done.failure}
    report = done.report
    read = report.total("lanes", access="read", space="global")
    needed = conv.depth * (positions * down + conv.w[0] * across)
    sectors = report.total("sectors", access="read", space="global") / (y.size * conv.depth)
    slabs = math.ceil(conv.depth / WARPS) + TILE // WARPS  # loads of a thread, the last ragged
    shared = [*report.select(space="shared")]
    worst = max(shared, key=lambda one: one.wavefronts / max(1, one.ideal_wavefronts), default=None)
    waves = worst.wavefronts / max(1, worst.ideal_wavefronts) if worst else 0.0
    stored = sum(
        one.lanes for one in report.accesses if one.space != "shared" and one.access != "read"
    )
    found = {
        "the launch": done.failure,
        "y": conv_bench.first_wrong(done.arrays[2], conv_bench.right(conv, x, w), conv.depth),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "elements of x and w read": f"{read}, where {needed} would do" if read > needed else "",
        "sectors per multiply-add": f"{sectors:.3f}, gate {SECTORS}"
        if conv == REGULAR and sectors > SECTORS
        else "",
        "wavefronts per shared request": f"{waves:.0f} times the fewest, in line {worst.line}"
        if worst and waves > 2
        else "",
        "written to global memory": f"{stored} elements for {y.size} of y"
        if stored != y.size
        else "",
        "divisions in the product's loop": hot_divisions(
            text, report, conv.depth * WARPS * across * down
        )
        if conv == REGULAR
        else "",
        "bytes spilled": spilled(text),
        "lanes": conv_bench.lanes(
            done,
            {
                ("read", 0): slabs,
                ("read", 1): slabs,
                ("write", 2): 4,
                ("read", "shared"): 4 * WARPS * slabs,
                ("write", "shared"): 2 * slabs,
            },
        ),
    }
    return {key: PRODUCT[key] if value == "" else value for key, value in found.items()}


def _smaller_product(conv: Conv, name: str, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    if conv != REGULAR:
        for less in _smaller(conv):
            yield less, name, order, seed


def _show_product(conv: Conv, name: str, order: Any, seed: int) -> str:
    return f"conv2d_gemm<{name}>: {conv_bench.in_words(conv, order)}"


implicit_gemm_rung = Exercise(
    id="convolution_real.implicit_gemm_rung",
    statement=(
        "Return CUDA C++ text with template <typename T> __global__ void conv2d_gemm(const T* x, "
        "const T* w, T* y, Conv conv), for float and double, one group, any stride, padding and "
        "dilation: y [K, N P Q] = w [K, C R S] times the matrix of what lies under each output, "
        "which is gathered tile by tile and never written down. Launch: block (16, 16), grid "
        "(ceil(N P Q / 32), ceil(K / 32)): a block computes 32 output channels (from 32 * "
        "blockIdx.y) at 32 positions (from 32 * blockIdx.x, counting (n * P + p) * Q + q). "
        "Example: K = 33 and N P Q = 40 make a grid of (2, 2), of whose 64 x 64 results 33 x 40 "
        "exist."
    ),
    rules=(
        "a block reads each element of w and of x under its tile at most once from global memory",
        "on x [1, 16, 8, 8], w [64, 16, 3, 3], padding 1: at most 0.016 sectors per multiply-add, "
        "and no / or % in a line that every warp runs for every depth, as it does the product",
        "at most twice the fewest wavefronts per access of shared memory; no race, no spill",
    ),
    case=_a_product,
    expected=_expected_product,
    drive=_drive_product,
    smaller=_smaller_product,
    show=_show_product,
    cases=54,
    seconds=60.0,
    processes=True,
    minutes=35,
    difficulty=5,
    hints=(
        Hint(
            "Lanes meet in a bank: which dimension is contiguous in your tile, and how far apart "
            "are two neighbouring lanes? Store the tile turned, or pad its rows by one.",
            when=off("wavefronts per shared request"),
        ),
        Hint(
            "Too many sectors. Neighbouring lanes should take neighbours of a row of w (along "
            "C R S), and neighbouring positions of x.",
            when=off("sectors per multiply-add"),
        ),
        Hint(
            "A division in the product's loop: c, r and s of a depth are the same for the whole "
            "tile. Take the index apart where you load, not where you multiply.",
            when=off("divisions in the product's loop"),
        ),
        Hint(
            "Too many reads. A thread may load what 32 others use: 32 x slab of w, slab x 32 of x.",
            when=off("elements of x and w read"),
        ),
        Hint(
            "A race: load, barrier, multiply, barrier. Which one is missing?",
            when=off("findings", "race"),
        ),
        Hint(
            "More is written than y. The matrix exists only tile by tile, in shared memory.",
            when=off("written to global memory"),
        ),
        Hint(
            "The last slab is ragged: C R S is no multiple of it. What is multiplied past the end?",
            when=off("findings", "out of bounds", "uninitialised"),
        ),
        Hint(
            "float is right and double is not: in which type do you sum, and what holds a slab?",
            when=lambda e: off("y")(e) and e.inputs[1] == "double",
        ),
        "256 threads, 32 x 32 results: each thread has 4, at ty and ty + 16, tx and tx + 16.",
        "Per slab: load w and x, barrier, multiply, barrier. What lies outside is stored as 0.",
        "position = (n * P + p) * Q + q and depth = (c * R + r) * S + s: divide while loading.",
    ),
    must_fail=(
        "materialises the matrix",
        "tile without guard for ragged K",
        "recomputes divisions in the inner loop (instruction counter gate)",
        "bank conflict 8",
        "one shape only",
        ORDERS,
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)

EXERCISES = (conv_backward, implicit_gemm_rung)
