"""Your first kernel: saxpy for any length, grid and dtype, and the sectors of a request by hand."""

import math
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found, Slab
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._kernel_steps import guard, index
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST
from labkit.cuda.report import Report

NOTEBOOK = "4_vision_low_level/1_first_kernel"

DTYPES = {"float": np.float32, "double": np.float64, "int": np.int32}
NAMES = tuple(f"saxpy<{name}>" for name in DTYPES)
WARP = 32
SECTOR = 32


# --- saxpy


def _numbers(rng: Rng, name: str, count: int) -> list[Any]:
    """Values whose products and sums are exact in this dtype, and in no narrower one."""
    if name == "int":
        return [rng.randint(-(2**26), 2**26) for _ in range(count)]
    bits = 6 if name == "float" else 40
    return [rng.randint(-99, 99) + rng.randint(1, 2**bits - 1) / 2**bits for _ in range(count)]


Launch = tuple[Any, ...]


def _a_launch(rng: Rng, size: int) -> Launch:
    name = rng.choice(tuple(DTYPES))
    count = rng.choice((0, 1, rng.randint(1, 1 + 40 * size), 1 + 30 * size))
    first = rng.choice((0, 0, rng.randint(1, 99), 2**31 - rng.randint(0, 9), 2**32 + 5))
    grid, block = rng.randint(1, 1 + size // 2), rng.choice((1, 7, 32, 33, 64, 96))
    if size == 0:
        first, grid, block = 0, 1, 32
    order = rng.choice(("reverse", rng.randint(1, 999)))
    x, y = _numbers(rng, name, count), _numbers(rng, name, count)
    return name, rng.randint(-9, 9), x, y, first, grid, block, order


def _with(names: tuple[str, ...] = ("float",), far: int = 0, enough: bool = False) -> Any:
    """Launches of these kernels only, with `first` up to `far`, and one thread per element."""

    def made(rng: Rng, size: int) -> Launch:
        _, a, x, y, _, grid, block, order = _a_launch(rng, size)
        name = rng.choice(names)
        x, y = _numbers(rng, name, len(x)), _numbers(rng, name, len(y))
        grid = max(1, math.ceil(len(x) / block)) if enough else grid
        return name, a, x, y, rng.randint(0, far), grid, block, order

    return made


RIGHT = {
    "the launch": "runs",
    "y": "right everywhere",
    "findings": [],
    "bytes around x and y": "untouched",
    "times an element of y is read": 1.0,
    "requests for y": "few enough",
    "sectors per request": "as few as neighbours need",
    "lanes": kernel_bench.ALL_LANES,
}
"""What `_drive_saxpy` says of a kernel without fault."""


def _expected_saxpy(*inputs: Any) -> dict[str, Any]:
    return RIGHT


def _drive_saxpy(
    answer: Any, name: str, a: int, x: list[Any], y: list[Any], first: int, grid: int, block: int,
    order: Any,
) -> Found:  # fmt: skip
    """What the kernel did to y, and what its trace counted."""
    dtype, count = DTYPES[name], len(x)
    wanted = (np.array(x, dtype) * dtype(a) + np.array(y, dtype)).tolist()
    done = kernel_bench.launch(
        answer(), f"saxpy<{name}>", grid, block,
        (Slab(np.array(x, dtype), first), Slab(np.array(y, dtype), first), a, first, first + count),
        names=NAMES, order=order, trace=True,
    )  # fmt: skip
    if done.report is None:
        return Found({"the launch": done.failure})
    reads = [*done.report.select(access="read", array=done.names[1])]
    requests = sum(one.requests for one in reads)
    enough = grid * math.ceil(block / WARP) * math.ceil(count / (grid * block))
    every = [*done.report.select(space="global")]
    wasted = sum(one.sectors - one.ideal_sectors for one in every)
    per_request = sum(one.sectors for one in every) / max(1, sum(one.requests for one in every))
    got = done.arrays[1].tolist()
    wrong = next((k for k in range(count) if got[k] != wanted[k]), None)
    found = {
        "the launch": done.failure,
        "y": f"y[{first + wrong}] is {got[wrong]}, not {wanted[wrong]}"
        if wrong is not None
        else "",
        "findings": done.findings[:2],
        "bytes around x and y": done.outside,
        "times an element of y is read": sum(one.lanes for one in reads) / (count or 1),
        "requests for y": f"{requests}, where {enough} would do" if requests > enough else "",
        "sectors per request": f"{per_request:.1f}"
        if wasted > sum(one.requests for one in every)
        else "",
        "lanes": kernel_bench.few_lanes(
            done.report, {("read", done.names[0]): enough, ("write", done.names[1]): enough}
        ),
    }
    if count == 0:
        found["times an element of y is read"] = 1.0
    said = {key: RIGHT[key] if value == "" else value for key, value in found.items()}
    return Found(said).seen_in(done.report)


def _fewer_elements(
    name: str, a: int, x: list[Any], y: list[Any], first: int, grid: int, block: int, order: Any
) -> Any:
    for count in sorted({len(x) // 2, len(x) - 1} - {-1, len(x)}):
        yield name, a, x[:count], y[:count], first, grid, block, order
    if grid > 1:
        yield name, a, x, y, first, 1, block, order
    if first:
        yield name, a, x, y, 0, grid, block, order


def _show_launch(
    name: str, a: int, x: list[Any], y: list[Any], first: int, grid: int, block: int, order: Any
) -> str:
    some = "" if len(x) <= 4 else ", ..."
    return (
        f"saxpy<{name}>, grid {grid}, block {block}, threads in order {order}; a = {a}, first = "
        f"{first}, n = {first + len(x)}; x = [{', '.join(map(str, x[:4]))}{some}], "
        f"y = [{', '.join(map(str, y[:4]))}{some}]"
    )


def _about(*words: str) -> Any:
    return lambda evidence: any(word in f"{evidence.property} {evidence.got}" for word in words)


def _saxpy_score(answer: Any) -> str:
    """Sectors per request of 1024 neighbours, and the fewest there can be."""
    x = np.ones(1024, np.float32)
    done = kernel_bench.launch(
        answer(), "saxpy<float>", 2, 64, (x, x, 2, 0, 1024), names=NAMES, trace=True
    )
    assert done.report is not None, done.failure
    asked = done.report.total("requests")
    sectors, ideal = (done.report.total(name) / asked for name in ("sectors", "ideal_sectors"))
    return f"yours {sectors:g} sectors per request, ideal {ideal:g}"


saxpy = Exercise(
    id="first_kernel.saxpy",
    stages=(
        Stage("a thread for each", case=_with(enough=True), cases=10),
        Stage("any grid", case=_with(), cases=10),
        Stage("first", case=_with(far=99), cases=10),
        Stage("double and int", case=_with(("double", "int"), far=99), cases=10),
        Stage("beyond 2^31"),
    ),
    returns=(Found,),
    picture=kernel_bench.drawn,
    score=_saxpy_score,
    case=_a_launch,
    expected=_expected_saxpy,
    drive=_drive_saxpy,
    smaller=_fewer_elements,
    show=_show_launch,
    cases=40,
    seconds=60.0,
    processes=True,
    minutes=15,
    hints=(
        Hint(
            "Your kernel is right where `first` is 0. Which element does thread 0 take elsewhere? "
            "Nothing before `first` is yours.",
            when=_about("out of bounds", "written around"),
            stage="first",
        ),
        Hint(
            "A loop that walks from 0 to `first` asks for nothing on its way, and `first` may be "
            "2^32. Where can it begin?",
            when=_about("requests for y"),
            stage="first",
        ),
        Hint(
            "The loop does not end in time. `first` may be 2^32: does it walk there from 0? Or "
            "does it count in an int, which wraps and never gets to `n`?",
            when=_about("LaunchTimeout"),
        ),
        Hint(
            "Nothing outside is yours. Which thread has an index of n or more, and what "
            "keeps it from touching anything?",
            when=lambda e: (
                any(word in e.got for word in ("out of bounds", "written around"))
                and e.inputs[4] < 2**31 - 99
            ),
        ),
        Hint(
            "Above 2^31 an int wraps. Which of your variables is an int, and what does "
            "blockIdx.x * blockDim.x make of it?",
            when=lambda e: e.inputs[4] >= 2**31 - 99,
        ),
        Hint(
            "All lanes of a warp ask at once. Which lanes ask in your kernel, and for which "
            "elements? Neighbouring threads want neighbouring elements.",
            when=_about("requests for y", "sectors per request"),
        ),
        Hint(
            "The values are off for this dtype: in which type is the product computed?",
            when=lambda e: "['y']" in e.property and e.inputs[0] != "float",
        ),
        "Elements after the first grid are unchanged: gridDim.x * blockDim.x threads is all you "
        "get.",
        "Each thread must take more than one element.",
        "for (long long i = first + blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; "
        "i += (long long)gridDim.x * blockDim.x)",
    ),
    must_fail=(
        "one thread does all",
        "no guard",
        "wrong beyond one grid",
        "int overflow above 2^31 (index check with a fake base)",
        "reads y twice",
        "begins at 0",
        "walks from 0 to first",
        FIRST,
        "is right in forward thread and queue order only and fails in a reversed or shuffled order",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)


# --- predict_sectors

GATHER = """
template <int size> struct alignas(size) Item { char bytes[size]; };
template <int size> __global__ void gather(const Item<size>* x, Item<size>* y, const int* index) {
    y[threadIdx.x] = x[index[threadIdx.x]];
}
"""
ITEM_SIZES = (1, 2, 4, 8, 16)


def _an_index(rng: Rng, size: int) -> str:
    """CUDA and Python text at once; never negative for t and b below 1024 and 8."""
    step, shift = rng.choice((0, 1, 1, 2, 3, 4, 5, 8, 16, 33)), rng.choice((0, 0, 1, 3, 4, 8, 31))
    group = rng.choice((2, 4, 8, 16))
    simple = [f"{step} * t + {shift}", f"{1023 + shift} - t"]
    if size > 2:
        simple += [
            f"({step} * t + {shift}) % {rng.choice((3, 24, 32, 100))}",
            f"t % {group} * {rng.choice((1, 32, 65))} + (t - t % {group})",
            f"{step} * (t - t % {group}) + {shift}",
        ]
    inner = rng.choice(simple)
    return f"b * {rng.choice((1, 32, 100, 256))} + {inner}" if rng.chance(0.5) else inner


def _a_request(rng: Rng, size: int) -> tuple[str, int, int, int, int, int]:
    itemsize = rng.choice(ITEM_SIZES if size else (4,))
    threads = rng.choice((32, 64, 128, 40, 1 + rng.randint(0, 255)))
    warp = rng.randint(0, (threads - 1) // WARP)
    start = 256 * rng.randint(0, 9) + (itemsize * rng.randint(0, 15) if rng.chance(0.5) else 0)
    return _an_index(rng, size), rng.randint(0, 7), warp, threads, itemsize, start


NEIGHBOURS = ("t", "t + 8", "63 - t", "t + 64")
STRIDES = ("2 * t", "3 * t + 8", "5 * t", "8 * t", "16 * t")


def _asking(formulas: tuple[str, ...], starts: range = range(1), threads: range = range(1)) -> Any:
    """Requests of the block's last warp for elements of four bytes, by one of these formulas."""

    def made(rng: Rng, size: int) -> tuple[str, int, int, int, int, int]:
        more = rng.choice(threads)
        return rng.choice(formulas), 0, int(more > 0), WARP + more, 4, rng.choice(starts)

    return made


def _expected_sectors(
    index: str, b: int, warp: int, threads: int, itemsize: int, start: int
) -> tuple[int, int]:
    """What the emulator counts when one warp asks for those elements."""
    report = _gathered(index, b, warp, threads, itemsize, start)
    return report.total("sectors", array="x"), report.total("ideal_sectors", array="x")


def _gathered(index: str, b: int, warp: int, threads: int, itemsize: int, start: int) -> Report:
    lanes = range(WARP * warp, min(WARP * (warp + 1), threads))
    wanted = np.array([eval(index, {"t": t, "b": b}) for t in lanes], np.int32)
    memory = np.zeros(int(wanted.max() + 1) * itemsize + start, np.uint8)
    done = kernel_bench.launch(
        GATHER, f"gather<{itemsize}>", 1, len(wanted),
        (Slab(memory, -start), np.zeros(WARP * itemsize, np.uint8), wanted),
        names=[f"gather<{size}>" for size in ITEM_SIZES], trace=True,
    )  # fmt: skip
    assert done.report is not None, done.failure
    return done.report


def _request_drawn(case: Case, got: Any, right: Any) -> Any:
    """The lanes of the request, and the sectors they touch."""
    from labkit import show

    return show.kernel(_gathered(*case.inputs), at="read x")


def _elements(evidence: Evidence) -> list[int]:
    """The number of the element that each lane wants."""
    index, b, warp, threads, _, _ = evidence.inputs
    lanes = range(WARP * warp, min(WARP * (warp + 1), threads))
    return [eval(index, {"t": t, "b": b}) for t in lanes]


def _touched(evidence: Evidence) -> list[int]:
    """The number of the sector that each lane's element lies in."""
    itemsize, start = evidence.inputs[4:]
    return [(start + itemsize * element) // SECTOR for element in _elements(evidence)]


def _for_each_lane(evidence: Evidence) -> int:
    """How few sectors would hold an element for each lane."""
    itemsize: int = evidence.inputs[4]
    return math.ceil(len(_elements(evidence)) * itemsize / SECTOR)


def _simpler_request(index: str, b: int, warp: int, threads: int, itemsize: int, start: int) -> Any:
    if start:
        yield index, b, warp, threads, itemsize, 0
    if warp:
        yield index, b, 0, threads, itemsize, start
    if b:
        yield index, 0, warp, threads, itemsize, start


predict_sectors = Exercise(
    id="first_kernel.predict_sectors",
    stages=(
        Stage("neighbours", case=_asking(NEIGHBOURS), cases=8),
        Stage("stride", case=_asking(STRIDES), cases=8),
        Stage("start address", case=_asking(NEIGHBOURS + STRIDES, range(4, 64, 4)), cases=8),
        Stage("short warp", case=_asking(NEIGHBOURS + STRIDES, threads=range(1, 31)), cases=8),
        Stage("any formula"),
    ),
    picture=_request_drawn,
    case=_a_request,
    expected=_expected_sectors,
    smaller=_simpler_request,
    banned=("torch.*", "labkit.*", "labkit.widgets.cuda.warp_request"),
    cases=200,
    minutes=12,
    hints=(
        Hint(
            "Several lanes want the same number here. It is wanted once: count numbers, not lanes.",
            when=lambda e: e.value == (e.right[0], _for_each_lane(e)),
        ),
        Hint(
            "The second number is too small by one: bytes that fill a part of a sector need the "
            "whole of it.",
            when=lambda e: e.value == (e.right[0], e.right[1] - 1),
        ),
        Hint(
            "You count all sectors from the first to the last one. Does a lane want something in "
            "each of them?",
            when=lambda e: e.value[0] == max(_touched(e)) - min(_touched(e)) + 1 > e.right[0],
        ),
        Hint(
            "Your sectors are {got}, right is {expected}, and itemsize is not 4 here: how many "
            "bytes lie between two neighbouring elements?",
            when=lambda e: e.inputs[4] != 4 and e.inputs[5] % 32 == 0,
        ),
        Hint(
            "`x[0]` does not lie where a sector begins: `start`, the last argument, is no multiple "
            "of 32. Which sector does the first number lie in?",
            when=lambda e: e.inputs[5] % 32 != 0,
        ),
        Hint(
            "The last warp of a block may have fewer than 32 lanes.",
            when=lambda e: e.inputs[3] < WARP * (e.inputs[2] + 1),
        ),
        "8-byte items need twice the sectors. What is asked for twice is moved once.",
        "32 addresses, divided by 32 bytes, distinct.",
        "Count unique floor(address / 32) per warp; the ideal is the distinct elements times "
        "itemsize, divided by 32, rounded up.",
    ),
    must_fail=(
        "always 4",
        "counts distinct cache lines of 128 bytes",
        "ignores item size",
        "ignores alignment",
        "counts a number once for each lane that wants it",
        "rounds the fewest down",
        "counts all sectors between the first and the last",
        BANNED,
        FIRST,
        CONSTANT,
    ),
)

EXERCISES = (index, guard, predict_sectors, saxpy)
