"""Derivatives of views: a gradient takes the way back through the same numbers."""

from labkit.autograd.derivatives.row import LINEAR, Row, not_differentiable, row

ROWS: list[Row] = [
    row("view", "ViewBackward0", self="aten.reshape.default(grad, self.sizes)", jvp=LINEAR),
    row("_unsafe_view", "UnsafeViewBackward0", self="aten.reshape.default(grad, self.sizes)",
        jvp=LINEAR),
    row("_reshape_alias", "ReshapeAliasBackward0", self="aten.reshape.default(grad, self.sizes)",
        jvp=LINEAR),
    row("alias", "AliasBackward0", self="grad", jvp=LINEAR),
    row("expand", "ExpandBackward0", self="sum_to(grad, self.sizes)", jvp=LINEAR),
    row("permute", "PermuteBackward0", self="permute_backward(grad, dims)", jvp=LINEAR),
    row("transpose.int", "TransposeBackward0",
        self="aten.transpose.int(grad, dim0, dim1)", jvp=LINEAR),
    row("t", "TBackward0", self="aten.t.default(grad)", jvp=LINEAR),
    row("squeeze", "SqueezeBackward0", self="unsqueeze_to(grad, self.sizes)", jvp=LINEAR),
    row("squeeze.dim", "SqueezeBackward1", self="unsqueeze_to(grad, self.sizes, dim)", jvp=LINEAR),
    row("squeeze.dims", "SqueezeBackward2", self="unsqueeze_to(grad, self.sizes, dim)", jvp=LINEAR),
    row("unsqueeze", "UnsqueezeBackward0", self="aten.squeeze.dim(grad, dim)", jvp=LINEAR),
    row("select.int", "SelectBackward0",
        self="aten.select_backward.default(grad, self.sizes, dim, index)", jvp=LINEAR),
    row("slice.Tensor", "SliceBackward0",
        self="slice_backward_wrapper(grad, self.sizes, dim, start, end, step)", jvp=LINEAR),
    row("diagonal", "DiagonalBackward0",
        self="aten.diagonal_backward.default(grad, self.sizes, offset, dim1, dim2)", jvp=LINEAR),
    row("unfold", "UnfoldBackward0",
        self="aten.unfold_backward.default(grad, self.sizes, dimension, size, step)", jvp=LINEAR),
    row("split.Tensor", "SplitBackward0",
        self="split_backward(grads, split_size, dim, self.sizes, self.dtype, self.device)",
        jvp=LINEAR),
    row("split_with_sizes", "SplitWithSizesBackward0",
        self="split_with_sizes_backward(grads, split_sizes, dim, self.sizes, self.dtype, "
             "self.device)",
        jvp=LINEAR),
    row("unbind.int", "UnbindBackward0",
        self="unbind_backward(grads, dim, self.sizes, self.dtype, self.device)", jvp=LINEAR),
    row("as_strided", "AsStridedBackward0",
        self="as_strided_backward(grad, self.geometry, size, stride, storage_offset)", jvp=LINEAR),
    row("view_as_real", "ViewAsRealBackward0", self="aten.view_as_complex.default("
        "aten.contiguous.default(grad))", jvp=LINEAR),
    row("view_as_complex", "ViewAsComplexBackward0", self="aten.view_as_real.default("
        "aten.contiguous.default(aten.resolve_conj.default(grad)))", jvp=LINEAR),
    *not_differentiable("detach", "view.dtype"),
]  # fmt: skip
