"""Derivatives of sorting, triangles and diagonals: a gradient goes where the element came from."""

from labkit.autograd.derivatives.row import Row, row

SELECTED = "value_selecting_reduction_backward(grad, dim, indices, self.sizes, True)"
VALUES = (True, False)

ROWS: list[Row] = [
    row("sort", "SortBackward0", self=SELECTED, differentiable_outputs=VALUES),
    row("sort.stable", "SortBackward1", self=SELECTED,
        differentiable_outputs=VALUES),
    row("tril", "TrilBackward0", self="tril(grad, diagonal)"),
    row("triu", "TriuBackward0", self="triu(grad, diagonal)"),
]  # fmt: skip
