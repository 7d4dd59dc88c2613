"""What a recorded run waited for: causes, the critical path, and the verdict."""

import itertools
from collections.abc import Iterable
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.simulated_run import SimulatedRun, Span
from labkit.pipeline.profiling.film_job import film_job

NOTEBOOK = "5_optimization/7b_bottleneck"
KINDS = ("input", "host", "copy", "kernel")

# --- cause


def _some_run(rng: Rng, size: int, waits: bool = True) -> list[Span]:
    """Work in lanes that waits for earlier work here and there."""
    run = SimulatedRun()
    for number in range(3 + 3 * size):
        lane = rng.randrange(4)
        after = rng.sample(range(number), min(number, rng.randint(0, 2)))
        run.do(f"lane {lane}", f"{number}", rng.randint(1, 90), KINDS[lane], after)
    if waits:
        run.wait("lane 1", [rng.randrange(len(run.spans))])
    return run.spans


def _span(kind: str, start: int, end: int, after: list[int]) -> Span:
    return {"lane": kind, "name": kind, "kind": kind, "start": start, "end": end, "after": after}


def _together() -> list[Span]:
    """The last of five waited for four, of which three end together, the first as number 2."""
    first = [_span("input", 0, 40, []), _span("copy", 10, 90, []), _span("kernel", 20, 90, []),
             _span("host", 0, 90, [])]  # fmt: skip
    return [*first, _span("host", 90, 120, [0, 2, 1, 3])]


def _asked(rng: Rng, size: int) -> tuple[list[Span], int]:
    """Work of which some begins later than it could, and the number of one piece."""
    if size == 8:
        return _together(), 4
    spans: list[Span] = []
    for number in range(3 + 3 * size):
        after = sorted(rng.sample(range(number), min(number, rng.randint(0, 3))))
        start = max((spans[each]["end"] for each in after), default=0) + rng.choice((0, 0, 15))
        lane = rng.randrange(4)
        end = start + rng.randint(1, 90)
        spans.append({"lane": f"lane {lane}", "name": f"{number}", "kind": KINDS[lane],
                      "start": start, "end": end, "after": after})  # fmt: skip
    waiting = [at for at, span in enumerate(spans) if len(span["after"]) > 1]
    return spans, rng.choice(waiting if waiting and rng.chance(0.8) else range(len(spans)))


def _cause(spans: list[Span], at: int) -> int | None:
    """Of those that end together, the first."""
    return max(spans[at]["after"], key=lambda each: spans[each]["end"], default=None)


def _told(spans: list[Span], *at: int) -> str:
    rows = [f"{n}: {s['kind']} {s['start']}-{s['end']}, after {s['after']}"
            for n, s in enumerate(spans[:14])]  # fmt: skip
    more = " ..." if len(spans) > 14 else ""
    return "; ".join(rows) + more + (f"; at = {at[0]}" if at else "")


cause = Exercise(
    id="bottleneck.cause",
    case=_asked,
    expected=_cause,
    show=_told,
    rung="warm-up",
    minutes=4,
    cases=80,
    stages=(Stage("waited", only=lambda spans, at: bool(spans[at]["after"])), Stage("any")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("It waited for nothing: the answer is None.",
             when=lambda e: not e.inputs[0][e.inputs[1]]["after"]),
        Hint("Keep `spans` and each `after` as they are.", when=lambda e: e.kind == "mutated"),
        Hint("The answer is one of the numbers in `after`: no time, no span, and not None.",
             when=lambda e: e.value not in e.inputs[0][e.inputs[1]]["after"]),
        Hint("{got} had ended earlier. The span had to wait for {expected} as well.",
             when=lambda e: e.value in e.inputs[0][e.inputs[1]]["after"]),
        "spans[at]['after'] holds the numbers of what it waited for.",
        "max(numbers, key=lambda n: spans[n]['end'], default=None)",
    ),
    must_fail=("the first of them", "the last number", "the longest of them",
               "the last to begin", "whatever ended last before it", "of equals, the last",
               "of equals, the lowest number", "of equals, the highest number",
               "sorts what it was given", FIRST),
)  # fmt: skip

# --- at_most


def _a_gain(rng: Rng, size: int) -> tuple[float, float]:
    if size == 8:
        return 0.5, 1.5
    return rng.choice((0.0, 0.1, 0.25, 0.4, 0.5, 0.8, 1.0)), rng.choice((1, 1.5, 2, 3, 10, 1000))


at_most = Exercise(
    id="bottleneck.at_most",
    case=_a_gain,
    expected=lambda share, times: 1 / (1 - share + share / times),
    rung="warm-up",
    minutes=3,
    cases=60,
    tolerance=1e-9,
    show=lambda share, times: f"share = {share}, times = {times}",
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("What is not made faster takes as long as before: 1 - share of the run.",
             when=lambda e: e.value > e.right),
        Hint("This is how long the run is now. How many times faster is it?",
             when=lambda e: abs(e.value * e.right - 1) < 1e-9),
        "Say the run took 1. How long is it now?",
        "1 - share + share / times.",
    ),
    must_fail=("the share alone", "the new length", "times share", "as if it vanished",
               "whole times", FIRST),
)  # fmt: skip

# --- detect_bottleneck


def _a_job(rng: Rng, size: int, turns: bool = True) -> list[Span]:
    """A film job with one or two stages that are long."""
    times = {name: rng.randint(20, 200) for name in ("read", "prepare", "upload", "kernel")}
    for name in rng.sample(list(times), rng.choice((1, 2))):
        times[name] = rng.randint(600, 3000)
    ahead = rng.choice((0, 1, 2)) if turns else 2
    return film_job(2 + size, **times, kernels=rng.choice((1, 1, 3)), ahead=ahead).spans


def _with_side_work(rng: Rng, size: int) -> tuple[list[Span]]:
    """A job, and a lane that is busy with what nobody waits for."""
    spans = [dict(span) for span in _a_job(rng, size)]
    end = max(span["end"] for span in spans)
    lane = rng.choice(("bus 2", "stream 2"))
    kind = "copy" if lane == "bus 2" else "kernel"
    first = len(spans)
    for number in range(3):
        start = number * (end // 3)
        after = [first + number - 1] if number else []
        spans.append({"lane": lane, "name": f"side {number}", "kind": kind, "start": start,
                      "end": start + end // 3 - 1, "after": after})  # fmt: skip
    return (spans,)


def _one_lane(rng: Rng, size: int) -> tuple[list[Span]]:
    run = SimulatedRun()
    if rng.chance(0.3):  # three kinds with a good part each
        for kind in rng.sample(KINDS, 3):
            run.do("host", kind, rng.randint(310, 340), kind)
    for number in range(1 + 2 * size if not run.spans else 0):
        run.do("host", f"{number}", rng.randint(1, 900), rng.choice(KINDS))
    return (run.spans,)


def _at_a_limit(size: int) -> list[Span]:
    """A part of exactly 30 %, or a little less; or two lanes that end together."""
    if size == 8:
        return [_span("input", 0, 60, []), _span("kernel", 0, 60, [])]
    host = 301 - size % 2
    return [_span("decode", 0, 400, []), _span("copy", 400, 700, [0]),
            _span("host", 700, 700 + host, [1])]  # fmt: skip


def _job(rng: Rng, size: int) -> tuple[list[Span]]:
    if size > 5:
        return (_at_a_limit(size),)
    choice = rng.random()
    if choice < 0.4:
        return _with_side_work(rng, size)
    if choice < 0.5:
        return _one_lane(rng, size)
    return (_some_run(rng, size),) if choice < 0.65 else (_a_job(rng, size),)


def _walk(spans: list[Span]) -> list[tuple[int, float]]:
    """(index, time on the critical path), from the end."""
    at: int | None = max(range(len(spans)), key=lambda each: spans[each]["end"])
    path = []
    while at is not None:
        span = spans[at]
        path.append((at, 0 if span["kind"] == "wait" else span["end"] - span["start"]))
        at = _cause(spans, at)
    return path


def _detect(spans: list[Span]) -> list[str]:
    return _named((spans[at]["kind"], time) for at, time in _walk(spans))


def _of_all_work(spans: list[Span]) -> list[str]:
    return _named((s["kind"], s["end"] - s["start"]) for s in spans if s["kind"] != "wait")


def _named(times: Iterable[tuple[str, float]]) -> list[str]:
    shares: dict[str, float] = {}
    for kind, time in times:
        shares[kind] = shares.get(kind, 0) + time
    total = sum(shares.values())
    rows = sorted(shares.items(), key=lambda row: (-row[1], row[0]))
    return [kind for kind, time in rows if 10 * time >= 3 * total]


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The run, with arrows along the critical path."""
    from labkit import show

    (spans,) = case.inputs
    if len(spans) > 60:
        return None
    rows = [{**span, "name": f"{at} {span['name']}"} for at, span in enumerate(spans)]
    path = [rows[at]["name"] for at, _ in reversed(_walk(spans))]
    return show.timeline(
        rows, edges=list(itertools.pairwise(path)), unit="us",
        title="the critical path goes along the arrows",
    )  # fmt: skip


detect_bottleneck = Exercise(
    id="bottleneck.detect_bottleneck",
    case=_job,
    expected=lambda spans: _detect(spans),
    picture=_drawn,
    show=_told,
    minutes=15,
    cases=200,
    stages=(
        Stage("one lane", case=_one_lane),
        Stage("several lanes", case=lambda rng, size: (_some_run(rng, size, False),)),
        Stage("film jobs", case=lambda rng, size: (_a_job(rng, size),), cases=40),
        Stage("work on the side", case=_with_side_work, cases=40),
        Stage("together"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Keep `spans` as they are: the list and its spans belong to the caller.",
             when=lambda e: e.kind == "mutated"),
        Hint("A wait is no work. It has a place on the path and no time, and its kind is not "
             "named.", when=lambda e: "wait" in e.value),
        Hint("This is what most of all work is. But nobody may have waited for it: begin at the "
             "span that ends last, and go from cause to cause.",
             when=lambda e: e.value == _of_all_work(e.inputs[0])),
        Hint("The kinds are right, and their order is not: the one with the most time first.",
             when=lambda e: sorted(e.value) == sorted(e.right)),
        Hint("Too many kinds: at least 30 % of the path's time.",
             when=lambda e: set(e.value) > set(e.right)),
        Hint("{expected} have 30 % of the path or more, each. Two kinds may take turns.",
             when=lambda e: set(e.value) < set(e.right)),
        "path: at = the number of the span that ends last; then at = cause(spans, at), until it is "
        "None.",
        "Add up end - start by kind along the path. A wait adds nothing.",
    ),
    must_fail=(
        "the kind with the most work",
        "counts waits as work",
        "the kind of the longest span",
        "share of the device alone",
        "always kernel",
        "one kind only",
        "two kinds at most",
        "begins at the last number",
        "follows the first of what it waited for",
        "by name, not by time",
        "half of the path",
        "of all work, not of the path",
        "more than 30 %",
        "the last of several that end last",
        "four kinds only",
        "empties the list",
        FIRST,
    ),
)  # fmt: skip

EXERCISES = (cause, at_most, detect_bottleneck)
