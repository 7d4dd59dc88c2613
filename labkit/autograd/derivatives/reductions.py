"""Derivatives of reductions and scans."""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

SELECTED = "value_selecting_reduction_backward(grad, dim, indices, self.sizes, keepdim)"

ROWS: list[Row] = [
    row("sum", "SumBackward0", self="aten.expand.default(grad, self.sizes)"),
    row("sum.dim_IntList", "SumBackward1",
        self="sum_backward(grad, self.sizes, dim, keepdim)"),
    row("mean", "MeanBackward0",
        self="aten.expand.default(grad, self.sizes) / self.numel()"),
    row("mean.dim", "MeanBackward1",
        self="mean_backward(grad, self.sizes, dim, keepdim)"),
    row("var.correction", "VarBackward0",
        self="var_backward(grad, self, dim, correction, keepdim)"),
    row("max", "MaxBackward1", self="evenly_distribute_backward(grad, self, result)"),
    row("min", "MinBackward1", self="evenly_distribute_backward(grad, self, result)"),
    row("max.dim", "MaxBackward0", self=SELECTED,
        differentiable_outputs=(True, False)),
    row("min.dim", "MinBackward0", self=SELECTED,
        differentiable_outputs=(True, False)),
    row("amax", "AmaxBackward0", self="extreme_backward(grad, self, result, dim, keepdim)"),
    row("amin", "AminBackward0", self="extreme_backward(grad, self, result, dim, keepdim)"),
    row("linalg_vector_norm", "LinalgVectorNormBackward0",
        self="norm_backward(grad, self, ord, result, dim, keepdim)"),
    row("cumsum", "CumsumBackward0", self="cumsum_backward(grad, dim)"),
    *not_differentiable(
        "argmax", "any", "any.dim", "any.dims", "all", "all.dim", "all.dims",
    ),
]  # fmt: skip
