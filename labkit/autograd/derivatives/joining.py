"""Derivatives of joining, repeating and turning."""

from labkit.autograd.derivatives.row import Row, row

LINEAR = "auto_linear"

ROWS: list[Row] = [
    row("cat", "CatBackward0", tensors="cat_backward(grad, tensors.sizes, tensors.dtype, dim)"),
    row("stack", "StackBackward0", tensors="stack_backward(grad, dim, tensors.dtype)"),
    row("block_diag", "BlockDiagBackward0",
        tensors="block_diag_backward(grad, tensors.sizes, tensors.dtype)"),
    row("repeat", "RepeatBackward0", self="repeat_backward(grad, repeats, self.sizes)",
        jvp=LINEAR),
    row("roll", "RollBackward0",
        self="roll_backward(grad, shifts, dims)", jvp=LINEAR),
    row("flip", "FlipBackward0", self="flip(grad, dims)", jvp=LINEAR),
    row("rot90", "Rot90Backward0", self="rot90(grad, -k, dims)", jvp=LINEAR),
]  # fmt: skip
