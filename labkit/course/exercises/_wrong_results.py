"""The warm-ups on wrong kernels: whether results agree, and how many blocks are enough."""

import math

from labkit.course.exercise import Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

# --- agree


def _some_results(rng: Rng, size: int) -> tuple[list[list[float]]]:
    """What one kernel gave in several orders: the same, or not quite."""
    if size == 3:  # sums in another order differ by no more
        return ([[1.0, 0.1 + 0.2], [1.0, 0.3]],)
    if size == 5:
        return ([[1.0] * 40, [1.0] * 39 + [2.0]],)
    if size == 7:
        return ([[math.inf, 2.0]] * 3,)
    first = [float(rng.randint(-9, 9)) for _ in range(rng.randint(0, size))]
    results = [list(first) for _ in range(rng.randint(1, 4))]
    if first and rng.chance(0.6):
        which, at = rng.choice(results), rng.randrange(len(first))
        which[at] = rng.choice((first[at] + 1, -first[at] or 1.0, math.nan))
        if rng.chance(0.3):  # the same sum, at other places
            which[:] = [first[at - 1] for at in range(len(first))]
    elif first and rng.chance(0.3):
        at = rng.randrange(len(first))
        for one in results:
            one[at] = math.nan
    return (results,)


def _agree(results: list[list[float]]) -> bool:
    return all(
        one == results[0] and not any(math.isnan(number) for number in one) for one in results
    )


agree = Exercise(
    id="wrong_kernels.agree",
    rung="warm-up",
    case=_some_results,
    expected=_agree,
    cases=80,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A NaN was read before it was written. In all orders, it is still no agreement.",
            when=lambda e: e.value is True,
        ),
        Hint("Compare each of them with the first, not only the last two.",
             when=lambda e: e.value is True and len(e.inputs[0]) > 2),
        "A NaN is not equal to itself: number != number.",
        "all(one == results[0] for one in results), and no number that is not itself.",
    ),
    must_fail=(
        "compares the first two",
        "takes NaN in all orders for agreement",
        "compares sums",
        "looks at the first number",
        "compares closely",
        "looks at the first numbers",
        "refuses infinity",
        "compares without signs",
        FIRST,
    ),
)  # fmt: skip

# --- blocks


def _some_launch(rng: Rng, size: int) -> tuple[int, int]:
    block = rng.choice((1, 32, 64, 96, 256))
    return rng.choice((0, 1, block - 1, block, block + 1, rng.randint(0, 9**size))), block


blocks = Exercise(
    id="wrong_kernels.blocks",
    rung="warm-up",
    case=_some_launch,
    expected=lambda count, block: max(1, -(-count // block)),
    cases=60,
    minutes=2,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A launch without a block is refused by CUDA.", when=lambda e: e.inputs[0] == 0),
        Hint(
            "{got} blocks of {input}: does the last element have a thread?",
            when=lambda e: e.value < e.right,
        ),
        Hint("{got} is one too many: when the blocks come out even, none is left over.",
             when=lambda e: e.value > e.right),
        "Round up: (count + block - 1) // block.",
    ),
    must_fail=(
        "rounds down",
        "always adds one",
        "launches nothing for nothing",
        "goes through float",
        FIRST,
    ),
)  # fmt: skip
