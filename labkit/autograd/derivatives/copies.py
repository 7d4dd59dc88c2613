"""Derivatives of copies: the same numbers elsewhere, in another type, or filled in."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row("clone", "CloneBackward0", self="grad"),
    row("_lazy_clone", "LazyCloneBackward0", self="grad"),
    row("_to_copy", "ToCopyBackward0", self="to_copy_backward(grad, self.dtype, self.device)"),
    row("copy_", "CopyBackwards",
        self="zeros_like(grad)",
        src="to_copy_backward(grad, src.dtype, src.device)"),
    row("fill.Scalar", "FillBackward0", self="zeros_like(grad)"),
    row("fill_.Scalar", "FillBackward2", self="zeros_like(grad)"),
    row("fill_.Tensor", "FillBackward3", self="zeros_like(grad)",
        value="aten.sum.default(grad)"),
    row("zero", "ZeroBackward0", self="zeros_like(grad)"),
]  # fmt: skip
