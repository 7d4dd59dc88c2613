"""The warm-ups of mixed precision: bytes of a training step, and a step in 16 bits."""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST


def _counts(rng: Rng, size: int) -> tuple[int, int, bool]:
    return rng.randint(0, 10**size), rng.randint(0, 10**size), rng.chance(0.5)


def _bytes(weights: int, kept: int, sixteen: bool) -> int:
    return 16 * weights + (2 * kept + 2 * weights if sixteen else 4 * kept)


bytes_of_step = Exercise(
    id="gpu_precision_fusion_batch.bytes_of_step",
    case=_counts,
    expected=_bytes,
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(
        Stage("32 bits", only=lambda weights, kept, sixteen: not sixteen, cases=20),
        Stage("16 bits", only=lambda weights, kept, sixteen: sixteen, cases=20),
        Stage("both"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The 16-bit copies are missing: one more number of 2 bytes for each weight.",
            when=lambda e: e.inputs[2] and e.right - e.value == 2 * e.inputs[0],
        ),
        Hint(
            "In 16 bits only what is kept has 2 bytes per number. The weight, its gradient and "
            "Adam's two numbers keep 4 bytes each.",
            when=lambda e: e.inputs[2] and e.value < e.right - 2 * e.inputs[0],
        ),
        Hint(
            "Four numbers of 4 bytes belong to each weight: itself, its gradient, and two of Adam.",
            when=lambda e: not e.inputs[2] and e.inputs[0] > 0,
        ),
        "Bytes for the weights, plus bytes for what is kept, plus the copies.",
    ),
    must_fail=(
        "halves everything",
        "forgets the copies",
        "forgets what Adam remembers",
        "has no 32-bit case",
        FIRST,
    ),
)


class Watched(nn.Module):  # type: ignore[misc]
    """A small network that remembers in what mode it went forward and backward."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(3, 4, generator=generator))
        self.forwards, self.backwards = list[str](), list[str]()

    def forward(self, x: Tensor) -> Tensor:
        """The rows of x times the weight, in the precision of the mode."""
        result = nn.functional.linear(x, self.weight)
        self.forwards.append(str(result.dtype).removeprefix("torch."))
        if result.requires_grad:
            result.register_hook(self._goes_backward)
        return result

    def _goes_backward(self, gradient: Tensor) -> None:
        inside = torch.is_autocast_enabled("cpu")
        self.backwards.append("inside of autocast" if inside else "outside")


def _training(rng: Rng, steps: int, old: float) -> Case:
    return Case((rng.getrandbits(20), steps, old))


def _any_training(rng: Rng, size: int) -> Case:
    return _training(rng, 1 + size % 3, rng.choice((0, 1, -100)))


def _drive_step(answer: Any, seed: int, steps: int, old: float) -> dict[str, Any]:
    """What is true after `steps` calls of the answer, when every gradient was `old` before."""
    generator = torch.Generator().manual_seed(seed + 1)
    model = Watched(seed)
    if old:
        model.weight.grad = torch.full_like(model.weight, old)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x, y = (torch.randn(5, n, generator=generator) for n in (4, 3))
        answer(model, optimizer, x, y)
    return {
        "forward, in": model.forwards,
        "backward": model.backwards,
        "the weights are": str(model.weight.dtype).removeprefix("torch."),
        "weights": model.weight.detach().float(),
    }


def _right_step(seed: int, steps: int, old: float) -> dict[str, Any]:
    def answer(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return _drive_step(answer, seed, steps, old)


def _said(seed: int, steps: int, old: float) -> str:
    before = f"each gradient was {old} before" if old else "no gradient before"
    return f"steps: {steps}, {before}, weights and batches from seed {seed}"


mixed_step = Exercise(
    id="gpu_precision_fusion_batch.mixed_step",
    case=_any_training,
    expected=_right_step,
    drive=_drive_step,
    tolerance=1e-5,
    rung="warm-up",
    minutes=4,
    cases=30,
    show=_said,
    stages=(
        Stage("one step", case=lambda rng, size: _training(rng, 1, 0), cases=10),
        Stage("an old gradient", case=lambda rng, size: _training(rng, 1, -100), cases=10),
        Stage("several steps"),
    ),
    hints=(
        Hint(
            "The network computed in 32 bits: call it inside of `with torch.autocast(...)`.",
            when=lambda e: "float32" in e.value["forward, in"],
        ),
        Hint(
            "The network was not called once per step.",
            when=lambda e: len(e.value["forward, in"]) != e.inputs[1],
        ),
        Hint(
            "The block of autocast ends before backward: only the forward half is inside.",
            when=lambda e: "inside of autocast" in e.value["backward"],
        ),
        Hint(
            "The weights themselves stay float32: autocast makes copies.",
            when=lambda e: e.value["the weights are"] != "float32",
        ),
        Hint(
            "Somebody went backward before you, and the gradients were still there. Your step "
            "added to them, and so the weights moved along the old gradient too. When must it be "
            "cleared?",
            stage="an old gradient",
        ),
        Hint(
            "The second step goes wrong: rule 3. What does it find in the gradients?",
            stage="several steps",
        ),
        "Empty the gradients, compute the loss in autocast, go backward, let the optimizer step.",
        "Four calls: optimizer.zero_grad(), mse_loss(model(x), y), loss.backward(), "
        "optimizer.step().",
    ),
    must_fail=(
        "never clears the gradients",
        "clears them after its step, not before",
        "clears them before the optimizer has used them",
        "goes backward inside of autocast",
        "computes in 32 bits",
        "turns the weights into 16 bits",
        "never steps",
        "steps before the gradients are there",
    ),
)
