"""Derivatives of indexing, and of the operators it is made of."""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

PUT_SELF = (
    "grad if accumulate else index_put(grad, indices, aten.zeros_like.default(values), False)"
)

ROWS: list[Row] = [
    row("index.Tensor", "IndexBackward0",
        self="index_backward(grad, self.sizes, indices)"),
    row("index_put", "IndexPutBackward0",
        self=PUT_SELF, values="aten.index.Tensor(grad, indices)"),
    row("_index_put_impl_", "IndexPutImplBackward0",
        self=PUT_SELF, values="aten.index.Tensor(grad, indices)"),
    row("embedding", "EmbeddingBackward0",
        weight="embedding_dense_backward(grad, indices, weight.sizes[0], padding_idx, "
               "scale_grad_by_freq)"),
    row("select_backward", "SelectBackwardBackward0",
        grad_output="aten.select.int(grad, dim, index)"),
    row("slice_backward", "SliceBackwardBackward0",
        grad_output="aten.slice.Tensor(grad, dim, start, end, step)"),
    row("diagonal_backward", "DiagonalBackwardBackward0",
        grad_output="diagonal(grad, offset, dim1, dim2)"),
    row("unfold_backward", "UnfoldBackwardBackward0",
        grad_in="aten.unfold.default(grad, dim, size, step)"),
    *not_differentiable("nonzero"),
]  # fmt: skip
