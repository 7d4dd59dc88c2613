"""Derivatives of views: a gradient takes the way back through the same numbers."""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

ROWS: list[Row] = [
    row("view", "ViewBackward0", self="aten.reshape.default(grad, self.sizes)"),
    row("_unsafe_view", "UnsafeViewBackward0", self="aten.reshape.default(grad, self.sizes)"),
    row("_reshape_alias", "ReshapeAliasBackward0", self="aten.reshape.default(grad, self.sizes)"),
    row("alias", "AliasBackward0", self="grad"),
    row("expand", "ExpandBackward0", self="sum_to(grad, self.sizes)"),
    row("permute", "PermuteBackward0", self="permute_backward(grad, dims)"),
    row("transpose.int", "TransposeBackward0",
        self="aten.transpose.int(grad, dim0, dim1)"),
    row("t", "TBackward0", self="aten.t.default(grad)"),
    row("squeeze", "SqueezeBackward0", self="unsqueeze_to(grad, self.sizes)"),
    row("squeeze.dim", "SqueezeBackward1", self="unsqueeze_to(grad, self.sizes, dim)"),
    row("squeeze.dims", "SqueezeBackward2", self="unsqueeze_to(grad, self.sizes, dim)"),
    row("unsqueeze", "UnsqueezeBackward0", self="aten.squeeze.dim(grad, dim)"),
    row("select.int", "SelectBackward0",
        self="aten.select_backward.default(grad, self.sizes, dim, index)"),
    row("slice.Tensor", "SliceBackward0",
        self="slice_backward_wrapper(grad, self.sizes, dim, start, end, step)"),
    row("diagonal", "DiagonalBackward0",
        self="aten.diagonal_backward.default(grad, self.sizes, offset, dim1, dim2)"),
    row("unfold", "UnfoldBackward0",
        self="aten.unfold_backward.default(grad, self.sizes, dimension, size, step)"),
    row("split.Tensor", "SplitBackward0",
        self="split_backward(grads, split_size, dim, self.sizes, self.dtype, self.device)"),
    row("split_with_sizes", "SplitWithSizesBackward0",
        self="split_with_sizes_backward(grads, split_sizes, dim, self.sizes, self.dtype, "
             "self.device)"),
    row("unbind.int", "UnbindBackward0",
        self="unbind_backward(grads, dim, self.sizes, self.dtype, self.device)"),
    row("as_strided", "AsStridedBackward0",
        self="as_strided_backward(grad, self.geometry, size, stride, storage_offset)"),
    row("view_as_real", "ViewAsRealBackward0", self="aten.view_as_complex.default("
        "aten.contiguous.default(grad))"),
    row("view_as_complex", "ViewAsComplexBackward0", self="aten.view_as_real.default("
        "aten.contiguous.default(aten.resolve_conj.default(grad)))"),
    *not_differentiable("detach", "view.dtype"),
]  # fmt: skip
