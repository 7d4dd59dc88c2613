"""Timers that tell the truth, and the row that belongs at the top of the table."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._timed_blocks import timer_stats

NOTEBOOK = "5_optimization/7_profiling"

# --- read_back_row


def _a_queue(rng: Rng, size: int, most: int | None = None) -> tuple[list[int], int, int]:
    count = rng.randint(0, 2 + size) if most is None else most
    queueing = rng.randint(5, 30)
    return [rng.randint(100, 9000) for _ in range(count)], rng.randint(100, 4000), queueing


def _read_back_row(queued: list[int], copy: int, queueing: int) -> int:
    return queueing + sum(queued) + copy - len(queued) * queueing


read_back_row = Exercise(
    id="profiling.read_back_row",
    case=_a_queue,
    expected=_read_back_row,
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(Stage("empty queue", case=lambda rng, size: _a_queue(rng, size, 0), cases=10),
            Stage("one kernel", case=lambda rng, size: _a_queue(rng, size, 1), cases=20),
            Stage("any")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda queued, copy, queueing: (
        f"queued = {queued}, copy = {copy}, queueing = {queueing}"),
    hints=(
        Hint("The queue is empty, and the row is the call and the copy: queueing + copy.",
             when=lambda e: not e.inputs[0]),
        Hint("This is the copy alone. The host stands there until all work before it is done, too.",
             when=lambda e: e.value == e.inputs[1]),
        Hint("Nearly: while the host queued the later calls, the device had begun already.",
             when=lambda e: abs(e.value - e.right) <= 31 * (1 + len(e.inputs[0]))),
        "When does the device begin, and when does it end? When does the row begin?",
        "The device begins when the first call is queued, at `queueing`, and has no pause. The row "
        "begins when all calls before it are queued, at len(queued) * queueing.",
    ),
    must_fail=("the copy alone", "forgets that the device had begun", "the work before it alone",
               "counts a call too many", "nothing was queued, no time passes", FIRST),
)  # fmt: skip

# --- p95


def _times(rng: Rng, size: int) -> tuple[list[int]]:
    count = rng.choice((1, 2, 19, 20, 21, 40, 100, rng.randint(1, 20 + 20 * size)))
    reach = rng.choice((12, 9000))
    return ([rng.randint(1, reach) for _ in range(count)],)


def _p95(times: list[int]) -> int:
    return sorted(times)[(95 * len(times) + 99) // 100 - 1]


p95 = Exercise(
    id="profiling.p95",
    case=_times,
    expected=lambda times: _p95(times),
    rung="warm-up",
    minutes=4,
    cases=80,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda times: f"{len(times)} times: {times[:24]}{' ...' if len(times) > 24 else ''}",
    hints=(
        Hint("Sort a copy: the list belongs to the caller.", when=lambda e: e.kind == "mutated"),
        Hint("{got} was not measured: it lies between two of the times.",
             when=lambda e: e.value not in e.inputs[0]),
        Hint("With {got}, more than 5 % of the times are longer.",
             when=lambda e: 100 * sum(t > e.value for t in e.inputs[0]) > 5 * len(e.inputs[0])),
        Hint("{expected} does it as well, and is smaller.", when=lambda e: e.value > e.right),
        "Sort the times. How many of them must be at most p95, when there are n?",
        "95 % of n, rounded up: -(-95 * n // 100). The first one is at index 0.",
    ),
    must_fail=("one place too far", "rounds down", "does not sort", "the longest",
               "between two times", FIRST),
)  # fmt: skip

# --- top_of_the_table

Call = tuple[str, str, int, int]
NAMES = ("aten::conv2d", "aten::relu", "aten::copy_", "aten::sort", "aten::add", "frame", "read")


def _calls(rng: Rng, size: int, threads: int = 2, depth: int = 3, again: bool = True) -> Any:
    """Calls that lie side by side or inside of each other, in no order."""
    made: list[Call] = []

    def inside(thread: str, start: int, end: int, names: tuple[str, ...], level: int) -> None:
        for _ in range(rng.randint(1, 2 + size // 3)):
            if end - start < 4:
                return
            begin = rng.randint(start, start + (end - start) // 3)
            stop = rng.randint(begin + 2, end)
            name = rng.choice(names)
            made.append((thread, name, begin, stop))
            rest = names if again else tuple(each for each in names if each != name)
            if level < depth and stop - begin > 6 and rng.chance(0.1):  # it has no time of its own
                middle, others = rng.randint(begin + 1, stop - 1), rest or names
                made.append((thread, rng.choice(others), begin, middle))
                made.append((thread, rng.choice(others), middle, stop))
            elif level < depth and stop - begin > 6 and rng.chance(0.8):
                inside(thread, begin + rng.randint(0, 1), stop - 1, rest, level + 1)
            start = stop if rng.chance(0.5) else min(end, stop + rng.randint(1, 40))

    for number in range(rng.randint(1, threads)):
        first = rng.randint(0, 30)
        inside(f"thread {number}", first, first + 60 + 300 * size, NAMES, 1)
    rng.shuffle(made)
    return (made,)


def _top(calls: list[Call]) -> list[tuple[str, int]]:
    own: dict[str, int] = {}
    around: list[Call] = []
    for call in sorted(calls, key=lambda call: (call[0], call[2], -call[3])):
        thread, name, start, end = call
        while around and (around[-1][0] != thread or around[-1][3] <= start):
            around.pop()
        own[name] = own.get(name, 0) + end - start
        if around:
            own[around[-1][1]] -= end - start
        around.append(call)
    return sorted(own.items(), key=lambda row: (-row[1], row[0]))


def _flame(case: Any, got: Any, right: Any) -> Any:
    """The calls by thread and depth: what lies inside of what."""
    from labkit import show
    from labkit.pipeline.profiling.trace import by_depth

    (calls,) = case.inputs
    if len(calls) > 60:
        return None
    spans = [{"lane": thread, "name": name, "start": start, "end": end}
             for thread, name, start, end in calls]  # fmt: skip
    return show.timeline(by_depth(spans), unit="us", title="each call below the one it lies in")


def _names(rows: Any) -> list[str]:
    return [name for name, _ in rows]


top_of_the_table = Exercise(
    id="profiling.top_of_the_table",
    case=_calls,
    expected=lambda calls: _top(calls),
    picture=_flame,
    minutes=15,
    cases=80,
    stages=(
        Stage("side by side", case=lambda rng, size: _calls(rng, size, 1, 1), cases=10),
        Stage("inside", case=lambda rng, size: _calls(rng, size, 1, 3, False)),
        Stage("inside itself", case=lambda rng, size: _calls(rng, size, 1, 4), cases=20),
        Stage("threads"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda calls: f"{len(calls)} calls: {calls[:8]}{' ...' if len(calls) > 8 else ''}",
    hints=(
        Hint("A call of one thread lies inside a call of the same thread only.", stage="threads"),
        Hint("Something was taken away twice. Take a call's time away from the call directly "
             "around it, and from no other.",
             when=lambda e: sum(own for _, own in e.value) < sum(own for _, own in e.right)),
        Hint("All own times are right, and their order is not: the largest number first, and equal "
             "ones by name.", when=lambda e: sorted(e.value) == sorted(e.right)),
        Hint("A name is missing: a row whose own time is 0 stands in the table, too.",
             when=lambda e: {name for name, _ in e.value} < {name for name, _ in e.right}),
        Hint("Own time is a call's time without the calls directly inside of it.",
             when=lambda e: sum(own for _, own in e.value) > sum(own for _, own in e.right)),
        "Sort one thread's calls by start; of two that begin together, the longer one is around "
        "the other. Keep a list of the calls that have not ended yet.",
        "The last of this list is the call directly around the new one. First take from the list "
        "what has ended: its end <= the new start.",
    ),
    must_fail=(
        "total instead of own",
        "takes a call away from all around it",
        "mixes threads",
        "sorts text",
        "rounds to milliseconds before ranking",
        "ends are still around",
        "the order of the list is the order of time",
        "of two that begin together, the shorter is around the longer",
        "drops what has no time of its own",
        FIRST,
    ),
)  # fmt: skip

EXERCISES = (read_back_row, p95, top_of_the_table, timer_stats)
