"""Memory layout: an NCHW to NHWC kernel held to its counters, and formats read off metadata."""

import math
from typing import Any

import numpy as np
import torch

import labkit.cuda as cuda
from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._layout_steps import channels_last_strides, column_waves
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.report import Report

NOTEBOOK = "4_vision_low_level/3_memory_layout"

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
SQUARE = "is right only for square, even or contiguous shapes"

# --- reorder_kernel

ITEMS = {"float": np.float32, "double": np.float64, "short": np.int16}


class Emulated:
    """One emulated device for all cases, and the kernels compiled for it."""

    driver: EmulatorDriver | None = None
    kernels: dict[tuple[str, str], Any] = {}  # noqa: RUF012

    @classmethod
    def kernel(cls, source: str, item: str) -> Any:
        """The learner's kernel for items of one C type."""
        if cls.driver is None:
            cls.driver = EmulatorDriver(capacity=64 << 20, timeout_s=kernel_bench.SECONDS)
        if (source, item) not in cls.kernels:
            module = cuda.RawModule(source, options=(f"-DITEM={item}",), driver=cls.driver)
            cls.kernels[source, item] = module.get_function("nchw_to_nhwc")
        return cls.kernels[source, item]


LIMITS = {
    "sectors read / ideal": 1.25,
    "sectors written / ideal": 1.25,
    "wavefronts / ideal": 1.1,
}
COALESCED, ALL = 2, 3
"""How many of the limits hold a kernel, where channels and pixels are multiples of 32."""


def _even_image(limits: int, *items: str) -> Any:
    """Images of whole tiles, and how many limits are asked of them."""

    def made(rng: Rng, size: int) -> tuple[Any, ...]:
        shape = (rng.randint(1, 2), rng.choice((32, 64)), *rng.choice(((8, 8), (4, 8), (3, 32))))
        return (
            shape,
            rng.choice(items),
            rng.choice(("forward", "reverse")),
            rng.getrandbits(30),
            (limits),
        )

    return made


def _an_image(rng: Rng, size: int) -> tuple[Any, ...]:
    item = rng.choice(tuple(ITEMS))
    order = rng.choice(("forward", "reverse", rng.randint(0, 99)))
    if size >= 6:  # every type meets the counters in every check
        item = ("float", "double", "short")[size - 6]
        shape = (rng.randint(1, 2), rng.choice((32, 64)), *rng.choice(((8, 8), (4, 8), (3, 32))))
    else:
        primes = (1, 2, 3, 5, 7, 11, 13)
        channels = rng.choice((1, 2, 3, 17, 31, 33, 37))
        shape = (rng.randint(1, 2), channels, rng.choice(primes), rng.choice(primes))
    return shape, item, order, rng.getrandbits(30), ALL


class Picture:
    """The numbers of a case, and what a launch made of them."""

    def __init__(self, shape: tuple[int, ...], item: str, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.x = generator.integers(-999, 999, shape).astype(ITEMS[item])
        n, c, h, w = shape
        self.y = np.full((n, h, w, c), 1234, ITEMS[item])


def _drive_kernel(
    answer: Any, shape: tuple[int, ...], item: str, order: Any, seed: int, limits: int
) -> Found:
    source, launch = answer
    kernel = Emulated.kernel(source, item)
    grid, block = launch(*shape)
    picture = Picture(shape, item, seed)
    channels, pixels = shape[1], shape[2] * shape[3]
    report: Report = kernel(
        grid, block, (picture.x, picture.y, channels, pixels),
        trace=cuda.Trace(requests=1), order=order,
    )  # fmt: skip
    x, y = list(report.arrays)[:2]
    ratios = {}
    for name, which, counter in (
        ("sectors read / ideal", {"space": "global", "access": "read"}, "sectors"),
        ("sectors written / ideal", {"space": "global", "access": "write"}, "sectors"),
        ("wavefronts / ideal", {"space": "shared"}, "wavefronts"),
    ):
        ideal = report.total(f"ideal_{counter}", **which)
        ratios[name] = report.total(counter, **which) / ideal if ideal else 1.0
    said = {
        "findings": [str(finding) for finding in report.findings][:2],
        "elements written": report.total("lanes", space="global", access="write"),
        "y": picture.y,
        "lanes": kernel_bench.few_lanes(
            report,
            {
                ("read", x): shape[0] * channels * math.ceil(pixels / 32),
                ("write", y): shape[0] * pixels * math.ceil(channels / 32),
            },
        ),
        **ratios,
    }
    return Found(said).seen_in(report)


def _show_image(shape: tuple[int, ...], item: str, order: Any, seed: int, limits: int) -> str:
    return f"x {list(shape)} of {item}, thread order {order}"


def _judge_kernel(case: Case, got: Any) -> str | Wrong | None:
    shape, item, _, seed, limits = case.inputs
    if isinstance(got, Raised):
        return "the kernel compiles, and the launch runs to its end"
    if got["findings"]:
        return f"the trace finds nothing, but: {got['findings'][0]}"
    picture = Picture(shape, item, seed)
    if not np.array_equal(got["y"], picture.x.transpose(0, 2, 3, 1)):
        return f"y[n, h, w, c] is x[n, c, h, w] for the sizes {shape}"
    if got["elements written"] != picture.x.size:
        return Wrong("the kernel writes every element once", picture.x.size)
    if got["lanes"] != kernel_bench.ALL_LANES:
        return f"the lanes of a warp work together, but {got['lanes']}"
    if shape[1] % 32 == 0 and (shape[2] * shape[3]) % 32 == 0:
        for name, limit in list(LIMITS.items())[:limits]:
            if got[name] > limit:
                return f"{name} is at most {limit} for items of type {item}, not {got[name]:.4g}"
    return None


reorder_kernel = Exercise(
    id="memory_layout.reorder_kernel",
    rung="boss",
    stages=(
        Stage("right", case=_even_image(0, "float"), cases=3),
        Stage("coalesced", case=_even_image(COALESCED, "float"), cases=3),
        Stage("no conflicts", case=_even_image(ALL, "float"), cases=3),
        Stage("three types", case=_even_image(ALL, *ITEMS), cases=5),
        Stage("any size"),
    ),
    returns=(Found,),
    show=_show_image,
    picture=kernel_bench.drawn,
    case=_an_image,
    judge=_judge_kernel,
    drive=_drive_kernel,
    cases=24,
    sizes=8,
    seconds=60.0,
    processes=True,
    minutes=30,
    hints=(
        Hint(
            "32 wavefronts on the read side: all lanes of a column meet in one bank. What is the "
            "row pitch in your index? Padding counts where it is in the address.",
            when=lambda evidence: (
                "wavefronts" in evidence.property
                and "short" not in evidence.property
                and evidence.value["wavefronts / ideal"] > 8
            ),
        ),
        Hint(
            "Some lanes of a column still meet in a bank. Banks are 4 bytes wide: how many words "
            "is your pitch for this type, and is it an odd number?",
            when=lambda evidence: (
                "wavefronts" in evidence.property and "type float" in evidence.property
            ),
        ),
        Hint(
            "Banks are 4 bytes wide. A pitch of 33 items of 2 bytes is 16.5 words: some lanes "
            "meet. Which pitch of shorts is an odd number of words?",
            when=lambda evidence: (
                "wavefronts" in evidence.property and "short" in evidence.property
            ),
        ),
        Hint(
            "All threads of a block must reach __syncthreads: guard the loads and the stores, not "
            "the kernel.",
            when=lambda evidence: "barrier" in evidence.property or evidence.kind == "raised",
        ),
        Hint(
            "The last tile is rarely full: compare both indices with channels and pixels around "
            "every access, and round the grid up.",
            when=lambda evidence: (
                "out of bounds" in evidence.property or "for the sizes" in evidence.property
            ),
        ),
        Hint(
            "Between the write and the read of the tile every thread must have written.",
            when=lambda evidence: "race" in evidence.property,
        ),
        "Neighbouring threads read neighbouring pixels and write neighbouring channels: the turn "
        "happens in a tile in shared memory.",
        "Load tile[threadIdx.y][threadIdx.x] along pixels; barrier; store "
        "tile[threadIdx.x][threadIdx.y] along channels; pitch 33 items, 34 for shorts.",
    ),
    must_fail=(
        "naive transpose",
        "padded declaration but unpadded index",
        "tile guard with an early return before the barrier",
        "only multiples of 32",
        "copies through the host",
        "a pitch of 33 items for every type",
        "a pitch of 34 items for every type",
        ORDERS,
        SQUARE,
    ),
)

# --- format_of

NAMES = ("contiguous", "channels_last", "channels_last_3d")


def _metadata(rng: Rng, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = rng.choice((4, 4, 4, 5, 5, rng.randint(0, 6)))
    largest = 2 + size // 3
    sizes = tuple(rng.choice((1, rng.randint(1, largest), largest)) for _ in range(rank))
    order = list(range(rank))
    if rank in (4, 5) and rng.chance(0.45):
        order = [0, *range(2, rank), 1]
    elif rng.chance(0.4):
        rng.shuffle(order)
    strides, step = [0] * rank, rng.choice((1, 1, 1, 1, 2))
    for dim in reversed(order):
        strides[dim] = step
        step *= sizes[dim]
        if rng.chance(0.04):
            step += 1
    for dim in range(rank):
        if sizes[dim] == 1 and rng.chance(0.5):
            strides[dim] = rng.choice((0, 1, 3, 1000))
        elif rng.chance(0.03):
            strides[dim] = 0
    if rank and rng.chance(0.1):
        at = rng.randrange(rank)
        sizes = (*sizes[:at], 0, *sizes[at + 1 :])
    return sizes, tuple(strides)


def _formats_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, Any]:
    x = torch.empty_strided(sizes, strides)
    wanted = {"contiguous": torch.contiguous_format}
    if len(sizes) == 4:
        wanted["channels_last"] = torch.channels_last
    if len(sizes) == 5:
        wanted["channels_last_3d"] = torch.channels_last_3d
    formats = [name for name, one in wanted.items() if x.is_contiguous(memory_format=one)]
    copies = [name for name, one in wanted.items() if x.contiguous(memory_format=one) is not x]
    try:
        x.view(-1)
    except RuntimeError:
        if x.numel():
            copies.append("flatten")
    return {"formats": formats, "copies": copies}


def _drive_formats(answer: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, Any]:
    formats, copies = answer(sizes, strides)
    return {"formats": list(formats), "copies": list(copies)}


def _is_plain(sizes: tuple[int, ...]) -> bool:
    return min(sizes, default=2) > 1


def _fewer_dims(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    for at, size in enumerate(sizes):
        if size > 2:
            yield (*sizes[:at], 2, *sizes[at + 1 :]), strides
        if len(sizes) not in (4, 5):
            yield (*sizes[:at], *sizes[at + 1 :]), (*strides[:at], *strides[at + 1 :])


def _empty(evidence: Evidence) -> bool:
    return 0 in evidence.inputs[0]


format_of = Exercise(
    id="memory_layout.format_of",
    stages=(
        Stage("contiguous", only=lambda sizes, _: len(sizes) not in (4, 5) and _is_plain(sizes)),
        Stage("channels last", only=lambda sizes, _: len(sizes) == 4 and _is_plain(sizes)),
        Stage("size 1", only=lambda sizes, _: 1 in sizes and 0 not in sizes),
        Stage("empty", only=lambda sizes, _: 0 in sizes),
        Stage("all ranks"),
    ),
    case=_metadata,
    expected=_formats_of,
    drive=_drive_formats,
    smaller=_fewer_dims,
    cases=1500,
    sizes=8,
    minutes=15,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "An empty tensor is contiguous whatever its strides, and nobody copies to flatten it. "
            "The channels-last walk has no such exception.",
            when=_empty,
        ),
        Hint(
            "With five dimensions the format is called channels_last_3d: the channels first, then "
            "the last three dimensions from right to left, then the images.",
            when=lambda evidence: (
                len(evidence.inputs[0]) == 5
                and not any("channels_last_3d" in names for names in evidence.value.values())
            ),
        ),
        Hint(
            "An axis of size 1 is never stepped along: its stride says nothing. With one channel "
            "a tensor is both formats at once.",
            when=lambda evidence: 1 in evidence.inputs[0],
        ),
        Hint(
            "Only `flatten` is wrong: {got}. x.reshape(-1) copies nothing where one stride walks "
            "all elements in order, be it 1 or not.",
            when=lambda evidence: (
                {*evidence.value["copies"]} ^ {*evidence.right["copies"]} == {"flatten"}
            ),
        ),
        "Walk the axes from the fastest of the format to the slowest: skip size 1, compare the "
        "stride with what is expected, multiply the expectation by the size.",
        "Flattening asks less than contiguity: neighbours must follow each other, stride[d] == "
        "size[d + 1] * stride[d + 1], but the last stride may be anything.",
    ),
    must_fail=(
        "compares strides literally",
        "ignores size-1",
        "empty tensor is neither",
        "3-d formats confused",
        "flattens only what is contiguous",
        "flattens only with a last stride of 1",
        "knows no format of five dimensions",
        BANNED,
        FIRST,
        CONSTANT,
    ),
)

EXERCISES = (column_waves, channels_last_strides, format_of, reorder_kernel)
