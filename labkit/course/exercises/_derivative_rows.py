"""Rows of a derivative table: one formula per input of five operators."""

from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._orders_drawn import tensors_drawn

OPERATORS = ("add", "mul", "div", "where", "pow")


def _row_case(rng: Rng, size: int) -> Case:
    return _a_row(rng, size, rng.choice(OPERATORS))


def _plain(name: str) -> Any:
    """A maker of cases with operands of one shape and one dtype."""
    return lambda rng, size: _a_row(rng, size, name, plain=True)


def _a_row(rng: Rng, size: int, name: str, plain: bool = False) -> Case:
    shape = rng.sizes(rank=min(3, 1 + size // 3), largest=4, smallest=0 if rng.chance(0.15) else 1)
    dtype = rng.choice((torch.float64, torch.float64, torch.float32, torch.complex128))
    if plain:
        dtype = torch.float64
    elif name == "pow":
        dtype = rng.choice((torch.float64, torch.float32))

    def operand(kind: torch.dtype) -> torch.Tensor:
        cut = [1 if not plain and rng.chance(0.3) else n for n in shape]
        sizes = cut[rng.randint(0, len(cut)) if not plain and rng.chance(0.4) else 0 :]
        count = max(1, torch.Size(sizes).numel())
        numbers = torch.randn(count, dtype=torch.float64, generator=rng.generator())
        made = numbers[: torch.Size(sizes).numel()].reshape(sizes).to(kind)
        if kind.is_complex:
            made = made + 1j * made.flip(0) if made.dim() else made * (1 + 2j)
        if made.dim() > 1 and rng.chance(0.4):
            made = made.mT.contiguous().mT
        return made

    other_dtype = torch.float64 if dtype == torch.float32 and rng.chance(0.5) else dtype
    left, right = operand(dtype), operand(other_dtype)
    inputs: tuple[Any, ...] = (left, right)
    if name == "add":
        inputs = (left, right, rng.choice((1, 2, -3)))
    if name == "div":
        right = torch.where(right.abs() < 0.2, torch.ones_like(right), right)
        inputs = (left, right)
    if name == "where":
        inputs = (operand(torch.float64) > 0, left, right)
    if name == "pow":
        left, right = left.abs(), (right.abs() * 2).round()
        if rng.chance(0.5):
            left = torch.where(left < 0.6, torch.zeros_like(left), left)
        inputs = (left, right)
    needs = tuple(
        isinstance(one, torch.Tensor) and one.dtype != torch.bool and rng.chance(0.85)
        for one in inputs
    )
    result = _forward(name, inputs)
    weights = torch.randn(max(1, result.numel()), dtype=torch.float64, generator=rng.generator())
    grad = weights[: result.numel()].reshape(result.shape).to(result.dtype)
    if grad.is_complex():
        grad = grad * (1 - 0.5j)
    return Case((name, grad, inputs, needs))


def _forward(name: str, inputs: tuple[Any, ...]) -> torch.Tensor:
    if name == "add":
        return torch.add(inputs[0], inputs[1], alpha=inputs[2])
    made: torch.Tensor = getattr(torch, name)(*inputs)
    return made


def _row_truth(name: str, grad: Any, inputs: Any, needs: Any) -> list[Any]:
    tracked = [
        one.clone().requires_grad_() if need else one
        for one, need in zip(inputs, needs, strict=True)
    ]
    wanted = [one for one, need in zip(tracked, needs, strict=True) if need]
    if not wanted:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad(_forward(name, tuple(tracked)), wanted, grad))
    return [next(found) if need else None for need in needs]


def _wrong_places(evidence: Evidence) -> bool:
    """Whether None stands where a gradient should, a gradient where None should, or too few."""
    value, right = evidence.value, evidence.right
    return [one is None for one in value] != [one is None for one in right]


def _alpha_is_missing(evidence: Evidence) -> bool:
    name, _, inputs, needs = evidence.inputs
    return bool(name == "add" and inputs[2] != 1 and needs[1] and "[1]" in evidence.property)


def _shapes_agree(evidence: Evidence) -> bool:
    pairs = zip(evidence.value, evidence.right, strict=True)
    return all(one is None or two is None or one.shape == two.shape for one, two in pairs)


derivative_row = Exercise(
    id="autograd_engine.derivative_row",
    case=_row_case,
    expected=_row_truth,
    picture=lambda case, got, right: tensors_drawn(got, right),
    rules=(
        "formulas of your own: not torch.autograd",
        "pow at 0, as in PyTorch: exponent 0 gives self the gradient 0, base 0 gives other 0",
    ),
    tolerance=2e-5,
    cases=240,
    banned=(
        "torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward",
        "labkit.*",
    ),
    hints=(
        Hint("The list has one entry for each input: None where `needs` says False, also for the "
             "condition of where and the alpha of add", when=_wrong_places),
        Hint("A gradient has the shape of its input: sum_to_size removes the dimensions in front, "
             "and keeps those of size 1 that were stretched",
             when=lambda e: not _shapes_agree(e)),
        Hint("Complex numbers: the other factor, or the divisor, comes conjugated",
             when=lambda e: e.inputs[1].is_complex() and _shapes_agree(e)),
        Hint("add is self + alpha * other: by how much does the result grow with other?",
             when=lambda e: _alpha_is_missing(e) and _shapes_agree(e)),
        "How fast does the result grow with this one input? Multiply that slope by grad.",
        Hint("log(0) is -inf, and -inf times 0 is nan: choose 0 with where before you multiply",
             when=lambda e: "nan" in e.got),
        Hint("The gradient of a float32 input is float32, also where the other one was float64",
             when=lambda e: "float32" in e.property),
    ),
    must_fail=(
        "no reduction of broadcast axes",
        "drops kept axes",
        "wrong for 0-dim",
        "zeros instead of None",
        "conjugate forgotten",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "returns NaN or an uninitialised buffer where a value is expected",
        "is right only for square, even or contiguous shapes",
    ),
    minutes=15,
    stages=(
        *(Stage(name, case=_plain(name), cases=12) for name in OPERATORS),
        Stage("broadcasting and dtypes"),
    ),
)  # fmt: skip
