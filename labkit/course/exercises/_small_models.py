"""Models of a few steps, each of which keeps something else for backward."""

from typing import Any

import torch
from torch import nn

from labkit.course.exercise import Rng


class Cube(torch.autograd.Function):  # type: ignore[misc]
    """x**3, with what backward needs saved by hand."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The cube; the square is kept."""
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        """Three times the square."""
        (square,) = ctx.saved_tensors
        return 3 * square * grads[0]


FORMULAS = {
    "linear": "linear(x, weight, bias)",
    "tied": "x @ weight @ weight.t()",
    "scale": "x * a parameter",
    "shift": "x * a buffer",
    "half": "left half of x squared, right half as it is",
    "both": "sin(x) * cos(x)",
    "mean": "x * mean of x, expanded",
    "cube": "x ** 3, a custom function",
    "flat": "x in other strides",
}


class Step(nn.Module):  # type: ignore[misc]
    """One step of a small model, named by a word.

    Some keep what they read, some what they make, some nothing; `half` keeps a view of half of
    it, `both` one storage in two shapes, `mean` an expanded number, `scale` a parameter.
    """

    @property
    def in_words(self) -> str:
        """The word and what it computes."""
        return f"{self.name} = {FORMULAS.get(self.name, f'{self.name}(x)')}"

    def __init__(self, name: str, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.name = name
        if name in ("linear", "tied"):
            self.weight = nn.Parameter(torch.ones(width, width, dtype=dtype))
            self.bias = nn.Parameter(torch.zeros(width, dtype=dtype))
        if name == "scale":
            self.weight = nn.Parameter(torch.ones(width, dtype=dtype))
        if name == "shift":
            self.register_buffer("by", torch.ones(width, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the word says."""
        if self.name == "linear":
            return nn.functional.linear(x, self.weight, self.bias)
        if self.name == "tied":
            return x @ self.weight @ self.weight.t()
        if self.name == "scale":
            return x * self.weight
        if self.name == "shift":
            return x * self.by
        if self.name == "half":
            left = x[:, : x.size(1) // 2]
            return torch.cat([left * left, x[:, x.size(1) // 2 :]], 1)
        if self.name == "both":
            return torch.sin(x) * torch.cos(x.reshape(-1)).view(x.shape)
        if self.name == "mean":
            return x * x.mean().expand(x.shape)
        if self.name == "cube":
            return Cube.apply(x)
        if self.name == "flat":
            return x.t().reshape(-1).view(x.size(1), x.size(0)).t()
        return getattr(torch, self.name)(x)


STEPS = (
    "linear", "linear", "linear", "tied", "scale", "shift", "half", "both", "mean", "cube", "flat",
    "relu", "tanh", "exp", "sigmoid", "sin", "neg",
)  # fmt: skip


def a_model(rng: Rng, size: int) -> tuple[nn.Module, torch.Tensor]:
    width, batch = rng.randint(2, 3 + 4 * size), rng.randint(1, 2 + 4 * size)
    dtype = rng.choice((torch.float32, torch.float32, torch.float64, torch.bfloat16))
    names = [rng.choice(STEPS) for _ in range(1 + rng.randint(0, size))]
    model = nn.Sequential(*[Step(name, width, dtype) for name in names])
    x = torch.zeros(batch, width, dtype=dtype)
    x.requires_grad_(rng.chance(0.3))
    return model, x


def unwatched(*names: str) -> Any:
    """A maker of one-step models, of which only the bytes are asked: see `watched`."""

    def case(rng: Rng, size: int) -> tuple[nn.Module, torch.Tensor]:
        width, dtype = rng.randint(2, 3 + size), rng.choice((torch.float32, torch.float64))
        model = nn.Sequential(Step(rng.choice(names), width, dtype))
        model.watched = False
        x = torch.zeros(rng.randint(1, 2 + size), width, dtype=dtype)
        return model, x.requires_grad_(rng.chance(0.5))

    return case
