"""The first lines of a kernel: which element is mine, and which threads stand still."""

import math
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out

FINE = {"findings": [], "outside": "untouched", "lanes": kernel_bench.ALL_LANES}
"""What is said of a kernel that touches its own arrays only, with whole warps."""


@handed_out
def _launched(code: str, name: str, grid: int, block: int, order: Any, *args: Any) -> Found:
    """What the kernel left in its last array, and what its trace has to say."""
    done = kernel_bench.launch(code, name, grid, block, args, order=order, trace=True)
    if done.report is None:
        return Found({"the launch": done.failure})
    enough = kernel_bench.warps(done.report.grid, done.report.block)
    said = {
        "out": done.arrays[-1].tolist(),
        "findings": done.findings[:1],
        "outside": done.outside,
        "lanes": kernel_bench.few_lanes(done.report, {("write", done.names[-1]): enough}),
    }
    return Found(said).seen_in(done.report)


def _a_grid(rng: Rng, size: int) -> tuple[int, int, int, Any]:
    """(elements, blocks, threads in a block, order): as few whole blocks as hold the elements."""
    count = 2 + rng.randint(0, 30 * size) if size else 5  # one element has no order
    block = rng.choice((3, 7, 32, 33, 64)) if size else 3
    return count, math.ceil(count / block), block, rng.choice(("forward", "reverse"))


def _show_grid(count: int, grid: int, block: int, order: Any) -> str:
    return f"n = {count}, {grid} blocks of {block} threads, order {order}"


def _fewer(count: int, grid: int, block: int, order: Any) -> Any:
    for less in sorted({count // 2, count - 1} - {0, 1, count}):
        yield less, math.ceil(less / block), block, order


# --- index


def _expected_index(count: int, grid: int, block: int, order: Any) -> dict[str, Any]:
    takers = [1000 * (i // block) + i % block for i in range(count)]
    return {"out": takers[::-1], **FINE}


def _drive_index(answer: Any, count: int, grid: int, block: int, order: Any) -> Found:
    out = np.full(count, -1, np.int32)
    return _launched(answer(), "who", grid, block, order, out, count)


def _from_the_front(evidence: Any) -> bool:
    return bool(evidence.value["out"] == evidence.right["out"][::-1] != evidence.right["out"])


def _the_wrong_way(evidence: Any) -> bool:
    got, right = evidence.value, evidence.right["out"]
    return bool(got["findings"] and got["out"][-1] == right[-1] and got["out"] != right)


index = Exercise(
    id="first_kernel.index",
    rung="warm-up",
    stages=(
        Stage("one block", only=lambda count, grid, *_: grid == 1, cases=8),
        Stage("many blocks"),
    ),
    case=_a_grid,
    expected=_expected_index,
    drive=_drive_index,
    returns=(Found,),
    picture=kernel_bench.drawn,
    smaller=_fewer,
    show=_show_grid,
    cases=20,
    seconds=60.0,
    processes=True,
    minutes=4,
    hints=(
        Hint(
            "This is rule 1: thread 0 takes element 0. Here thread 0 takes element n - 1.",
            when=_from_the_front,
        ),
        Hint(
            "Thread 0 takes the right element, and its neighbours leave at the end. The minus "
            "belongs to the whole of rule 1: put that in brackets.",
            when=_the_wrong_way,
        ),
        Hint(
            "The blocks take the same elements as each other: what tells a thread its block?",
            when=lambda e: e.inputs[1] > 1 and -1 in e.value["out"],
        ),
        "Rule 1 counts the threads of the whole grid from 0. Which element is left for number 0?",
        "const int i = n - 1 - (blockIdx.x * blockDim.x + threadIdx.x);",
    ),
    must_fail=(
        "takes the elements from the front",
        "leaves its block out",
        "turns each block round by itself",
        "begins at n",
        "forgets the brackets",
        "lets one thread do all the work",
    ),
)


# --- guard


@handed_out
def _numbers(count: int) -> Any:
    return np.array([(7 * i * i + 3) % 101 for i in range(count)], np.float32)


def _expected_guard(count: int, grid: int, block: int, order: Any) -> dict[str, Any]:
    return {"out": np.diff(_numbers(count)).tolist(), **FINE}


def _drive_guard(answer: Any, count: int, grid: int, block: int, order: Any) -> Found:
    out = np.full(count - 1, -1, np.float32)
    return _launched(answer(), "steps", grid, block, order, _numbers(count), out, count)


guard = Exercise(
    id="first_kernel.guard",
    rung="warm-up",
    case=_a_grid,
    expected=_expected_guard,
    drive=_drive_guard,
    returns=(Found,),
    picture=kernel_bench.drawn,
    smaller=_fewer,
    show=_show_grid,
    cases=20,
    seconds=60.0,
    processes=True,
    minutes=3,
    hints=(
        Hint(
            "x has n elements, out has one less. What is the largest i whose x[i + 1] exists?",
            when=lambda e: bool(e.value["findings"]),
        ),
        Hint(
            "The last element of out is missing: too many threads stand still.",
            when=lambda e: not e.value["findings"] and e.value["out"][:-1] == e.right["out"][:-1],
        ),
        "n numbers have n - 1 steps between them.",
        "if (i + 1 < n)",
    ),
    must_fail=(
        "leaves the guard out",
        "guards with i < n",
        "stops one step early",
        "lets one thread do all the work",
    ),
)
