"""Who is at work: the lanes of a warp in a sum, and the warps of a device for a block size."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found, off
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST

NOTEBOOK = "4_vision_low_level/11b_lanes_at_work"

THREADS, WARPS = 256, 8
WHOLE = Hint(
    "A whole number is wanted, an int: divide with //.", when=lambda e: isinstance(e.value, float)
)

# --- adding

adding = Exercise(
    id="lanes_at_work.adding",
    rung="warm-up",
    case=lambda rng, size: (2 ** rng.randint(0, 7),),
    expected=lambda step: min(WARPS, THREADS // (2 * step)),
    cases=16,
    minutes=3,
    hints=(
        WHOLE,
        Hint(
            "The adding threads are 2 * step apart, here at most 32. Is there one in every warp?",
            when=lambda e: e.inputs[0] <= 16,
        ),
        "The adding threads are 0, 2 * step, 4 * step, ... There are 256 / (2 * step) of them.",
        "A warp has 32 threads, and the block has 8 warps. There are never more than those.",
        "min(8, 256 // (2 * step))",
    ),
    must_fail=("counts the lanes", "all warps always", "whole warps of adding lanes", CONSTANT),
)

# --- by_registers

REGISTERS = 65536


def _blocks_by_registers(registers: int, threads: int) -> int:
    a_warp = -(-registers * 32 // 256) * 256
    return REGISTERS // a_warp // 4 * 4 // (threads // 32)


def _a_block(rng: Rng, size: int) -> tuple[int, int]:
    """(registers, threads); the last two tell the fours, and that 32 is no limit here."""
    if size > 77:
        return ((40, 64), (16, 32))[size - 78]
    registers = rng.choice((16, 32, 40, 69, 128, 255, rng.randint(1, 255)))
    return registers, 32 * rng.randint(1, 32)


by_registers = Exercise(
    id="lanes_at_work.by_registers",
    rung="warm-up",
    case=_a_block,
    sizes=79,
    expected=_blocks_by_registers,
    cases=80,
    minutes=4,
    banned=TORCH_AND_LABKIT,
    hints=(
        WHOLE,
        Hint(
            "A warp takes registers in portions of 256. Did you round up for each warp?",
            when=lambda e: e.inputs[0] % 8 != 0,
        ),
        Hint(
            "The SM holds warps by fours: 65536 // a_warp, rounded down to a multiple of 4.",
            when=lambda e: REGISTERS // (-(-e.inputs[0] * 32 // 256) * 256) % 4 != 0,
        ),
        "Three steps: registers of a warp, warps on the SM, blocks of that many warps.",
        "a_warp = -(-registers * 32 // 256) * 256, then 65536 // a_warp // 4 * 4 // warps.",
    ),
    must_fail=(
        "divides all registers by those of a block",
        "ignores the fours",
        "ignores the portions",
        "at most 32 blocks",
        FIRST,
        CONSTANT,
    ),
)

# --- block_sum

RIGHT = {
    "the launch": "runs",
    "out": "right",
    "findings": [],
    "bytes around the arrays": "untouched",
    "x": "as it was",
    "the bits in another order of threads": "the same",
    "reads of x": "each number once, by neighbouring lanes",
    "atomics": "none",
    "written to shared memory": "one number per warp",
    "barriers": "at most one",
    "lanes": kernel_bench.ALL_LANES,
}
"""What `_drive_sum` says of a kernel without fault."""


def _a_length(rng: Rng, size: int) -> tuple[int, str, Any, int]:
    """(n, what else is in x, the order of the threads, a seed)."""
    if size == 0:
        return 256, "", "forward", rng.getrandbits(30)
    n = rng.choice((1, 31, 33, 100, 255, 257, 1000, rng.randint(2, 4000)))
    n = {3: 0, 5: 10_001}.get(size, n)
    strange = {1: "nan", 2: "inf", 4: "-inf"}.get(size, "") if n else ""
    return n, strange, rng.choice(("reverse", rng.randint(1, 99))), rng.getrandbits(30)


@handed_out
def _numbers(n: int, strange: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).astype(np.float32) + np.float32(0.5)
    if seed % 2:
        x *= np.float32(2**21)
    if strange:
        x[rng.integers(n)] = float(strange)
    return x


@handed_out
def _is_right(got: float, x: Any) -> bool:
    total = float(x.astype(np.float64).sum())
    if not math.isfinite(total):
        return got == total or (math.isnan(got) and math.isnan(total))
    return abs(got - total) <= 1e-5 * float(np.abs(x).sum())


def _drive_sum(answer: Any, n: int, strange: str, order: Any, seed: int) -> Found:
    text, x = answer(), _numbers(n, strange, seed)
    out = np.full(1, 12345, np.float32)
    done, again = (
        kernel_bench.launch(
            text, "block_sum", 1, THREADS, (x, out, n), order=one, trace=one == order
        )
        for one in (order, 7)
    )
    if done.report is None:
        return Found({"the launch": done.failure})
    got, report = float(done.arrays[1][0]), done.report
    read = report.total("lanes", access="read", array=done.names[0])
    left = report.total("lanes", access="write", space="shared")
    barriers = kernel_bench.barriers(report)
    found = {
        "the launch": done.failure,
        "out": "" if _is_right(got, x) else f"{got:g}, not {float(x.astype(np.float64).sum()):g}",
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "x": kernel_bench.written_inputs(done, [x]),
        "the bits in another order of threads": ""
        if again.arrays[1].tobytes() == done.arrays[1].tobytes()
        else f"{again.arrays[1][0]:.9g} and {got:.9g}",
        "reads of x": kernel_bench.spread_reads(report, done.names[0], math.ceil(n / 8) + 1)
        if read == n
        else f"{read} for {n} numbers",
        "atomics": "" if not report.total("requests", access="atomic") else "some",
        "written to shared memory": "" if left == WARPS else f"{left} numbers by {WARPS} warps",
        "barriers": "" if barriers <= 1 else f"{barriers:g}",
        "lanes": kernel_bench.few_lanes(
            report, {("read", done.names[0]): math.ceil(n / 32) + 1, ("read", "shared"): WARPS}
        ),
    }
    said = {key: RIGHT[key] if value == "" else value for key, value in found.items()}
    return Found(said).seen_in(report)


def _expected_sum(*inputs: Any) -> dict[str, Any]:
    return RIGHT


def _shorter(n: int, strange: str, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    for less in sorted({n // 2, n - 1, 257} - {-1, n}):
        if 0 < less < n:
            yield less, strange, order, seed


block_sum = Exercise(
    id="lanes_at_work.block_sum",
    stages=(
        Stage(
            "256 numbers",
            case=lambda rng, size: (256, "", rng.choice(("forward", "reverse")), size),
            cases=3,
        ),
        Stage("any length"),
    ),
    case=_a_length,
    expected=_expected_sum,
    drive=_drive_sum,
    smaller=_shorter,
    show=lambda n, strange, order, seed: (
        f"n = {n}{f', one of them {strange}' if strange else ''}, threads in order {order}"
    ),
    picture=kernel_bench.drawn,
    returns=(Found,),
    cases=12,
    seconds=60.0,
    processes=True,
    minutes=15,
    hints=(
        kernel_bench.NOT_RUN,
        Hint(
            "n is 0. The sum of nothing is 0, and somebody has to write it.",
            when=lambda e: e.inputs[0] == 0,
        ),
        Hint(
            "A shuffle waits for all lanes in its mask, and may read only from lanes in it. Do all "
            "of them come to it, also for this n? A lane without a number brings 0.",
            when=off("findings", "shuffle", "mask", "deadlock"),
        ),
        Hint(
            "Some number in shared memory is read before its warp wrote it. What stands between?",
            when=off("findings", "race", "uninit"),
        ),
        Hint(
            "Not all threads reach the barrier: no return, and no branch around it.",
            when=off("findings", "barrier"),
        ),
        Hint("The numbers belong to the caller: x is only read.", when=off("x")),
        Hint(
            "Lanes of one request read far apart. In each round thread t takes the number beside "
            "that of thread t - 1.",
            when=off("reads of x", "sectors"),
        ),
        Hint(
            "There are more numbers than threads. Which thread takes number 256, and which 1000?",
            when=lambda e: off("reads of x")(e) and e.inputs[0] > THREADS,
        ),
        Hint(
            "The last bits depend on who comes first. Atomics add in the order of arrival.",
            when=lambda e: off("atomics")(e) or off("the bits in another order of threads")(e),
        ),
        Hint(
            "Each number is read once, and the sum is not theirs. Add all of them as they are, as "
            "floats, NaN and infinities too. `out` is written over, whatever it held.",
            when=off("out"),
        ),
        "Three parts: each thread adds its own numbers; each warp adds its 32 sums by shuffles; "
        "one thread, or one warp, adds the 8 sums of the warps.",
        "for (int i = t; i < n; i += 256) v += x[i]; then the five shuffles, with the full mask.",
        "if (t % 32 == 0) part[t / 32] = v; __syncthreads(); then warp 0 shuffles "
        "t < 8 ? part[t] : 0.",
    ),
    must_fail=(
        "atomics in float",
        "no sync between shuffle phases",
        "takes 256 numbers only",
        "assumes a power of two",
        "loses NaN",
        "loses minus infinity",
        "cuts large numbers off",
        "full mask in a partial warp",
        "a tree in shared memory",
        "two barriers in a row",
        "one warp does all",
        "one thread does all",
        "adds to what was in out",
        "reads some numbers twice",
        "writes to x",
        "a piece for each thread",
        "ends after 2048 numbers",
        "no barrier",
        "adds in whole numbers",
    ),
)

# --- pick_a_block

SMS = 132
NAMES = ("registers", "shared", "warps", "blocks")


def _room(registers: int, shared: int, threads: int) -> tuple[int, ...]:
    """Blocks that fit on an SM of compute capability 9.0, by each of its four limits."""
    portions = -(-(shared + 1024) // 128) * 128
    return (
        _blocks_by_registers(registers, threads),
        233_472 // portions,
        64 // (threads // 32),
        32,
    )


def _pick(registers: int, shared: int, per_thread: int, n: int) -> tuple[int, str]:
    best, picked = -1, (0, "")
    for threads in range(32, 1025, 32):
        room = _room(registers, shared + per_thread * threads, threads)
        needed, places = -(-n // threads), SMS * min(room)
        at_work = min(needed, places) * (threads // 32)
        if at_work > best:
            limiter = "shape" if needed < places else NAMES[room.index(min(room))]
            best, picked = at_work, (threads, limiter)
    return picked


def _a_kernel(rng: Rng, size: int) -> tuple[int, int, int, int]:
    """(registers, shared bytes of a block, and of each thread, n); the last ones are `BORDERS`."""
    if size > 76:
        return BORDERS[size - 77]
    registers = rng.choice((24, 32, 40, 56, 69, 96, 128, 168, 255, rng.randint(16, 255)))
    shared = rng.choice((0, 0, 1024, 8192, 16384, 40000, 100000))
    per_thread = rng.choice((0, 0, 4, 16, 64))
    n = rng.choice((1 << 24, 1 << 24, 100, 5000, 20_000, 100_000, rng.randint(1, 300_000)))
    return registers, shared, per_thread, n


MANY = 1 << 24
BORDERS = ((32, 0, 0, 270_336), (40, 0, 16, 12_801), (69, 16_384, 0, 3841))
"""The device is exactly full; one element more than fills the blocks."""

pick_a_block = Exercise(
    id="lanes_at_work.pick_a_block",
    stages=(
        Stage("registers", case=lambda rng, size: (rng.randint(16, 255), 0, 0, MANY), cases=12),
        Stage(
            "shared memory",
            case=lambda rng, size: (32, rng.choice((0, 8192, 50_000)), rng.choice((16, 64)), MANY),
            cases=8,
        ),
        Stage("few elements", case=lambda rng, size: (32, 0, 0, rng.randint(1, 99_000)), cases=8),
        Stage("any kernel"),
    ),
    case=_a_kernel,
    sizes=79,
    expected=_pick,
    cases=80,
    minutes=12,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "The size is right, the limiter is not. Is the grid over before the device is full? "
            "Then it is the shape. Else which of the four limits is the smallest?",
            when=lambda e: e.value[0] == e.right[0],
        ),
        Hint(
            "There are few elements here: how many blocks are there to place at all?",
            when=lambda e: e.inputs[3] < MANY,
        ),
        Hint(
            "A larger block may need more shared memory: shared + per_thread * threads.",
            when=lambda e: e.inputs[2] > 0,
        ),
        "Try all 32 sizes, and count the warps at work on the whole device. Keep the first best.",
        "at_work = min(blocks needed, 132 * blocks that fit) * warps of a block",
    ),
    must_fail=(
        "always 256",
        "the largest block",
        "ignores shared bytes",
        "ignores the portions of registers",
        "ignores the shape",
        "the largest of equals",
        "names the last of equal limits",
        "shape where the device is full",
        "one element less",
        FIRST,
        CONSTANT,
    ),
)

EXERCISES = (adding, by_registers, block_sum, pick_a_block)
