"""The small steps of the set-up chapter, and its two pictures."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES

RUNGS = ("build", "variable", "driver", "cards")
"""What a GPU build needs, in the order in which to ask."""


def near(one: float, other: float) -> bool:
    """Whether two times are the same within 5 %."""
    return abs(one - other) <= 0.05 * abs(other)


def _three_readings(rng: Rng, size: int) -> tuple[float, float, float, int]:
    begin = float(rng.choice((0, 0, rng.randint(1, 10**6))))
    calls = rng.choice((1, 10, 100, 500))
    launched = begin + 5.0 * calls
    return begin, launched, launched + float(rng.randint(1, 500) * calls), calls


per_call = Exercise(
    id="setup.per_call",
    rung="warm-up",
    case=_three_readings,
    expected=lambda begin, launched, empty, calls: (empty - begin) / calls,
    tolerance=1e-9,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=50,
    minutes=2,
    hints=(
        Hint(
            "{got} is the launches alone. Which reading says that the work is done?",
            when=lambda e: e.value == (e.inputs[1] - e.inputs[0]) / e.inputs[3],
        ),
        Hint(
            "The clock did not begin at 0 in this case: {input}.",
            when=lambda e: e.value == e.inputs[2] / e.inputs[3] and e.inputs[0] != 0,
        ),
        "The interval from the first launch to the empty queue, shared by all calls.",
    ),
    must_fail=("times the launches", "leaves the launches out", "begins at zero"),
)


def _a_build(rng: Rng, size: int) -> tuple[str]:
    release = "2." + rng.choice(("4.1", "7.1", "9.0", "11.0", "13.0"))
    tags = ("+cpu", "+cu118", "+cu121", "+cu126", "+cu130", "+rocm7.0", "+xpu")
    return (release + rng.choice(tags),)


def _cuda_of(build: str) -> str | None:
    tag = build.partition("+cu")[2]
    return f"{tag[:-1]}.{tag[-1]}" if tag else None


read_build = Exercise(
    id="setup.read_build",
    rung="warm-up",
    case=_a_build,
    expected=_cuda_of,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=60,
    minutes=3,
    hints=(
        Hint("{input} holds no CUDA code: the answer is None.", when=lambda e: e.right is None),
        Hint("The last digit stands behind the dot: cu{expected} without the dot.", when=bool),
        '`build.partition("+cu")[2]` is what stands behind, "" where there is none.',
    ),
    must_fail=("takes cpu for CUDA", "splits after the first digit", "knows CUDA 12 alone"),
)


def ladder(seen: dict[str, Any], cause: str = "", said: str = "") -> Any:
    """What a GPU build needs, one rung after the other: green what is fine, and the cause."""
    from labkit.widgets.graph.graph_view import GraphView  # drawing is for whoever looks

    nodes = [
        {
            "label": rung,
            "kind": "asked" if rung in seen else "not asked",
            "badges": [_badge(seen, rung)],
        }
        for rung in RUNGS
    ]
    edges = [{"source": at, "target": at + 1} for at in range(len(RUNGS) - 1)]
    marks = {}
    if cause in RUNGS:
        marks = {at: "done" for at in range(RUNGS.index(cause))} | {RUNGS.index(cause): "error"}
    elif cause == "none":
        marks = dict.fromkeys(range(len(RUNGS)), "done")
    frame = {"text": said or f"cause: {cause}", "marks": marks}
    return GraphView(nodes, edges, frames=[frame], simple=True)


def _badge(seen: dict[str, Any], rung: str) -> str:
    return repr(seen[rung]) if rung in seen else "not asked"


def why_picture(case: Case, got: Any, right: tuple[str, str]) -> Any:
    """The ladder of a failing case: where it ends, and where the answer ended."""
    return ladder(case.inputs[0], right[0], f"yours {got!r}, right {right!r}")


def one_call_picture(case: Case, got: Any, right: Any) -> Any:
    """One launch and its work beside the time that the answer gives, in microseconds."""
    from labkit import show  # drawing is for a failing case alone

    script = case.inputs[0]
    launch, work = script["launch"], script["work"]
    spans = [
        {"lane": "host", "name": "launch", "start": 0.0, "end": launch},
        {"lane": "device", "name": "work", "start": launch, "end": launch + work},
    ]
    for lane, value in (("right", right), ("yours", got)):
        time = value[0] if isinstance(value, tuple | list) and value else value
        if isinstance(time, int | float) and time > 0:
            name = f"{lane}: {time:g}"
            spans.append({"lane": lane, "name": name, "start": 0.0, "end": float(time)})
    return show.timeline(spans, unit="us", title="one call among many")
