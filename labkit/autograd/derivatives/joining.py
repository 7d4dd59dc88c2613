"""Derivatives of joining, repeating and turning."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row("cat", "CatBackward0", tensors="cat_backward(grad, tensors.sizes, tensors.dtype, dim)"),
    row("stack", "StackBackward0", tensors="stack_backward(grad, dim, tensors.dtype)"),
    row("repeat", "RepeatBackward0", self="repeat_backward(grad, repeats, self.sizes)"),
    *[row(name, node, self=formula) for name, node, formula in (
        ("squeeze_", "SqueezeBackward3", "unsqueeze_to(grad, self.sizes)"),
        ("squeeze_.dim", "SqueezeBackward4", "unsqueeze_to(grad, self.sizes, dim)"),
        ("squeeze_.dims", "SqueezeBackward5", "unsqueeze_to(grad, self.sizes, dim)"),
        ("unsqueeze_", "UnsqueezeBackward1", "aten.squeeze.dim(grad, dim)"),
        ("t_", "TBackward1", "t(grad)"),
        ("transpose_", "TransposeBackward1", "aten.transpose.int(grad, dim0, dim1)"),
    )],
    row("flip", "FlipBackward0", self="flip(grad, dims)"),
]  # fmt: skip
