"""The boss of mixed precision: what a list of measured runs says about 16 bits, and what not."""

import math
import statistics
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

Run = dict[str, Any]


def _runs(rng: Rng, size: int, noisy: bool = True, other: bool = True) -> tuple[list[Run]]:
    """Turns of one run in either precision, the first of them a warm-up; sometimes more."""
    gain = rng.choice((1.0, 1.3, 2.0))
    kept, parameters = (rng.randint(100, 900) * 64 for _ in range(2))
    turns = rng.choice((5, 7, 9, 11))
    device = rng.choice(("cpu", "cpu", "emulator")) if other else "cpu"
    runs: list[Run] = []
    for turn in range(turns + 1):
        load = rng.lognormvariate(0, 0.5) if noisy else 1.0
        for precision, faster in (("float32", 1.0), ("bfloat16", gain)):
            seconds = load * rng.lognormvariate(0, 0.1 * noisy) / faster
            runs.append({
                "turn": turn,
                "precision": precision,
                "device": device,
                "warm_up": turn == 0,
                "tf32": False,
                "seconds": round(seconds * (20 if turn == 0 else 1), 6),
                "kept_bytes": kept if precision == "float32" else int(kept * 0.6),
                "parameter_bytes": parameters,
                "loss": round(0.2 + 0.01 * rng.random() + 0.003 * (faster > 1), 6),
            })  # fmt: skip
        if other and rng.chance(0.3):
            runs.append({**runs[-2], "tf32": True, "seconds": 0.01, "loss": 9.0, "kept_bytes": 8})
    rng.shuffle(runs)
    return (runs,)


def _benefit(runs: list[Run]) -> dict[str, Any]:
    fair = [run for run in runs if not run["warm_up"] and not run["tf32"]]
    by = {(run["precision"], run["turn"]): run for run in fair}
    turns = sorted({run["turn"] for run in fair})
    pairs = [(by["float32", turn], by["bfloat16", turn]) for turn in turns]
    ratios = sorted(a["seconds"] / b["seconds"] for a, b in pairs)
    emulated = fair[0]["device"] == "emulator"
    few = len(ratios) < 6
    return {
        "faster": None if emulated or few else statistics.median(ratios),
        "at least": None if emulated or few else ratios[_rank(len(ratios)) - 1],
        "bytes": statistics.median(b["kept_bytes"] / a["kept_bytes"] for a, b in pairs),
        "loss": statistics.median(b["loss"] - a["loss"] for a, b in pairs),
    }


def _rank(count: int) -> int:
    outside, rank = 0.0, 0
    while (outside := outside + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    return rank


def _only_one(evidence: Evidence, name: str) -> bool:
    """Whether all but this is right."""
    got, right = evidence.value, evidence.right
    off = {key for key in right if not _same(got.get(key), right[key])}
    return off == {name}


def _same(got: float | None, right: float | None) -> bool:
    if got is None or right is None:
        return got is right
    return math.isclose(got, right, abs_tol=1e-9)


amp_benefit = Exercise(
    id="gpu_precision_fusion_batch.amp_benefit",
    case=_runs,
    expected=_benefit,
    tolerance=1e-9,
    rung="boss",
    minutes=25,
    cases=60,
    stages=(
        Stage("quiet", case=lambda rng, size: _runs(rng, size, noisy=False, other=False)),
        Stage("noise", case=lambda rng, size: _runs(rng, size, other=False)),
        Stage("any runs"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda runs: f"{len(runs)} runs, the first two: {runs[:2]}",
    hints=(
        Hint(
            "The emulator's seconds say nothing about a GPU: no time may come from them.",
            when=lambda e: (
                e.inputs[0][0]["device"] == "emulator" and e.value.get("faster") is not None
            ),
        ),
        Hint(
            "Fewer than six pairs enclose nothing with 95 %: then both times are None.",
            when=lambda e: e.right["faster"] is None and e.value.get("faster") is not None,
        ),
        Hint(
            "Only the loss is wrong. It is the median of the differences, one for each turn that "
            "is no warm-up, and not the difference of two medians.",
            when=lambda e: _only_one(e, "loss"),
        ),
        Hint(
            "Pair the runs by turn: the machine's load is the same for both of a turn. Then take "
            "the median of the pairs' ratios.",
            stage="noise",
        ),
        Hint(
            "{got}: the parameters stay in 32 bits. What autocast makes smaller is what is kept "
            "for backward.",
            when=lambda e: _only_one(e, "bytes") and e.value["bytes"] == 1,
        ),
        Hint(
            "A run with tf32 on has another setting than its partner: it is no baseline.",
            stage="any runs",
        ),
        "Leave out warm-ups and runs with tf32, then find the partners by turn and precision.",
        "`at least` is the second smallest ratio of 9 or 11 pairs, the smallest of 6 to 8.",
    ),
    must_fail=(
        "takes the warm-up in",
        "compares with another setting",
        "means of all, not pairs",
        "time from the emulator",
        "a time from too few pairs",
        "turns the ratio round",
        "one run of each",
        "memory from parameters only",
        "memory of the parameters, too",
        "gives nan where no time can be told",
        FIRST,
    ),
)
