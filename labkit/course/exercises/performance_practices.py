"""A difference or noise: limits of a ratio, a fair bench, and the batch where speed levels off."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST
from labkit.course.exercises._noisy_machine import fair_bench

NOTEBOOK = "4_vision_low_level/12_performance_practices"

# --- limits


def _twenty(rng: Rng, size: int) -> tuple[list[float]]:
    middle = rng.choice((0.9, 1.0, 1.1))
    return ([round(middle * rng.uniform(0.8, 1.25), 3) for _ in range(20)],)


def _of_different(ratios: list[float]) -> tuple[float, ...]:
    ordered = sorted(set(ratios))
    return (ordered[5], ordered[-6]) if len(ordered) < len(ratios) else ()


limits = Exercise(
    id="performance_practices.limits",
    case=_twenty,
    expected=lambda ratios: (sorted(ratios)[5], sorted(ratios)[14]),
    rung="warm-up",
    minutes=3,
    cases=40,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Sort a copy: the list belongs to the caller.", when=lambda e: e.kind == "mutated"),
        Hint("The smaller one first.", when=lambda e: e.value[0] > e.value[1]),
        Hint("Some ratios are equal here. Each of them counts: 20 ratios, 20 places.",
             when=lambda e: _of_different(*e.inputs) == tuple(e.value)),
        Hint("The first is right. Count from the end for the second.",
             when=lambda e: e.value[0] == e.right[0]),
        Hint("The second is right. How many ratios are smaller than the sixth smallest?",
             when=lambda e: e.value[1] == e.right[1]),
        "Sort the 20 ratios. Which index has the sixth one?",
        "The sixth smallest is at index 5, the sixth largest at index -6.",
    ),
    must_fail=("one place too far", "does not sort", "sorts the caller's list",
               "the smallest and the largest", "drops equal ratios", FIRST),
)  # fmt: skip

# --- find_the_knee

Row = tuple[int, int, int]
PATIENT = 10**6
BARELY = 2
"""At this size a rate is less than one image below 95 %, and a larger batch takes less ms."""


def _barely_below(rng: Rng) -> tuple[list[Row], int]:
    best, few = 20 * rng.randint(20, 200) - 1, rng.randint(2, 9)
    rows = [(few, best * 95 // 100, 5), (2 * few, best, 18), (3 * few, best, 14)]
    return rng.sample(rows, 3), 20


def _levels_off(rng: Rng, size: int, slowest: bool = True, falls: bool = True) -> Any:
    """Rows of a table (batch, images/s, ms), and the limit; at times a rate is just 95 %."""
    if falls and size == BARELY:
        return _barely_below(rng)
    top, half = rng.randint(200, 5000), rng.choice((1, 2, 4, 8, 20))
    batches = sorted(rng.sample([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96], 3 + size))
    worn = rng.choice((1.0, 0.9, 0.7)) if falls else 1.0
    turn = rng.choice(batches)
    rows: list[Row] = []
    for batch in batches:
        rate = top * batch / (batch + half) * (worn if batch > turn else 1.0)
        if falls:
            rate *= rng.choice((1, 1, 0.85))  # sizes that fit the machine badly
        whole = int(rate) // 20 * 20 + 20
        rows.append((batch, whole, 1 + 1000 * batch // whole))
    if falls and rng.chance(0.5):
        at = rng.randrange(len(rows))  # one row has just 95 % of the best rate
        batch, _, ms = rows[at]
        best = max(rate for _, rate, _ in rows)
        rows[at] = batch, best * 95 // 100, ms
    if falls:
        rng.shuffle(rows)
    limits = [0, *(ms for _, _, ms in rows)]
    return rows, max(0, rng.choice(limits) - rng.chance(0.2)) if slowest else PATIENT


def _knee(rows: list[Row], slowest: int, percent: float = 95) -> int | None:
    fit = [row for row in rows if row[2] <= slowest]
    best = max((rate for _, rate, _ in fit), default=0)
    return min((batch for batch, rate, _ in fit if 100 * rate >= percent * best), default=None)


def _of_all_best(evidence: Any) -> bool:
    """Whether the batches that are fast enough may have been held against the best of all rows."""
    rows, slowest = evidence.inputs
    best = max((rate for _, rate, _ in rows), default=0)
    near = [batch for batch, rate, ms in rows if ms <= slowest and 100 * rate >= 95 * best]
    return bool(evidence.value == min(near, default=None))


def _of_less_than_slowest(evidence: Any) -> bool:
    rows, slowest = evidence.inputs
    said = evidence.value
    return said == _knee(rows, slowest - 1) and (said is None or said < evidence.right)


def _wants_more(inputs: Any, right: int, said: int) -> bool:
    """Whether "more than 95 %" is what tells these batches apart: no dip between, nor less ms."""
    rows, slowest = inputs
    fit = {batch: (rate, ms) for batch, rate, ms in rows if ms <= slowest}
    best = max(rate for rate, _ in fit.values())
    dips = any(right < batch < said and 100 * fit[batch][0] < 95 * best for batch in fit)
    return said == _knee(rows, slowest, 95.001) and not dips and fit[said][1] >= fit[right][1]


def _rates(case: Case, got: Any, right: Any) -> Any:
    """The table as bars, with the batch that came back and the right one."""
    from labkit import show

    rows, slowest = case.inputs
    said = {got if isinstance(got, int) else None: " (yours)", right: " (right)"}
    return show.bars(
        {
            f"batch {batch}, {ms} of {slowest} ms{said.get(batch, '')}": rate
            for batch, rate, ms in sorted(rows)
        },
        unit="images/s",
    )


find_the_knee = Exercise(
    id="performance_practices.find_the_knee",
    case=_levels_off,
    expected=lambda rows, slowest: _knee(rows, slowest),
    minutes=8,
    cases=120,
    sizes=6,
    picture=_rates,
    stages=(
        Stage("rises", case=lambda rng, size: _levels_off(rng, size, False, False)),
        Stage("slowest", case=lambda rng, size: _levels_off(rng, size, True, False)),
        Stage("falls"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("This list belongs to the caller.", when=lambda e: e.kind == "mutated"),
        Hint("No row is fast enough here: None.", when=lambda e: e.right is None),
        Hint("A batch of {got} takes longer than `slowest`.",
             when=lambda e: any(b == e.value and ms > e.inputs[1] for b, _, ms in e.inputs[0])),
        Hint("A batch of {got} is just below 95 % of the best rate: round nothing.",
             when=lambda e: any(
                 b == e.value and 0 < 95 * max(r for _, r, m in e.inputs[0] if m <= e.inputs[1])
                 - 100 * rate < 100 for b, rate, _ in e.inputs[0])),
        Hint("Which rows count? One of just `slowest` ms does. One of more does not, and not for "
             "the best rate either.",
             when=lambda e: _of_all_best(e) and _of_less_than_slowest(e)),
        Hint("A row that takes more than `slowest` ms counts for nothing, and not for the best "
             "rate either.", when=_of_all_best),
        Hint("A batch may take just `slowest` ms: it still counts.",
             when=_of_less_than_slowest),
        Hint("Just 95 % of the best rate is enough: at least, not more than.",
             when=lambda e: _wants_more(e.inputs, e.right, e.value)),
        Hint("{expected} has 95 % of the best, too, and is smaller. Between the two, rates may "
             "fall and rise again.", when=lambda e: e.value > e.right),
        Hint("A batch of {got} has less than 95 % of the best rate. Rates can fall and rise again: "
             "look at all rows.", when=lambda e: e.value < e.right),
        "First the rows that are allowed. Then their best rate. Then the batches near it.",
        "min(batch for ... if rate >= 0.95 * best), among the rows with ms <= slowest. With no "
        "such row: None.",
    ),
    must_fail=("the largest that fits", "the fastest", "stops at the first small gain",
               "ignores the limit", "the best of all rows", "the first of the list",
               "more than 95 %", "less than slowest", "halves the list, as if rates never fell",
               "a number when nothing fits", "the least ms", "95 % cut to a whole number",
               "no limit where slowest is 0", "stops at the first row below, from the largest",
               CONSTANT, FIRST),
)  # fmt: skip

EXERCISES = (limits, fair_bench, find_the_knee)
