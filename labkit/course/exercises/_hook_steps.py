"""The small steps of the hooks chapter: a hook that cuts off, the order of places, a chain."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

PLACES = ["tensor", "pre", "post", "leaf", "stored"]


def _large_gradients(rng: Rng, size: int) -> tuple[float, torch.Tensor]:
    numbers = [rng.choice((-9.0, -2.5, -0.5, 0.0, 0.5, 3.0, 8.0)) for _ in range(1 + size)]
    return rng.choice((0.5, 1.0, 2.0, 4.0)), torch.tensor(numbers)


def _clipped(limit: float, grad: torch.Tensor) -> dict[str, Any]:
    return {"returned": grad.clamp(-limit, limit), "the gradient that came, afterwards": grad}


def _drive_clip(answer: Any, limit: float, grad: torch.Tensor) -> dict[str, Any]:
    """What the hook returned, and what became of the gradient it was given."""
    given = grad.clone()
    hook = answer(limit)
    return {"returned": hook(given), "the gradient that came, afterwards": given}


def _was_written(evidence: Evidence) -> bool:
    return "afterwards" in evidence.property


clip = Exercise(
    id="hooks.clip",
    case=_large_gradients,
    expected=_clipped,
    drive=_drive_clip,
    rung="warm-up",
    cases=40,
    minutes=2,
    hints=(
        Hint(
            "The gradient that came was changed. A name with _ at its end writes in place; the "
            "one without it makes a new tensor.",
            when=lambda e: (
                isinstance(e.value, dict)
                and not torch.equal(e.value["the gradient that came, afterwards"], e.inputs[1])
            ),
        ),
        Hint(
            "None leaves the gradient as it is: the hook has to return the new one.",
            when=lambda e: isinstance(e.value, dict) and e.value["returned"] is None,
        ),
        "grad.clamp(lowest, highest) cuts every element off on both sides.",
    ),
    must_fail=(
        "writes into the gradient",
        "cuts off at the top alone",
        "makes the whole gradient smaller",
        "returns nothing",
    ),
)


def _five_places(rng: Rng, size: int) -> tuple[list[tuple[str, str]]]:
    kinds = [rng.choice(PLACES) for _ in range(1 + size)]
    names = rng.sample([f"h{number}" for number in range(len(kinds))], len(kinds))
    return (list(zip(names, kinds, strict=True)),)


def _in_order(hooks: list[tuple[str, str]]) -> list[str]:
    return [name for place in PLACES for name, kind in hooks if kind == place]


def _same_hooks(evidence: Evidence) -> bool:
    return isinstance(evidence.value, list) and sorted(evidence.value) == sorted(evidence.right)


def _kinds(evidence: Evidence, names: list[str]) -> list[str]:
    kind = dict(evidence.inputs[0])
    return [kind[name] for name in names]


firing_order = Exercise(
    id="hooks.firing_order",
    case=_five_places,
    expected=_in_order,
    rung="warm-up",
    cases=80,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Every name comes once, and nothing else: look at how many you returned.",
            when=lambda e: e.kind == "value" and not _same_hooks(e),
        ),
        "Write the five kinds into a list, in the order of rule 2: a place is an index there.",
        Hint(
            "Hooks of one kind keep the order of the input: sorted(hooks, key=...) leaves it.",
            when=lambda e: _kinds(e, e.value) == _kinds(e, e.right),
        ),
    ),
    must_fail=(
        "keeps the order of registration",
        "lets the post-accumulate hook come before the leaf's",
        "lets the node's hook come before the tensor's",
        "turns hooks of one place round",
        "sorts hooks of one place by name",
    ),
)


def _chain(rng: Rng, size: int) -> tuple[list[str | int], int]:
    """What each hook does: watch, take itself down, or multiply; and the gradient."""
    does = [rng.choice(("watch", "once", 0, 2, -3, 10)) for _ in range(size // 2)]
    return does, rng.randint(-4, 4)


def _passed(does: list[str | int], g: int) -> dict[str, Any]:
    seen = []
    for one in does:
        seen.append(g)
        g = g if isinstance(one, str) else one * g
    return {"left": g, "seen": seen, "still there": [one for one in does if one != "once"]}


@handed_out
def _hung(does: list[str | int], seen: list[int]) -> tuple[list[Callable[[int], Any]], list[Any]]:
    hooks: list[Callable[[int], Any]] = []
    there: list[Any] = []

    def made(one: str | int) -> Callable[[int], Any]:
        def hook(g: int) -> Any:
            seen.append(g)
            if one == "once":
                at = hooks.index(hook)
                del hooks[at], there[at]
            return None if isinstance(one, str) else one * g

        return hook

    hooks += [made(one) for one in does]
    there += does
    return hooks, there


def _drive_chain(answer: Any, does: list[str | int], g: int) -> dict[str, Any]:
    """What is left of the gradient, what each hook saw, and which of them are still there."""
    seen: list[int] = []
    hooks, there = _hung(does, seen)
    left = answer(hooks, g)
    return {"left": left, "seen": seen, "still there": there}


def _missed(evidence: Evidence) -> bool:
    return len(evidence.value["seen"]) < len(evidence.right["seen"])


through = Exercise(
    id="hooks.through",
    case=_chain,
    expected=_passed,
    drive=_drive_chain,
    show=lambda does, g: f"hooks that do {does} (a number multiplies), gradient {g}",
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A hook took itself down, and the next one had no turn: go through a copy of the list.",
            when=lambda e: "once" in e.inputs[0] and _missed(e),
        ),
        Hint(
            "A gradient of 0 is a gradient. Only None means: leave it as it is.",
            when=lambda e: 0 in e.inputs[0] or e.inputs[1] == 0,
        ),
        "Each hook gets what is left so far. If it returns something, that is left now.",
    ),
    must_fail=(
        "takes a gradient of zero for None",
        "gives every hook the first gradient",
        "skips the hook behind one that goes",
        "fails where a hook returns None",
    ),
)
