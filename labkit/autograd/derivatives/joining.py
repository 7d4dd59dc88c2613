"""Derivatives of joining, repeating and turning."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row("cat", "CatBackward0", tensors="cat_backward(grad, tensors.sizes, tensors.dtype, dim)"),
    row("stack", "StackBackward0", tensors="stack_backward(grad, dim, tensors.dtype)"),
    row("repeat", "RepeatBackward0", self="repeat_backward(grad, repeats, self.sizes)"),
    row("squeeze_.dim", "SqueezeBackward4", self="unsqueeze_to(grad, self.sizes, dim)"),
    row("flip", "FlipBackward0", self="flip(grad, dims)"),
]  # fmt: skip
