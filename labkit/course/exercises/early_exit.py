"""A network that leaves early: when it is sure, who decides, and where the limit lies."""

import math
from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.pipeline.profiling.host_reads import HostReads

NOTEBOOK = "5_optimization/6b_early_exit"

# --- sureness


def _logits(rng: Rng, size: int, large: bool = True) -> tuple[list[float]]:
    if large and size in (1, 4):  # beyond exp, at both ends
        alike = rng.choice((-2000.0, 2000.0)) if size == 4 else 2000.0
        return ([alike, alike],)
    reach = 2000 if large and rng.chance(0.4) else 4
    return ([round(rng.uniform(-reach, reach), 1) for _ in range(rng.randint(1, 3 + size))],)


def _sureness(logits: list[float]) -> float:
    return 1 / sum(math.exp(x - max(logits)) for x in logits)


sureness = Exercise(
    id="early_exit.sureness",
    case=_logits,
    expected=lambda logits: _sureness(logits),
    rung="warm-up",
    minutes=3,
    cases=60,
    tolerance=1e-6,
    stages=(Stage("small logits", case=lambda rng, size: _logits(rng, size, False)),
            Stage("any logits")),
    rules=("math may be used: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("exp of 2000 is too large for a float, and exp of -2000 is 0. Subtract the largest "
             "logit from all of them first: the shares stay the same.", stage="any logits",
             when=lambda e: e.kind == "raised" or e.value != e.value),
        Hint("A logit may be any number. A share lies between 0 and 1.",
             when=lambda e: e.value == max(e.inputs[0])),
        "The share of x is exp(x) / (exp of all, added).",
        "The largest logit has the largest share.",
    ),
    must_fail=("the largest logit", "overflows", "divides by the sum of logits",
               "1.0 where exp overflows", FIRST),
)  # fmt: skip

# --- limit_for


def _held_out(rng: Rng, size: int, ties: bool = True) -> tuple[Any, ...]:
    steps = 20 if ties else 10_000
    sure = [rng.randint(steps // 4, steps) / steps for _ in range(rng.randint(1, 4 + 3 * size))]
    right = [rng.chance(0.3 + 0.7 * one) for one in sure]
    return sure, right, rng.choice((0.6, 0.8, 0.9, 1.0))


def _limit_for(sure: list[float], right: list[bool], wanted: float) -> float:
    for limit in sorted(set(sure)):
        leaving = [ok for one, ok in zip(sure, right, strict=True) if one >= limit]
        if sum(leaving) >= wanted * len(leaving):
            return limit
    return math.inf


limit_for = Exercise(
    id="early_exit.limit_for",
    case=_held_out,
    expected=_limit_for,
    minutes=9,
    cases=100,
    stages=(Stage("no ties", case=lambda rng, size: _held_out(rng, size, False)), Stage("any")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("With this limit, enough of those who leave are right. But a smaller limit does it "
             "as well, and lets more leave.", when=lambda e: e.right < e.value < math.inf),
        Hint("Nobody leaves with math.inf, and here a limit will do. The sample at the limit "
             "leaves, too.", when=lambda e: e.right < e.value == math.inf),
        Hint("Of those with at least this sureness, too many are wrong.",
             when=lambda e: e.value < e.right),
        "Try each value in `sure` as the limit, the smallest first.",
        "Those leave whose sureness is at least the limit. Nobody leaves with math.inf.",
    ),
    must_fail=("the wanted share itself", "the largest wrong one", "more than the limit",
               "the largest limit", "share of all, not of those who leave", FIRST),
)  # fmt: skip

# --- early_exit


def _a_batch(rng: Rng, size: int, mixed: bool = True, negative: bool = True) -> tuple[Any, ...]:
    """(batch, classes, limit): each row holds its fast logits and its full ones."""
    count, classes = rng.randint(1, 2 + 2 * size), rng.randint(2, 4)
    logits = torch.randn(count, 2 * classes, generator=rng.generator(), dtype=torch.float64)
    for row in range(count):
        leaves = rng.chance(0.5) if mixed else True
        logits[row, :classes] *= 0.1 if not leaves else 1
        if leaves:
            logits[row, rng.randrange(classes)] += 9
    if negative:
        logits[:, :classes] += rng.choice((-20.0, 0.0, 20.0))
    limit = rng.choice((0.8, 0.9))
    if negative and size in (2, 6):  # the first sample stands exactly at the limit
        logits[0, :classes] = torch.tensor([0.0] + [-800.0] * (classes - 1))
        limit = 1.0
    return logits, classes, limit


def _drive_exit(answer: Any, batch: Tensor, classes: int, limit: float) -> Any:
    """Labels, the rows that the full branch was given at each call, and the waits."""
    calls, fast_rows = list[Tensor](), 0

    def fast(x: Tensor) -> Tensor:
        nonlocal fast_rows
        fast_rows += len(x)
        return x[:, :classes].clone()

    def full(x: Tensor) -> Tensor:
        calls.append(x)
        return x[:, classes:].clone()

    with HostReads() as reads:
        labels = answer(fast, full, batch, limit)
    rows = [[row.index(True) for row in (x[:, None] == batch).all(-1).tolist()] for x in calls]
    return {"labels": labels, "full": rows, "fast": fast_rows, "waits": reads.count}


def _judge_exit(case: Case, got: Any) -> Any:
    batch, classes, limit = case.inputs
    if isinstance(got, Raised) or not isinstance(got["labels"], Tensor):
        return "early_exit returns a tensor of labels"
    fast, full = batch[:, :classes], batch[:, classes:]
    unsure = fast.softmax(1).amax(1) < limit
    right = torch.where(unsure, full.argmax(1), fast.argmax(1)).tolist()
    rows = unsure.nonzero().flatten().tolist()
    if sorted(row for call in got["full"] for row in call) != rows:
        return Wrong("the full branch is given the unsure samples, and no others", rows)
    if got["labels"].tolist() != right:
        return Wrong("every label", right)
    if got["labels"].dtype != torch.int64:
        return Wrong("labels are whole numbers, as argmax gives them", torch.int64)
    if len(got["full"]) > 1 or (not rows and got["full"]):
        return Wrong("the full branch is called once, or not at all when all are sure")
    if got["fast"] != len(batch):
        return Wrong("the fast branch is asked once for each sample", len(batch))
    if got["waits"] > 1:
        return Wrong("Python waits for the device once", 1)
    return None


def _at_the_limit(e: Any) -> bool:
    """Whether the full branch was given too many rows, and all of these are just at the limit."""
    batch, classes, limit = e.inputs
    sure = batch[:, :classes].softmax(1).amax(1)
    given = {row for call in e.value["full"] for row in call}
    more = given - set((sure < limit).nonzero().flatten().tolist())
    return bool(more) and all(float(sure[row]) == limit for row in more)


early_exit = Exercise(
    id="early_exit.early_exit",
    case=_a_batch,
    judge=_judge_exit,
    drive=_drive_exit,
    show=lambda batch, classes, limit: (
        f"{len(batch)} samples, {classes} classes, limit {limit}, sureness of the fast branch "
        f"{[round(one, 2) for one in batch[:, :classes].softmax(1).amax(1).tolist()]}"),
    minutes=12,
    cases=60,
    stages=(
        Stage("all sure", case=lambda rng, size: _a_batch(rng, size, False, False), cases=10),
        Stage("some unsure", case=lambda rng, size: _a_batch(rng, size, True, False)),
        Stage("any logits"),
    ),
    rules=("torch may be used",),
    hints=(
        Hint("Nobody was unsure: do not call the full branch with an empty batch.",
             when=lambda e: "or not at all" in e.property, stage="all sure"),
        Hint("All are sure, and the full branch was given samples: it gets the unsure rows alone, "
             "x[unsure].", when=lambda e: "no others" in e.property, stage="all sure"),
        Hint("A sample at the limit leaves: its sureness is at least `limit`.",
             when=_at_the_limit),
        Hint("{input}: each sample decides for itself.", stage="some unsure",
             when=lambda e: "no others" in e.property),
        Hint("A logit is no probability: softmax(1), then the largest of each row.",
             stage="any logits", when=lambda e: "no others" in e.property),
        Hint("Each `if` on a number of a tensor waits, and so does a mask as an index. "
             "unsure.nonzero() waits once, and its rows are places.",
             when=lambda e: "waits" in e.property),
        Hint("Call the full branch once, with all unsure samples.",
             when=lambda e: "called once" in e.property),
        Hint("Ask the fast branch once, and keep its logits: they give the labels and how sure "
             "it is.", when=lambda e: "fast branch is asked once" in e.property),
        Hint("A tensor of labels is asked for. To make a list of it, Python waits once more.",
             when=lambda e: isinstance(e.value["labels"], list)),
        Hint("These are rows of logits, not labels: argmax(1) makes a label of each row.",
             when=lambda e: e.value["labels"].dim() > 1),
        "sure = fast(x).softmax(1).amax(1); unsure = (sure < limit).nonzero()[:, 0]",
        "labels = logits.argmax(1); then labels[unsure] = full(x[unsure]).argmax(1)",
    ),
    must_fail=(
        "batch maximum",
        "threshold on logits",
        "per-sample host reads",
        "never exits",
        "the full branch for all, then a choice",
        "calls the full branch with nobody",
        "labels of the unsure at the front",
        "at the limit is not sure",
        "labels as floats",
        "asks the fast branch twice",
        "returns logits",
        "a list of labels",
    ),
)  # fmt: skip

EXERCISES = (sureness, early_exit, limit_for)
