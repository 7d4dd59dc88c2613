"""Two processes: the mean of all rows, which gradients travel together, and while backward runs."""

import math
from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._bucket_runs import (
    Sender,
    Steps,
    groups_of,
    one_rank,
    right_runs,
    sent_by_all,
)
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "3_internals/7b_two_processes"
Shapes = list[tuple[int, ...]]
Groups = list[list[int]]

# --- joined


def _some_means(rng: Rng, size: int) -> tuple[list[float], list[int]]:
    count = rng.randint(1, 2 + size // 2)
    rows = [rng.choice((1, 2, 4, 8, rng.randint(1, 99))) for _ in range(count)]
    return [rng.randint(-80, 80) / rng.choice((1, 7)) for _ in rows], rows


def _joined(means: list[float], rows: list[int]) -> float:
    return sum(mean * count for mean, count in zip(means, rows, strict=True)) / sum(rows)


joined = Exercise(
    id="two_processes.joined",
    case=_some_means,
    expected=_joined,
    rung="warm-up",
    minutes=3,
    cases=100,
    tolerance=1e-9,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("Ranks with more rows count for more: these have {input}.",
             when=lambda e: len(set(e.inputs[1])) > 1),
        "A mean times its number of rows is a sum. Add the sums.",
        "Divide by the number of all rows.",
    ),
    must_fail=("averages the means", "adds the means", "divides by the ranks",
               "knows whole means only", "knows powers of two only", FIRST),
)  # fmt: skip


# --- buckets


def _some_counts(rng: Rng, size: int) -> tuple[list[int], int]:
    counts = [rng.choice((0, 1, 2, 3, 5, 8, 12)) for _ in range(size)]
    return counts, rng.choice((1, 5, 8, 12, 20, 200))


def _groups(counts: list[int], limit: int) -> list[list[int]]:
    return groups_of(counts, limit)


buckets = Exercise(
    id="two_processes.buckets",
    case=_some_counts,
    expected=_groups,
    rung="warm-up",
    minutes=4,
    cases=120,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("The last parameter comes first.",
             when=lambda e: isinstance(e.value, list) and [*map(sorted, e.value[::-1])] == e.value),
        Hint("The parameter that reaches the limit still belongs to the bucket. So a bucket may "
             "hold more than `limit` numbers.",
             when=lambda e: isinstance(e.value, list) and len(e.value) > len(e.right)),
        Hint("A bucket with exactly `limit` numbers is full.",
             when=lambda e: isinstance(e.value, list) and len(e.value) < len(e.right)),
        "No parameters, no buckets; and no bucket is empty.",
    ),
    must_fail=("begins with the first parameter", "never goes above the limit",
               "closes a bucket only above the limit", "makes an empty bucket",
               "ignores the limit", "drops parameters without numbers", FIRST),
)  # fmt: skip


# --- bucketed_allreduce


def _training(unused: bool = True, steps: int = 2) -> Callable[[Rng, int], tuple[Any, ...]]:
    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        shapes = [_shape(rng) for _ in range(2 + size)]
        ranks = rng.choice((1, 2, 2, 3))
        limit = rng.choice((1, 4, 7, 15, 1000))
        groups = groups_of([math.prod(shape) for shape in shapes], limit)
        uses = [_uses(rng, shapes, ranks, unused) for _ in range(steps)]
        return shapes, groups, uses, sent_by_all(shapes, groups, uses)

    return case


def _shape(rng: Rng) -> tuple[int, ...]:
    return rng.choice(((), (1,), (3,), (2, 2), (2, 3), (1, 4, 1)))


def _uses(rng: Rng, shapes: Shapes, ranks: int, unused: bool) -> list[list[int]]:
    """What every rank uses, and in which order; some parameter twice."""
    found = []
    for _ in range(ranks):
        order = list(range(len(shapes)))
        if unused:
            if rng.chance(0.4):
                rng.shuffle(order)
            order = [one for one in order if rng.chance(0.75)] or [rng.randrange(len(shapes))]
            if rng.chance(0.3):
                order.append(rng.choice(order))
        found.append(order)
    return found


def _right(shapes: Shapes, groups: Groups, steps: Steps, sent: Any) -> dict[str, Any]:
    return right_runs(shapes, groups, steps, sent)


@handed_out
def run_alone(
    methods: Any, shapes: Shapes, groups: Groups, steps: Steps, sent: Any
) -> dict[str, Any]:
    """Rank -> what an answer does there, while the other ranks do what is right."""
    arrived, finish = methods
    make = type("Buckets", (Sender,), {"arrived": arrived, "finish": finish})
    return {
        f"rank {rank}": one_rank(make, shapes, groups, steps, rank, sent)
        for rank in range(len(steps[0]))
    }


def _in_words(shapes: Shapes, groups: Groups, steps: Steps, sent: Any) -> str:
    return f"shapes {shapes}, groups {groups}; parameters used, by step and rank: {steps}"


def _first_log(evidence: Any) -> tuple[list[str], list[str]]:
    """Yours and the right one, of the first step that differs."""
    for rank, right in evidence.right.items():
        for yours, theirs in zip(evidence.value[rank]["log"], right["log"], strict=True):
            if yours != theirs:
                return yours, theirs
    return [], []


def _waits_inside(evidence: Any) -> bool:
    yours, _ = _first_log(evidence)
    return any(one.endswith("arrives") for one in yours[: yours.index("backward ends")])


def _first_difference(evidence: Any) -> tuple[str, str]:
    yours, right = _first_log(evidence)
    return next(pair for pair in zip(yours, right, strict=False) if pair[0] != pair[1])


def _early(evidence: Any) -> bool:
    return "starts" in _first_difference(evidence)[0]


def _late(evidence: Any) -> bool:
    return "starts" in _first_difference(evidence)[1]


def _never_waits(evidence: Any) -> bool:
    log, _ = _first_log(evidence)
    return bool(log) and not any(one.endswith("arrives") for one in log)


def _second_step(evidence: Any) -> bool:
    """Step one is logged and right on every rank, and the cases had two."""
    ranks = [(evidence.value[rank]["log"], right["log"]) for rank, right in evidence.right.items()]
    return len(evidence.inputs[2]) > 1 and all(
        yours and yours[0] == right[0] and yours != right for yours, right in ranks
    )


def _says(text: str) -> Callable[[Any], bool]:
    return lambda evidence: text in str(evidence.value)


def picture_of_log(log: list[str]) -> Any:
    """One step of one rank: its gradients, and each bucket from its start to its arrival."""
    from labkit import show

    spans: list[dict[str, Any]] = []
    begun: dict[str, int] = {}
    for place, one in enumerate(log):
        name = one.partition(":")[0].removesuffix(" starts").removesuffix(" arrives")
        if "starts" in one:
            begun[name] = place
        elif "arrives" in one:
            spans.append({"lane": name, "name": name, "start": begun[name], "end": place + 1})
        elif one == "all arrived":  # noted once, for all buckets
            ends = [{"start": start, "end": place + 1} for start in begun.values()]
            spans += [{"lane": b, "name": b} | end for b, end in zip(begun, ends, strict=True)]
        elif one == "backward ends":
            spans.append({"lane": "trainer", "name": one, "start": place, "end": place + 1})
        else:
            spans.append({"lane": "backward", "name": one, "start": place, "end": place + 1})
    return show.timeline(sorted(spans, key=lambda span: (span["lane"] != "backward", span["lane"])))


def _picture(case: Any, got: Any, right: Any) -> Any:
    for rank, wanted in right.items():
        for yours, theirs in zip(got[rank]["log"], wanted["log"], strict=True):
            if yours != theirs:
                return picture_of_log(yours)
    return None


bucketed_allreduce = Exercise(
    id="two_processes.bucketed_allreduce",
    case=_training(),
    expected=_right,
    drive=run_alone,
    apart=True,  # backward here would forbid the notebook to start processes, next to a GPU
    stages=(
        Stage("every gradient", case=_training(unused=False, steps=1), cases=15),
        Stage("some unused", case=_training(steps=1), cases=30),
        Stage("all"),
    ),
    cases=40,
    sizes=4,
    tolerance=1e-5,
    minutes=15,
    show=_in_words,
    picture=_picture,
    hints=(
        Hint("One step is right, the second is not. What does `finish` leave behind of the first, "
             "in `ready` and in `sent`?", when=_second_step),
        Hint("A bucket waits inside backward: then nothing overlaps. Wait in finish.",
             when=_waits_inside),
        Hint("Some ranks have no gradient for a parameter of this bucket. It never gets ready: "
             "start it in finish.", when=_says("wait for ever: they make")),
        Hint("Nobody waited for the sums before they were read: call `wait()` in finish.",
             when=_never_waits),
        Hint("One call too many. Does the next step begin with no bucket sent?",
             when=_says("this one waits for ever")),
        Hint("Every rank must make the same calls in the same order: a bucket that is ready waits "
             "until all before it have started.", when=_says("the others' (")),
        Hint("A bucket started before its turn, or before all its gradients were there: calls must "
             "come in the same order on all ranks, and a new step begins with nothing ready.",
             when=_early),
        Hint("The right calls, at the wrong time. A bucket starts in the hook that completes it, "
             "and those behind it that are complete already start there too.", when=_late),
        Hint("All calls are right. Is every `p.grad` the average over all ranks?",
             when=lambda e: e.kind == "value"),
        "In `arrived`: note the parameter, then start buckets as long as the next one is complete.",
        "In `finish`: start what is left, wait, write the averages, and forget this step.",
    ),
    must_fail=(
        "reduces after backward only (no overlap in the log)", "sums instead of averages",
        "deadlocks on unused parameters", "bucket order differs by rank", "waits in the hook",
        "never waits", "starts one bucket at a time", "works for one step only",
        "leaves a gradient out that its rank did not use",
        "is right in forward order only and fails in a reversed or shuffled order",
    ),
)  # fmt: skip

EXERCISES = (joined, buckets, bucketed_allreduce)
