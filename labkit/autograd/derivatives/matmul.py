"""Derivatives of products of matrices and vectors."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row("mm", "MmBackward0",
        self="mm_left(grad, mat2, self.sizes, self.strides, 1)",
        mat2="mm_right(grad, self, mat2.sizes, mat2.strides, 1)"),
    row("bmm", "BmmBackward0",
        self="bmm(grad, conj(aten.transpose.int(mat2, 1, 2)))",
        mat2="bmm(conj(aten.transpose.int(self, 1, 2)), grad)"),
    row("mv", "MvBackward0",
        self="aten.reshape.default(grad, (-1, 1)) * conj(vec)",
        vec="mv(t(conj(self)), grad)"),
    row("dot", "DotBackward0",
        self="grad * conj(tensor)",
        tensor="grad * conj(self)"),
    row("addmm", "AddmmBackward0",
        self="maybe_multiply(grad, conj(beta))",
        mat1="mm_left(grad, mat2, mat1.sizes, mat1.strides, alpha)",
        mat2="mm_right(grad, mat1, mat2.sizes, mat2.strides, alpha)"),
    row("baddbmm", "BaddbmmBackward0",
        self="maybe_multiply(grad, conj(beta))",
        batch1="maybe_multiply(bmm(grad, conj(aten.transpose.int(batch2, 1, 2))), conj(alpha))",
        batch2="maybe_multiply(bmm(conj(aten.transpose.int(batch1, 1, 2)), grad), conj(alpha))"),
]  # fmt: skip
