"""The small steps of the engine: which ready node runs, and what a buffer does with a gradient."""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Ready = dict[str, float]


def _some_ready(rng: Rng, size: int) -> tuple[Ready]:
    """Names and numbers; an AccumulateGrad has infinity, and there is at most one."""
    names = ["ExpBackward0", "SinBackward0", "MulBackward0", "AddBackward0", "CosBackward0"]
    numbers = rng.sample(range(100), len(names))
    ready: Ready = dict(zip(names, numbers, strict=True))
    if rng.chance(0.4):
        ready["AccumulateGrad"] = float("inf")
    kept = rng.sample(sorted(ready), rng.randint(1, min(len(ready), 2 + size)))
    return ({name: ready[name] for name in kept},)


next_node = Exercise(
    id="autograd_engine.next_node",
    case=_some_ready,
    expected=lambda ready: max(ready, key=lambda name: ready[name]),
    rung="warm-up",
    cases=80,
    minutes=2,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "An AccumulateGrad is ready. It comes before all others.",
            when=lambda e: "AccumulateGrad" in e.inputs[0],
        ),
        Hint(
            "That is a number. Return the name.",
            when=lambda e: not isinstance(e.value, str),
        ),
        "Of the ready nodes the one made last runs: it has the largest number. Return its name.",
    ),
    must_fail=(
        "takes the one made first",
        "takes the first in the dictionary",
        "returns the number",
        "does not let an AccumulateGrad jump the queue",
    ),
)


class Grad:
    """A gradient as one number. As with tensors, `+` makes a new one, `+=` and `add_` write into
    it, a plain number may stand before the `+`, and a zero is false.
    """

    def __init__(self, value: int) -> None:
        self.value = value

    def __add__(self, other: "Grad") -> "Grad":
        return Grad(self.value + other.value)

    def __radd__(self, number: float) -> "Grad":
        return Grad(self.value + int(number))

    def __bool__(self) -> bool:
        return self.value != 0

    def add_(self, other: "Grad") -> "Grad":
        """Write the sum into this gradient."""
        self.value += other.value
        return self

    __iadd__ = add_


def _some_arrivals(rng: Rng, size: int) -> tuple[list[tuple[str, int]], list[int | None]]:
    """(node, which gradient) in the order of arrival, and the gradients; None is no gradient."""
    grads = [None if rng.chance(0.2) else rng.randint(-9, 9) for _ in range(1 + size // 2)]
    nodes = "pqr"[: 1 + size // 3]
    arrivals = [(rng.choice(nodes), rng.randrange(len(grads))) for _ in range(1 + size)]
    return arrivals, grads


def _arrived(arrivals: list[tuple[str, int]], grads: list[int | None]) -> dict[str, Any]:
    buffers: dict[str, int] = {}
    for node, which in arrivals:
        grad = grads[which]
        if grad is not None:
            buffers[node] = buffers.get(node, 0) + grad
    return {"buffers": buffers, "gradients afterwards": grads}


def _drive_arrivals(
    answer: Any, arrivals: list[tuple[str, int]], grads: list[int | None]
) -> dict[str, Any]:
    """The buffers at the end, and what became of the gradients that arrived."""
    made = [None if value is None else Grad(value) for value in grads]
    buffers: dict[str, Grad] = {}
    for node, which in arrivals:
        answer(buffers, node, made[which])
    return {
        "buffers": {node: grad.value for node, grad in buffers.items() if grad is not None},
        "gradients afterwards": [None if grad is None else grad.value for grad in made],
    }


def _shown(arrivals: list[tuple[str, int]], grads: list[int | None]) -> str:
    return "; ".join(f"{grads[which]} (gradient {which}) for {node}" for node, which in arrivals)


def _written_into(evidence: Evidence) -> bool:
    return bool(evidence.value["gradients afterwards"] != evidence.right["gradients afterwards"])


arrive = Exercise(
    id="autograd_engine.arrive",
    case=_some_arrivals,
    expected=_arrived,
    drive=_drive_arrivals,
    show=_shown,
    rung="warm-up",
    cases=100,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A gradient that arrived was changed. Another node may hold it, too: buffer + grad "
            "makes a new one, += and add_ write into the one that is there.",
            when=_written_into,
        ),
        Hint(
            "A gradient of 0 has arrived, too, and as a condition it is false: ask `is None`.",
            when=lambda e: set(e.value["buffers"]) != set(e.right["buffers"]),
        ),
        Hint(
            "None means zero: nothing is put into the buffer.",
            when=lambda e: e.kind == "raised" or None in e.inputs[1],
        ),
        "The first gradient becomes the buffer. Each later one is added, and the sum takes its "
        "place.",
    ),
    must_fail=(
        "adds into the gradient that arrived",
        "forgets the first gradient",
        "keeps the first alone",
        "fails when None arrives",
        "takes a gradient of 0 for none",
    ),
)
