"""Vector instructions: how wide, how many, and what they do to a sum."""

from typing import Any

import numpy as np

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "5_optimization/3c_simd"

# --- lanes_of

lanes_of = Exercise(
    id="simd.lanes_of",
    case=lambda rng, size: (128 << rng.randint(0, min(2, size)), 1 << rng.randint(0, 3)),
    expected=lambda bits, itemsize: bits // (8 * itemsize),
    rung="warm-up",
    minutes=2,
    cases=40,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The number is right, but it is a float: `//` divides to a whole number.",
             when=lambda e: e.value == e.right),
        Hint("A byte has 8 bits.", when=lambda e: e.value == 8 * e.right),
        Hint("Not every number has 4 bytes: {got} is right for those that have. Use itemsize.",
             when=lambda e: e.value == e.inputs[0] // 32),
        "How many numbers of this size lie side by side in the register?",
        "A number has 8 * itemsize bits.",
    ),
    must_fail=("bits as bytes", "always float32", "bytes of the register", FIRST),
)  # fmt: skip

# --- instructions

instructions = Exercise(
    id="simd.instructions",
    case=lambda rng, size: (rng.randint(0, 5 + 20 * size), 1 << rng.randint(0, 4)),
    expected=lambda count, lanes: count // lanes + count % lanes,
    rung="warm-up",
    minutes=3,
    cases=60,
    stages=(
        Stage("nothing left over", case=lambda rng, size: (
            8 * rng.randint(0, 3 + size), 1 << rng.randint(0, 3))),
        Stage("any count"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The number is right, but it is a float: `//` divides to a whole number.",
             when=lambda e: e.value == e.right),
        Hint("These do not fill one vector: each of them is added alone.",
             when=lambda e: e.inputs[0] < e.inputs[1]),
        Hint("What is left over does not fill a vector: each of these numbers is added alone.",
             stage="any count"),
        "An instruction takes one full vector.",
        "count // lanes vectors are full.",
    ),
    must_fail=("rounds up", "forgets the rest", "one by one", FIRST),
)  # fmt: skip

# --- lane_sum


def lane_sum_right(numbers: list[float], lanes: int) -> np.float32:
    """The sum in so many lanes, each addition rounded to float32."""
    values = np.array(numbers, np.float32)
    whole = len(values) - len(values) % lanes
    total = np.float32(0)
    for value in [*_lanes_of(values[:whole], lanes), *values[whole:]]:
        total = np.float32(total + value)
    return total


def _numbers(rng: Rng, size: int, lanes: int = 0, rest: bool = True) -> tuple[list[float], int]:
    lanes = lanes or rng.choice((1, 2, 3, 4, 8, 16))
    vectors = rng.randint(0, 2 + 3 * size * max(1, 8 // lanes))  # as many numbers in few lanes
    count = lanes * vectors + (rng.randrange(lanes) if rest else 0)
    return [float(np.float32(rng.uniform(-1, 9) * 10 ** rng.randint(0, 3)))
            for _ in range(count)], lanes  # fmt: skip


def _judge_sum(case: Case, got: Any) -> Any:
    right = lane_sum_right(*case.inputs)
    if isinstance(got, Raised) or not isinstance(got, float | int | np.floating):
        return Wrong("one number", float(right))
    if float(got) != float(right):
        near = abs(float(got) - float(right)) <= 1e-3 * sum(map(abs, case.inputs[0]))
        said = "every bit of the sum" if near else "the sum"
        return Wrong(said, float(right))
    return None


def _in_other_lanes(numbers: list[float], lanes: int) -> list[float]:
    """Nothing for few numbers, where orders may give the same sum by chance."""
    if len(numbers) < 20:
        return []
    return [float(lane_sum_right(numbers, n)) for n in (1, 2, 3, 4, 8, 16) if n != lanes]


def _one_register_less(numbers: list[float], lanes: int) -> float | None:
    """The last full register goes to the rest, if nothing else does."""
    if len(numbers) % lanes or not numbers:
        return None
    partial = _lanes_of(np.array(numbers[:-lanes], np.float32), lanes)
    return float(lane_sum_right([*partial, *numbers[-lanes:]], 1))


def _rounded_late(numbers: list[float], lanes: int) -> list[float]:
    """The sums of right lanes, and the rest, in double precision."""
    values = np.array(numbers, np.float32)
    whole = len(values) - len(values) % lanes
    parts = [*map(float, _lanes_of(values[:whole], lanes))]
    rest = [*map(float, values[whole:])]
    total = sum(parts, 0.0)
    return [float(sum(rest, total)), float(np.float32(sum(rest, total))),
            float(lane_sum_right([float(np.float32(total)), *rest], 1))]  # fmt: skip


def _lanes_of(values: Any, lanes: int) -> Any:
    """What is left in each lane; `values` fill whole registers."""
    partial = np.zeros(lanes, np.float32)
    for at in range(0, len(values), lanes):
        partial += values[at : at + lanes]
    return partial


def _other_orders(numbers: list[float], lanes: int) -> list[float]:
    """The sum with right lanes, which are added backwards, and in pairs."""
    values = np.array(numbers, np.float32)
    whole = len(values) - len(values) % lanes
    partial = _lanes_of(values[:whole], lanes)
    pairs = partial
    while len(pairs) > 1:
        even = len(pairs) // 2 * 2
        pairs = np.concatenate([pairs[0:even:2] + pairs[1:even:2], pairs[even:]])
    return [
        float(lane_sum_right([*lanes_in_order, *values[whole:]], 1))
        for lanes_in_order in (partial[::-1], pairs)
    ]


def _as_registers(case: Case, got: Any, _right: Any) -> Any:
    """Which number is in which lane: a row is a register; nothing where no register is full."""
    from labkit import show

    numbers, lanes = case.inputs
    whole = len(numbers) - len(numbers) % lanes
    if not whole:
        return None
    return show.strides(
        np.array(numbers[:whole], np.float32).reshape(-1, lanes),
        names=["a row is a register, a column is a lane"],
        simple=True,
    )


lane_sum = Exercise(
    id="simd.lane_sum",
    case=_numbers,
    judge=_judge_sum,
    picture=_as_registers,
    returns=(np.floating,),
    minutes=12,
    cases=60,
    stages=(
        Stage("one lane", case=lambda rng, size: _numbers(rng, size, 1)),
        Stage("full vectors", case=lambda rng, size: _numbers(rng, size, 0, False)),
        Stage("a rest"),
    ),
    rules=("NumPy may be used, torch and labkit not",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The last full register is a vector, too: `at + lanes <= len(numbers)`.",
             when=lambda e: e.value == _one_register_less(*e.inputs)),
        Hint("Your lanes are right. Round the total to np.float32 after each of them.",
             when=lambda e: e.value in _rounded_late(*e.inputs)),
        Hint("{got} is the sum in another number of lanes: take the second argument.",
             when=lambda e: e.value in _in_other_lanes(*e.inputs)),
        Hint("Your lanes are right. Add them in their order: lane 0 first, then lane 1 and so on.",
             when=lambda e: e.value in _other_orders(*e.inputs)),
        Hint("One number after the other, each sum an np.float32: np.sum adds in another order, "
             "and Python's own floats have 64 bits. With one lane, NumPy adds a column in pairs.",
             stage="one lane"),
        Hint("Lane 0 adds the numbers 0, lanes, 2 * lanes and so on. `values[at : at + lanes]` is "
             "what all lanes add in one instruction.", stage="full vectors"),
        Hint("What does not fill a vector goes to the end: it is added to the total, one by one.",
             stage="a rest"),
        "partial = np.zeros(lanes, np.float32), and partial += values[at : at + lanes].",
        "In the end: total = np.float32(0), and one addition for each lane, lane 0 first.",
    ),
    must_fail=("float64", "one lane", "a block for each lane", "forgets the rest",
               "the rest goes into the lanes", "np.sum", "the lanes backwards",
               "the lanes in pairs", "the rest first", "rounds at the end",
               "adds a column by np.add.reduce", "the last full register goes to the rest",
               "adds the lanes in double precision"),
)  # fmt: skip

EXERCISES = (lanes_of, instructions, lane_sum)
