"""The small step of the list of losses: a mean that keeps no graph."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Exercise, Hint, Rng, handed_out


def _some_losses(rng: Rng, size: int) -> tuple[list[float]]:
    return ([rng.randint(-8, 24) / 4 for _ in range(1 + size + rng.randint(0, 2))],)


@handed_out
class _Steps:
    """A step that returns the next loss; it knows how many graphs were alive when it was called."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = list(losses)
        self.batches: list[StorageWeakRef] = []
        self.most_alive = 0
        self.weight = torch.ones(3, requires_grad=True)

    def __call__(self) -> torch.Tensor:
        alive = sum(not batch.expired() for batch in self.batches)
        self.most_alive = max(self.most_alive, alive)
        batch = torch.full((3,), self.losses[len(self.batches)])
        self.batches.append(StorageWeakRef(batch.untyped_storage()))
        return (batch * self.weight).mean()


def _drive(answer: Any, losses: list[float]) -> dict[str, Any]:
    step = _Steps(losses)
    mean = answer(step, len(losses))
    return {
        "calls of step": len(step.batches),
        "mean": mean,
        "is a Python number": isinstance(mean, int | float),
        "at most one graph alive": step.most_alive <= 1,
    }


def _right(losses: list[float]) -> dict[str, Any]:
    return {
        "calls of step": len(losses),
        "mean": sum(losses) / len(losses),
        "is a Python number": True,
        "at most one graph alive": True,
    }


mean_of = Exercise(
    id="kept_for_backward.mean_of",
    case=_some_losses,
    expected=_right,
    drive=_drive,
    show=lambda losses: f"step returns the losses {losses}",
    rung="warm-up",
    tolerance=1e-6,
    cases=40,
    minutes=3,
    hints=(
        Hint(
            "Earlier graphs were alive when step was called: a list holds the losses, or a sum "
            "does. total += step() records the addition. Take step().item() at once.",
            when=lambda e: not e.value["at most one graph alive"],
        ),
        Hint(
            "That is still a tensor. Return a Python number: step().item() is one.",
            when=lambda e: not e.value["is a Python number"],
        ),
        "Add up step().item() n times, and divide by n.",
    ),
    must_fail=(
        "collects losses with their graphs",
        "adds up losses with their graphs",
        "returns a tensor",
        "returns the sum",
    ),
)
