"""A training pipeline: when to step, large batches in pieces, looking ahead."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST, TOO_SLOW
from labkit.course.exercises._pipeline_steps import group_size, steps_after

NOTEBOOK = "1_fundamentals/9_training_pipeline"

# --- accumulate


Training = tuple[int, int, int, int, int | None]
"""A seed, how many batches, the size of a group, what each gradient was before, and the batch whose
gradient is infinite: -1 for none, None where no scaler is handed over."""


def _training(rng: Rng, size: int) -> Training:
    count = rng.randint(1, 2 + 2 * size)
    infinite = rng.choice((None, -1, rng.randrange(count)))
    return rng.getrandbits(20), count, rng.randint(1, 5), rng.choice((0, 7)), infinite


def _without_scaler(rng: Rng, size: int) -> Training:
    return *_training(rng, size)[:4], None


def _whole_groups(rng: Rng, size: int) -> Training:
    k = rng.randint(2, 4)
    return rng.getrandbits(20), k * rng.randint(1, 2 + size), k, 0, None


def _scaled(rng: Rng, size: int) -> Training:
    return *_training(rng, size)[:4], -1


MOST = "most samples in graphs at once"


class Run:
    """A weight, its optimizer and batches of 4 samples: what an answer is given."""

    def __init__(self, seed: int, count: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.w], lr=0.1, momentum=0.5)
        self.batches = list(torch.randn(count, 4, 3, dtype=torch.float64, generator=generator))
        self.waiting, self.most = 0, 0
        self.w.register_hook(self.went_backward)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean over the batch; its graph waits for backward."""
        self.waiting += len(batch)
        self.most = max(self.most, self.waiting)
        return ((batch[..., :2] @ self.w - batch[..., 2]) ** 2).mean()

    def went_backward(self, gradient: Tensor) -> None:
        self.waiting = 0

    def found(self) -> dict[str, Any]:
        return {"weights": self.w.detach().tolist(), MOST: self.most}

    def scaler(self) -> torch.amp.GradScaler:
        """A scale that grows after every second step."""
        return torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)


def _drive_accumulate(
    answer: Any, seed: int, count: int, k: int, old: int, infinite: int | None
) -> dict[str, Any]:
    run = Run(seed, count)
    if old:
        run.w.grad = torch.full_like(run.w, old)
    if infinite is None:
        answer(run.loss, run.optimizer, run.batches, k)
        return run.found()
    if infinite >= 0:
        run.batches[infinite][0, 0] = math.inf
    scaler = run.scaler()
    answer(run.loss, run.optimizer, run.batches, k, scaler)
    return run.found() | {"scale": scaler.get_scale()}


def _large_batches(
    seed: int, count: int, k: int, _old: int, infinite: int | None
) -> dict[str, Any]:
    run, scale, good = Run(seed, count), 64.0, 0
    for start in range(0, count, k):
        if infinite is not None and infinite // k == start // k and infinite >= 0:
            scale, good = scale / 2, 0
            continue
        run.optimizer.zero_grad()
        run.loss(torch.cat(run.batches[start : start + k])).backward()
        run.optimizer.step()
        good += 1
        if good == 2:
            scale, good = scale * 2, 0
    found = run.found() | {MOST: 4}
    return found if infinite is None else found | {"scale": scale}


def _in_words(seed: int, count: int, k: int, old: int, infinite: int | None) -> str:
    before = f"each gradient was {old} before" if old else "no gradient before"
    scaler = "" if infinite is None else ", with a scaler"
    broken = f", batch {infinite} is infinite" if infinite is not None and infinite >= 0 else ""
    return f"{count} batches of seed {seed}, k = {k}, {before}{scaler}{broken}"


accumulate = Exercise(
    id="training_pipeline.accumulate",
    case=_training,
    expected=_large_batches,
    drive=_drive_accumulate,
    tolerance=1e-9,
    minutes=14,
    cases=60,
    stages=(
        Stage("one group", case=lambda rng, size: (rng.getrandbits(20), 3, 3, 0, None), cases=5),
        Stage(
            "an old gradient", case=lambda rng, size: (rng.getrandbits(20), 3, 3, 7, None), cases=5
        ),
        Stage("whole groups", case=_whole_groups),
        Stage("any count", case=_without_scaler),
        Stage("with a scaler", case=_scaled),
        Stage("an infinity"),
    ),
    hints=(
        Hint(
            "The weights are right, and the graphs of several batches lay in memory together: send "
            "each loss backward before you ask for the next.",
            when=lambda e: (
                e.value[MOST] > e.right[MOST]
                and math.dist(e.value["weights"], e.right["weights"]) < 1e-6
            ),
        ),
        Hint(
            "With a single group the weights are off already: divide each loss by the number "
            "of batches in the group, and step once, at its end.",
            stage="one group",
        ),
        Hint(
            "Somebody went backward before you: {input}. Begin with empty gradients.",
            stage="an old gradient",
        ),
        Hint(
            "One group is right, and several are not: are the gradients cleared after each step, "
            "and only then?",
            stage="whole groups",
        ),
        Hint(
            "Only a last group that is smaller goes wrong. It needs a step too, and its losses "
            "are divided by its own size: your group_size.",
            stage="any count",
        ),
        Hint(
            "A scaler was handed over, and the scale is not what its steps make of it: "
            "scaler.update() once after each scaler.step(optimizer), and nowhere else.",
            when=lambda e: (
                "since the last update" in e.got
                or "prior to update" in e.got
                or (
                    e.inputs[4] is not None
                    and e.kind == "value"
                    and e.value["scale"] != e.right["scale"]
                )
            ),
        ),
        Hint(
            "The weights are infinite: the optimizer stepped itself. scaler.step(optimizer) leaves "
            "out a step whose gradient is infinite.",
            when=lambda e: not all(map(math.isfinite, e.value["weights"])),
        ),
        Hint(
            "With a scaler the gradients are too large, or divided twice. Scale each loss that "
            "goes backward, scaler.scale(loss).backward(); scaler.step divides once.",
            when=lambda e: e.inputs[4] is not None and e.stage in ("with a scaler", "an infinity"),
        ),
        "for i, batch in enumerate(batches): backward, and now and then a step with zero_grad.",
    ),
    show=_in_words,
    must_fail=(
        "begins with the gradients that are there",
        "steps at i % k",
        "forgets the flush",
        "divides by k for the partial group",
        "never divides",
        "leaves the scaler out",
        "unscales twice",
        "steps past the scaler",
        "updates the scale after every micro-batch",
        "never updates the scale",
        "gives up the group at an infinity",
        "zeroes gradients after every micro-batch",
        "never zeroes",
        "adds up the losses of a group",
        "joins the batches of a group",
        "leaves NaN in the weights",
        CONSTANT,
        FIRST,
    ),
)

# --- lookahead


class Broken(Exception):
    """What a source raises."""


class Source:
    """Items that come one at a time; how many were fetched before each was asked for is noted."""

    def __init__(self, items: list[Any], breaks_at: int | None) -> None:
        self.items, self.breaks_at, self.fetched = items, breaks_at, 0

    def __iter__(self) -> Iterator[Any]:
        for at, item in enumerate(self.items):
            if at == self.breaks_at:
                raise Broken(f"item {at} cannot be read")
            self.fetched += 1
            yield item


LARGEST, LONG = 9, 3000
"""The largest size, and how many items its sources have."""


def _a_source(rng: Rng, size: int, breaks: float = 0.3) -> tuple[list[int | None], int, int | None]:
    if size == LARGEST:
        return [*range(LONG)], rng.randint(1, 2 + size), None
    items = [
        None if rng.chance(0.1) else rng.randint(0, 99) for _ in range(rng.randint(0, 2 * size))
    ]
    breaks_at = rng.randrange(len(items)) if items and rng.chance(breaks) else None
    return items, rng.randint(1, 2 + size), breaks_at


def _drive_lookahead(
    answer: Any, items: list[int | None], depth: int, breaks_at: int | None
) -> dict[str, Any]:
    source = Source(items, breaks_at)
    found: dict[str, Any] = {"items": [], "fetched by then": [], "ended": "in order"}
    try:
        for item in answer(source, depth):
            found["items"].append(item)
            found["fetched by then"].append(source.fetched)
            if len(found["items"]) > len(items):
                break
    except Broken:
        found["ended"] = "with the source's error"
    return found


def _judge_lookahead(case: Case, got: Any) -> Any:
    items, depth, breaks_at = case.inputs
    if isinstance(got, Raised):
        return "lookahead(items, depth) yields the items"
    whole = items if breaks_at is None else items[:breaks_at]
    ended = "in order" if breaks_at is None else "with the source's error"
    ahead = [min(at + 1 + depth, len(whole)) for at in range(len(whole))]
    told = len(got["items"]) if breaks_at is not None else len(whole)
    right = {"items": whole[:told], "fetched by then": ahead[:told], "ended": ended}
    if got["ended"] != ended:
        return Wrong("how it ends", right)
    if got["items"] != right["items"]:
        return Wrong("every item, once, in order", right)
    if got["fetched by then"] != right["fetched by then"]:
        return Wrong("how many had been fetched when each item was handed out", right)
    return None


def _source_in_words(items: list[int | None], depth: int, breaks_at: int | None) -> str:
    breaks = "" if breaks_at is None else f", item number {breaks_at} raises an error"
    said = f"list(range({LONG}))" if len(items) == LONG else items
    return f"items = {said}, depth = {depth}{breaks}"


lookahead = Exercise(
    id="training_pipeline.lookahead",
    case=_a_source,
    judge=_judge_lookahead,
    drive=_drive_lookahead,
    show=_source_in_words,
    minutes=10,
    cases=80,
    sizes=LARGEST,
    stages=(
        Stage("depth 1", case=lambda rng, size: (list(range(size + 1)), 1, None), cases=9),
        Stage("any depth", case=lambda rng, size: _a_source(rng, size, 0)),
        Stage("errors too"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A source may have thousands of items, and a function that calls itself for each comes "
            "to Python's limit. Go through them in a loop.",
            when=lambda e: "Recursion" in e.got,
        ),
        Hint(
            "next raises StopIteration where the source has ended, and nobody catches it. A for "
            "loop over the source ends by itself.",
            when=lambda e: "StopIteration" in e.got,
        ),
        Hint(
            "An item may be None, so None does not tell that the source has ended. A for loop over "
            "the source ends by itself.",
            when=lambda e: (
                e.inputs[2] is None
                and None in e.inputs[0]
                and e.value["items"] == e.inputs[0][: e.inputs[0].index(None)]
            ),
        ),
        Hint(
            "Items are missing at the end. When the source has ended, some are still waiting: "
            "yield them too.",
            when=lambda e: len(e.value["items"]) < len(e.inputs[0]) and e.inputs[2] is None,
        ),
        Hint(
            "Items came twice, or in another order: use one iterator, made once.",
            when=lambda e: e.value["items"] != e.inputs[0][: len(e.value["items"])],
        ),
        Hint(
            "The source raised, and the reader was not told.",
            when=lambda e: e.inputs[2] is not None and e.value["ended"] == "in order",
        ),
        Hint(
            "When an item is handed out, it and the next `depth` items should have been fetched, "
            "where there are as many: no fewer, and no more.",
            when=lambda e: "fetched" in e.property,
        ),
        "A deque can hold what waits: append what you fetch on the right. How many wait when it is "
        "time to hand one out?",
        "After the loop over the source, hand out what still waits.",
    ),
    must_fail=(
        "restarts the iterator",
        "drops the last d",
        "swallows the exception",
        "fetches one too few",
        "fetches everything first",
        "looks one ahead whatever the depth",
        "hands out the same item twice",
        "takes it that there is an item",
        "takes None for the end",
        "deadlocks on an empty loader",
        TOO_SLOW,
        FIRST,
    ),
)

EXERCISES = (steps_after, group_size, accumulate, lookahead)
