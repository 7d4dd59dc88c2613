"""Wrong kernels: results that agree, blocks enough, a reduction and a stencil put right."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found, Slab
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._wrong_results import agree, blocks

NOTEBOOK = "4_vision_low_level/13c_wrong_kernels"
SHUFFLED = (
    "is right in forward thread and queue order only and fails in a reversed or shuffled order"
)

# --- broken_reduction

KEPT = 4096
"""Requests of each line: enough to count those of every warp."""
ORDERS = ("forward", "reverse", 5)
FINE = {
    "the launch": "runs",
    "sums": "right",
    "x": "as it was",
    "findings": [],
    "bytes around the arrays": "untouched",
    "atomics": 0,
    "reads of x": kernel_bench.ALL_LANES,
    "writes of out": "one for each block",
    "requests to shared memory": "few enough",
}
EDGES = {
    2: ([one / 2 for one in range(-70, 9 * 64 - 67)], 64),
    4: ([1.5] * 300, 256),
    6: ([math.nan] + [0.5] * 99, 64),
    7: ([math.inf, *[2.0**20] * 99, -3e6], 64),
    8: ([float(one % 7) for one in range(5000)], 128),
}
"""Ten blocks, a large block, a NaN in front of a ragged end, numbers that are large, and many of
them: asked for whatever the seed."""


def _a_sum(rng: Rng, size: int) -> tuple[list[float], int]:
    """Numbers whose sums are exact, some of them not numbers, and threads in a block."""
    if size in EDGES:
        return EDGES[size]
    block = rng.choice((64, 128, 256)) if size else 64
    count = rng.choice((1, block - 1, block, block + 1, rng.randint(1, block * (1 + size // 3))))
    x = [rng.randint(-99, 99) / 2 for _ in range(count)]
    if rng.chance(0.3):
        x[rng.randrange(count)] = math.nan
    return x, block


def _drive_sum(answer: Any, x: list[float], block: int) -> Found:
    """What the kernel left in each order, and what its trace counted."""
    grid = -(-len(x) // block)
    padded = np.zeros(grid * block, np.float32)
    padded[: len(x)] = x
    right = padded.reshape(grid, block).sum(1)
    found, code = dict(FINE), answer()
    for order in ORDERS:
        done = kernel_bench.launch(
            code, "total", grid, block, (np.array(x, np.float32), np.full(grid, 7, "f"), len(x)),
            order=order, trace=order == "forward", kept=KEPT,
        )  # fmt: skip
        if done.failure:
            return Found({"the launch": done.failure})
        sums = done.arrays[-1]
        if not np.array_equal(sums, right, equal_nan=True):
            found["sums"] = f"order {order}: {sums.tolist()}, not {right.tolist()}"
        if not np.array_equal(done.arrays[0], np.array(x, np.float32), equal_nan=True):
            found["x"] = "written over"
        if done.outside != "untouched":
            found["bytes around the arrays"] = done.outside
        if done.report is not None:
            found |= _counted_sum(done, grid, block)
            report = done.report
    return Found(found).seen_in(report)


@handed_out
def _counted_sum(done: Any, grid: int, block: int) -> dict[str, Any]:
    """What a trace says against a reduction."""
    report, warps = done.report, grid * block // 32
    asked = Counter((one.block, one.warp) for one in report.requests if one.space == "shared")
    most = 3 * int(math.log2(block)) + 6
    writes = report.total("lanes", access="write", array=done.names[1])
    said: dict[str, Any] = {
        "findings": done.findings[:2],
        "atomics": sum(one.requests for one in report.accesses if one.access == "atomic"),
        "reads of x": kernel_bench.few_lanes(report, {("read", done.names[0]): warps}),
    }
    if writes > grid:
        said["writes of out"] = f"{writes}, where {grid} would do"
    if max(asked.values(), default=0) > most:
        said["requests to shared memory"] = (
            f"{max(asked.values())} by one warp, where {most} would do"
        )
    return said


def _fewer_numbers(x: list[float], block: int) -> Iterator[tuple[list[float], int]]:
    for count in {len(x) // 2, len(x) - 1, block} - {0, len(x)}:
        if count < len(x):
            yield x[:count], block


def _about(*names: str) -> Any:
    """Whether one of these is not as it should be."""
    return lambda e: any(e.value.get(name, e.right[name]) != e.right[name] for name in names)


def _finding(word: str) -> Any:
    return lambda e: any(word in line for line in e.value.get("findings", ()))


broken_reduction = Exercise(
    id="wrong_kernels.broken_reduction",
    stages=(
        Stage("one full block", case=lambda rng, size: ([1.0] * 64, 64), cases=1),
        Stage("ragged", only=lambda x, block: len(x) % block != 0, cases=6),
        Stage("any numbers"),
    ),
    case=_a_sum,
    expected=lambda x, block: FINE,
    drive=_drive_sum,
    returns=(Found,),
    picture=kernel_bench.drawn,
    smaller=_fewer_numbers,
    show=lambda x, block: f"{len(x)} numbers {x[:4]}..., {block} threads in a block",
    cases=14,
    minutes=15,
    seconds=60.0,
    processes=True,
    hints=(
        Hint(
            "{got}: some threads never come to this barrier. A barrier stands outside of every "
            "branch that not all threads take.",
            when=_finding("barrier divergence"),
        ),
        Hint(
            "{got}: which line writes that number, which one reads it, and what stands between "
            "the two?",
            when=_finding("race"),
        ),
        Hint(
            "{got}: the sum of a block has one writer.",
            when=_about("writes of out"),
        ),
        Hint(
            "The block's own threads should halve the numbers together. Whose work is done by one "
            "thread, or one after the other?",
            when=_about("reads of x", "requests to shared memory", "atomics"),
        ),
        Hint(
            "The sums are wrong: for this many numbers, or this block. What is added from the "
            "places behind the last number?",
            when=_about("sums"),
        ),
        "Since 2017 the lanes of a warp need not run in step, so the last 32 lanes need order too.",
        "Let the loop with the barrier run down to step = 1, with the barrier behind the branch.",
    ),
    must_fail=(
        "is the kernel as it was",
        "one thread sums",
        "extra barrier inside the branch",
        "volatile only",
        "knows one size of block",
        "atomic adds",
        "sums the numbers that are numbers",
        "adds what lies behind the last number",
        "adds up in x itself",
        "adds up in a few threads",
        "lets all threads write the sum",
        "pads with a number times zero",
        "knows whole numbers only",
        "cuts large numbers off",
        "knows 4096 numbers at most",
        SHUFFLED,
    ),
)

# --- broken_stencil

STENCIL_FINE = {
    "the launch": "runs",
    "blocks": "as many as needed",
    "out": "right everywhere",
    "x": "as it was",
    "findings": [],
    "bytes around the arrays": "untouched",
    "lanes": kernel_bench.ALL_LANES,
}
LAYOUTS = (
    "channels first",
    "channels last",
    "every second column",
    "rows and columns exchanged",
    "one channel, expanded",
)


def _an_image(rng: Rng, size: int, layouts: tuple[str, ...] = LAYOUTS) -> tuple[Any, ...]:
    """(shape, layout, threads in a block, order, seed of the numbers)."""
    shape = tuple(rng.randint(1, 2 + size // 2) for _ in range(2))
    shape += tuple(rng.randint(1, 3 + 2 * size) for _ in range(2))
    order, block = rng.choice(("reverse", rng.randint(1, 99))), rng.choice((32, 64, 96))
    if size == 5 and len(layouts) > 1:
        return (1, 3, 2, 5), LAYOUTS[-1], block, order, rng.randint(0, 999)
    if size == 7:
        return (2, 3, 29, 31), rng.choice(layouts), block, order, rng.randint(0, 999)
    if size and rng.chance(0.25):  # the blocks come out even
        shape = (1, rng.randint(1, 2), 1, block)
    return shape, rng.choice(layouts), block, order, rng.randint(0, 999)


@handed_out
def _laid_out(shape: tuple[int, ...], layout: str, seed: int) -> Any:
    """(image [N, C, H, W] as a view, the memory that it is a view of)."""
    n, c, h, w = shape
    draw = np.random.default_rng(seed)
    numbers = (draw.integers(-99, 99, 2 * n * c * h * w) / 2).astype(np.float32)
    numbers[seed % 5 :: 5] = np.nan
    numbers[seed % 4 :: 4] *= 2.0**20
    if layout == "channels first":
        memory = numbers[: n * c * h * w]
        return memory.reshape(n, c, h, w), memory
    if layout == "channels last":
        memory = numbers[: n * c * h * w]
        return memory.reshape(n, h, w, c).transpose(0, 3, 1, 2), memory
    if layout == "every second column":
        return numbers.reshape(n, c, h, 2 * w)[..., ::2], numbers
    if layout == "one channel, expanded":
        memory = numbers[: n * h * w]
        return np.broadcast_to(memory.reshape(n, 1, h, w), shape), memory
    memory = numbers[: n * c * h * w]
    return memory.reshape(n, c, w, h).transpose(0, 1, 3, 2), memory


@handed_out
def _slopes(image: Any) -> Any:
    """Right neighbour less left neighbour along the rows, 0 outside."""
    padded = np.pad(image, ((0, 0), (0, 0), (0, 0), (1, 1)))
    return padded[..., 2:] - padded[..., :-2]


@handed_out
def _same(got: Any, right: Any) -> Any:
    """Where two arrays hold the same; two NaN are the same here."""
    return (got == right) | (np.isnan(got) & np.isnan(right))


def _drive_stencil(
    answer: Any, shape: tuple[int, ...], layout: str, block: int, order: Any, seed: int
) -> Found:
    """How many blocks were asked for, and what they did."""
    blocks_for, code = answer[0], answer[1]()
    image, memory = _laid_out(shape, layout, seed)
    right, found = _slopes(image), dict(STENCIL_FINE)
    grid, needed = blocks_for(image.size, block), -(-image.size // block)
    if type(grid) is not int or grid != needed:
        return Found({"blocks": f"{grid}, where {needed} are needed"})
    strides = [step // 4 for step in image.strides]
    last = 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True))
    done = kernel_bench.launch(
        code, "slopes", grid, block,
        (Slab(memory[:last]), np.full(shape, 7, np.float32), *shape, *strides),
        order=order, trace=True,
    )  # fmt: skip
    if done.report is None:
        return Found({"the launch": done.failure})
    got = done.arrays[-1]
    if wrong := np.argwhere(~_same(got, right)).tolist():
        at = tuple(wrong[0])
        found["out"] = f"out{list(at)} is {got[at]}, not {right[at]}; {len(wrong)} are wrong"
    if not _same(done.arrays[0], memory[:last]).all():
        found["x"] = "written over"
    found["findings"] = done.findings[:2]
    found["bytes around the arrays"] = done.outside
    warps = kernel_bench.warps(done.report.grid, done.report.block)
    found["lanes"] = kernel_bench.few_lanes(done.report, {("write", done.names[1]): warps})
    return Found(found).seen_in(done.report)


broken_stencil = Exercise(
    id="wrong_kernels.broken_stencil",
    stages=(
        Stage("channels first", case=lambda r, n: _an_image(r, n, LAYOUTS[:1]), cases=6),
        Stage("channels last", case=lambda r, n: _an_image(r, n, LAYOUTS[1:2]), cases=6),
        Stage("any strides"),
    ),
    case=_an_image,
    expected=lambda *case: STENCIL_FINE,
    drive=_drive_stencil,
    returns=(Found,),
    picture=kernel_bench.drawn,
    show=lambda shape, layout, block, order, seed: (
        f"an image of {list(shape)}, {layout}, {block} threads in a block, order {order}"
    ),
    cases=16,
    minutes=15,
    seconds=60.0,
    processes=True,
    hints=(
        Hint(
            "{got}: the last elements need a block as well, and no block may be left over.",
            when=_about("blocks"),
        ),
        Hint(
            "{got}: the threads behind the last element, or a neighbour that does not exist. Test "
            "before you read.",
            when=_finding("out of bounds"),
        ),
        Hint(
            "Only images in another layout fail. The strides are arguments: which line still "
            "computes a place without them?",
            when=lambda e: e.inputs[1] != "channels first",
        ),
        Hint(
            "{got}: a neighbour outside of the row counts as 0, and the next row is outside too.",
            when=_about("out"),
        ),
        "Take i apart into n, c, h and w; test w; then n * sn + c * sc + h * sh + w * sw.",
    ),
    must_fail=(
        "is the kernel as it was",
        "assumes that channels come first",
        "chooses between two layouts",
        "clamps at the border",
        "wraps into the next row",
        "has no guard",
        "reads a neighbour and masks it afterwards",
        "launches too few blocks",
        "launches one block too many",
        "lets one thread do all the work",
        "is right only for square images",
        "writes over x",
        "knows whole numbers only",
        "adds its own number times zero",
        "refuses an expanded image",
        "cuts large numbers off",
        "knows 4096 elements at most",
    ),
)

EXERCISES = (agree, blocks, broken_reduction, broken_stencil)
