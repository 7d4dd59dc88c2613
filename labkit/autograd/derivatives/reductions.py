"""Derivatives of reductions and scans."""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

LINEAR = "auto_linear"
SELECTED = "value_selecting_reduction_backward(grad, dim, indices, self.sizes, keepdim)"
SELECTED_JVP = "gather_with_keepdimed_indices(self_t, dim, indices, keepdim)"
VAR_JVP = (
    "aten.sum.dim_IntList(real_part(var_backward(conj(self_t), self_p, dim, correction, True)), "
    "dim, keepdim)"
)

ROWS: list[Row] = [
    row("sum", "SumBackward0", self="aten.expand.default(grad, self.sizes)", jvp=LINEAR),
    row("sum.dim_IntList", "SumBackward1",
        self="sum_backward(grad, self.sizes, dim, keepdim)", jvp=LINEAR),
    row("mean", "MeanBackward0",
        self="aten.expand.default(grad, self.sizes) / self.numel()", jvp=LINEAR),
    row("mean.dim", "MeanBackward1",
        self="mean_backward(grad, self.sizes, dim, keepdim)", jvp=LINEAR),
    row("prod", "ProdBackward0", self="prod_backward(grad, self, result)",
        jvp="conj(aten.sum.default(prod_backward(ones_like(result), self_p, result) "
            "* conj(self_t)))"),
    row("prod.dim_int", "ProdBackward1", self="prod_backward(grad, self, result, dim, keepdim)",
        jvp="conj(aten.sum.dim_IntList(prod_backward(ones_like(result), self_p, result, dim, "
            "keepdim) * conj(self_t), [dim], keepdim))"),
    row("var.correction", "VarBackward0",
        self="var_backward(grad, self, dim, correction, keepdim)", jvp=VAR_JVP),
    row("std.correction", "StdBackward0",
        self="std_backward(grad, self, result, dim, correction, keepdim)",
        jvp=f"aten.masked_fill.Scalar({VAR_JVP} / (2.0 * result), aten.eq.Scalar(result, 0), 0)"),
    row("max", "MaxBackward1", self="evenly_distribute_backward(grad, self, result)",
        jvp="evenly_read_jvp(self_t, self_p, result)"),
    row("min", "MinBackward1", self="evenly_distribute_backward(grad, self, result)",
        jvp="evenly_read_jvp(self_t, self_p, result)"),
    row("max.dim", "MaxBackward0", self=SELECTED, jvp=SELECTED_JVP,
        differentiable_outputs=(True, False)),
    row("min.dim", "MinBackward0", self=SELECTED, jvp=SELECTED_JVP,
        differentiable_outputs=(True, False)),
    row("amax", "AmaxBackward0", self="extreme_backward(grad, self, result, dim, keepdim)",
        jvp="extreme_jvp(self_p, self_t, result, dim, keepdim)"),
    row("amin", "AminBackward0", self="extreme_backward(grad, self, result, dim, keepdim)",
        jvp="extreme_jvp(self_p, self_t, result, dim, keepdim)"),
    row("logsumexp", "LogsumexpBackward0",
        self="logsumexp_backward(grad, self, result, dim, keepdim)",
        jvp="aten.sum.dim_IntList(self_t * aten.exp.default(self_p - restore_reduced_dims("
            "result, dim, keepdim, self_p.dim())), dim, keepdim)"),
    row("linalg_vector_norm", "LinalgVectorNormBackward0",
        self="norm_backward(grad, self, ord, result, dim, keepdim)"),
    row("norm.Scalar", "NormBackward0", self="norm_backward(grad, self, p, result)"),
    row("norm.ScalarOpt_dim", "NormBackward1",
        self="norm_backward(grad, self, p, result, dim, keepdim)"),
    row("norm.ScalarOpt_dtype", "NormBackward2", self="norm_backward(grad, self, p, result)"),
    row("norm.ScalarOpt_dim_dtype", "NormBackward3",
        self="norm_backward(grad, self, p, result, dim, keepdim)"),
    row("cumsum", "CumsumBackward0", self="cumsum_backward(grad, dim)", jvp=LINEAR),
    row("cumprod", "CumprodBackward0", self="cumprod_backward(grad, self, dim, result)",
        jvp="cumprod_jvp(self_t, self_p, result, dim)"),
    *not_differentiable(
        "argmax", "argmin", "any", "any.dim", "any.dims", "all", "all.dim", "all.dims",
        "count_nonzero", "count_nonzero.dim_IntList",
    ),
]  # fmt: skip
