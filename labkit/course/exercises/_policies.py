"""Which layers of a chain are computed again: the cheapest plan that keeps to its bytes."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.pipeline.memory.checkpointing import DoesNotFit, Layer, plan

Layers = list[tuple[int, int, int]]


SIZES = 7
"""The largest size: its chains are too long to try every plan."""


def _chain(rng: Rng, size: int, equal: bool = False, roomy: bool = False) -> tuple[Layers, int]:
    count = 1 + size + rng.randint(0, 2)
    if size == SIZES and not (equal or roomy):
        count = 22
    one = (rng.randint(5, 20), rng.randint(1, 5), rng.randint(1, 9))
    layers = [one if equal else (rng.randint(1, 30), rng.randint(1, 9), rng.randint(1, 20))
              for _ in range(count)]  # fmt: skip
    whole = sum(saved for saved, _, _ in layers)
    return layers, whole + 5 if roomy else rng.randint(whole // 3, whole) + 5


def _peak(layers: Layers, parts: list[tuple[int, int, bool]]) -> int:
    most, kept = 0, 0
    for start, end, again in parts:
        inside = sum(saved for saved, _, _ in layers[start:end])
        entry = layers[start][1]
        most = max(most, kept + inside + (entry if again else 0))
        kept += entry if again else inside
    return max(most, kept)


def _work(layers: Layers, parts: Any) -> int:
    return sum(work for start, end, again in parts if again for _, _, work in layers[start:end])


def _judge(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "checkpoint_policy(layers, budget) returns a list of parts, or None"
    layers, budget = case.inputs
    try:
        best = plan([Layer(*layer) for layer in layers], budget)
    except DoesNotFit:
        best = ()
    if got is None:
        return Wrong("there is a plan that keeps to the budget") if best else None
    try:
        parts = [(int(start), int(end), bool(again)) for start, end, again in got]
    except (TypeError, ValueError):
        return "each part is (start, end, again)"
    places = [at for start, end, _ in parts for at in range(start, end)]
    if places != list(range(len(layers))) or not all(a < b for a, b, _ in parts):
        return Wrong("every layer is in one part, in order")
    if (most := _peak(layers, parts)) > budget:
        text = f"at most {budget} bytes at any time; this plan needs {most}"
        return Wrong(text) if best else Wrong(f"{text}, and no plan fits", None)
    least = _work(layers, [(part.start, part.end, part.again) for part in best])
    if (mine := _work(layers, parts)) != least:
        return Wrong(f"the least work done again: {least}; this plan does {mine}")
    return None


checkpoint_policy = Exercise(
    id="reuse.checkpoint_policy",
    case=_chain,
    judge=_judge,
    rung="boss",
    minutes=30,
    cases=60,
    sizes=SIZES,
    seconds=5,
    stages=(
        Stage("room for all", case=lambda rng, size: _chain(rng, size, roomy=True), cases=10),
        Stage("equal layers", case=lambda rng, size: _chain(rng, size, equal=True), cases=20),
        Stage("together"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Trying every plan takes about three times as long with each layer more. From the "
             "front: for each place, keep for each number of bytes the least work so far.",
             when=lambda e: e.kind == "time"),
        Hint("Name each layer once: the first part begins at 0, each other one where the part "
             "before it ends, the last ends at len(layers).",
             when=lambda e: "in one part" in e.property),
        Hint("Too many bytes: backward of a part that is computed again has its entry, all that "
             "its layers save, and what is kept in front of it.",
             when=lambda e: "at most" in e.property),
        Hint("It fits, and there is a cheaper one. Each layer may be a part of its own, kept or "
             "computed again.", when=lambda e: "least work" in e.property),
        Hint("There is room for everything: compute nothing again.", stage="room for all"),
        "From the front: for each place, keep for each number of bytes the least work so far.",
        "Two ways to the same place: drop the one that keeps more bytes and has more work.",
    ),
    must_fail=(
        "cuts into root-many parts",
        "recomputes everything in one part",
        "looks at the bytes of forward only",
        "greedy: the largest layers first",
        "keeps everything",
        "takes all layers for equal",
        "names a part twice",
        TOO_SLOW,
    ),
)  # fmt: skip
