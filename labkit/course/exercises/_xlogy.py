"""The operator xlogy, finished: a change to labkit that every question of the reviewer accepts."""

from typing import Any

import numpy as np
import torch

import labkit as lab
from labkit.course.exercise import handed_out
from labkit.course.review import Change

SCHEMA = "xlogy.Tensor(Tensor self, Tensor other) -> Tensor"
FORMULAS = {
    "self": "zero_where(logical_and(eq(self, 0), le(other, 0)), aten.xlogy.Tensor(grad, other))",
    "other": "grad * self / other",
}


@handed_out
def finished_looks(self: Any, other: Any) -> tuple[Any, Any]:
    """The shape that both broadcast to; whole numbers give the default floating type."""
    dtype = lab.result_type(self, other)
    if not dtype.is_floating_point:
        dtype = lab.get_default_dtype()
    return lab.broadcast_shapes(self.shape, other.shape), dtype


@handed_out
def finished_numbers(x: Any, y: Any) -> Any:
    """The product x * log(y), and 0 where x is 0, unless y is no number."""
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


@handed_out
def finished_samples() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """One sample for each rule: odd numbers, dtypes, layouts, broadcasting, no elements."""
    odd = torch.tensor([0.0, 1.0, -1.0, torch.inf, torch.nan])
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    whole = [torch.bool, torch.uint8, torch.int32, torch.int64]
    pairs = [(odd[:, None], odd[None])]
    pairs += [(x.to(dtype), x.to(dtype)) for dtype in floats + whole]
    for view in (x.t(), x[:, ::2]):
        pairs += [(view, view.contiguous()), (view.contiguous(), view)]
    for small in (x[:1], x[:, :1], x[0]):
        pairs += [(small, x), (x, small)]
    return [*pairs, (x[:0], x[:0]), (x[:, :0], x[:, :0])]


@handed_out
def with_formulas(formulas: Any) -> Change:
    """The operator with these formulas for its gradients, and all that they need."""
    return Change(SCHEMA, finished_looks, finished_numbers, formulas)
