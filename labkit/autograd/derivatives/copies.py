"""Derivatives of copies: the same numbers elsewhere, in another type, or filled in."""

from labkit.autograd.derivatives.row import LINEAR, Row, row

ROWS: list[Row] = [
    row("clone", "CloneBackward0", self="grad", jvp=LINEAR),
    row("_lazy_clone", "LazyCloneBackward0", self="grad", jvp=LINEAR),
    row("_to_copy", "ToCopyBackward0", self="to_copy_backward(grad, self.dtype, self.device)",
        jvp="to_copy_jvp(self_t, result)"),
    row("copy_", "CopyBackwards",
        self="zeros_like(grad)",
        src="to_copy_backward(grad, src.dtype, src.device)",
        jvp="copy_jvp(self_p, src_t)"),
    row("fill.Scalar", "FillBackward0", self="zeros_like(grad)",
        jvp="zeros_like(self_p)"),
    row("fill_.Scalar", "FillBackward2", self="zeros_like(grad)",
        jvp="zeros_like(self_p)"),
    row("fill_.Tensor", "FillBackward3", self="zeros_like(grad)",
        value="aten.sum.default(grad)", jvp="fill_jvp(self_p, value_t)"),
    row("zero", "ZeroBackward0", self="zeros_like(grad)",
        jvp="zeros_like(self_p)"),
]  # fmt: skip
