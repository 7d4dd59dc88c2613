"""Derivatives of losses, and of their gradients."""

from labkit.autograd.derivatives.row import Row, row

OPTIONS = "weight, reduction, ignore_index"
BACK = "grad, self, target"
ZEROS = "aten.zeros_like.default(grad)"

ROWS: list[Row] = [
    row("mse_loss", "MseLossBackward0",
        self=f"mse_loss_backward({BACK}, reduction)",
        target="mse_loss_backward(grad, target, self, reduction)"),
    row("mse_loss_backward", "MseLossBackwardBackward0",
        grad_output=f"summed_like(mse_loss_backward({BACK}, 0), grad_output.sizes, reduction, "
                    "self.numel())",
        self="mse_double_backward(grad * grad_output, self, reduction)",
        target="-mse_double_backward(grad * grad_output, target, reduction)"),
    row("nll_loss_forward", "NllLossBackward0",
        self=f"nll_loss_backward({BACK}, {OPTIONS}, total_weight)",
        differentiable_outputs=(True, False)),
    row("nll_loss_backward", "NllLossBackwardBackward0",
        grad_output=f"nll_loss(grad, target, {OPTIONS})", self=ZEROS),
    row("nll_loss2d_forward", "NllLoss2DBackward0",
        self=f"nll_loss2d_backward({BACK}, {OPTIONS}, total_weight)",
        differentiable_outputs=(True, False)),
    row("nll_loss2d_backward", "NllLoss2DBackwardBackward0",
        grad_output=f"nll_loss2d(grad, target, {OPTIONS})", self=ZEROS),
]  # fmt: skip
