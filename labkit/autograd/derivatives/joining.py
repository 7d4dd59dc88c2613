"""Derivatives of joining, turning and triangles."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row("cat", "CatBackward0", tensors="cat_backward(grad, tensors.sizes, dim)"),
    row("stack", "StackBackward0", tensors="aten.unbind.int(grad, dim)"),
    row("squeeze_.dim", "SqueezeBackward4", self="unsqueeze_to(grad, self.sizes, dim)"),
    row("tril", "TrilBackward0", self="tril(grad, diagonal)"),
    row("triu", "TriuBackward0", self="triu(grad, diagonal)"),
    row("flip", "FlipBackward0", self="flip(grad, dims)"),
]  # fmt: skip
