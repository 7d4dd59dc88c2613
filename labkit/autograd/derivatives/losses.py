"""Derivatives of losses, and of their gradients."""

from labkit.autograd.derivatives.row import Row, row

OPTIONS = "weight, reduction, ignore_index"
BACK = "grad, self, target"
ZEROS = "aten.zeros_like.default(grad)"

ROWS: list[Row] = [
    row("mse_loss", "MseLossBackward0",
        self=f"mse_loss_backward({BACK}, reduction)",
        target="mse_loss_backward(grad, target, self, reduction)",
        jvp="reduced(mse_loss_backward(self_t, self_p, target_p, 0) + "
            "mse_loss_backward(target_t, target_p, self_p, 0), reduction)"),
    row("mse_loss_backward", "MseLossBackwardBackward0",
        grad_output=f"summed_like(mse_loss_backward({BACK}, 0), grad_output.sizes, reduction, "
                    "self.numel())",
        self="mse_double_backward(grad * grad_output, self, reduction)",
        target="-mse_double_backward(grad * grad_output, target, reduction)"),
    row("smooth_l1_loss", "SmoothL1LossBackward0",
        self=f"smooth_l1_loss_backward({BACK}, reduction, beta)",
        target="smooth_l1_loss_backward(grad, target, self, reduction, beta)",
        jvp="reduced(smooth_l1_loss_backward(self_t, self_p, target_p, 0, beta) + "
            "smooth_l1_loss_backward(target_t, target_p, self_p, 0, beta), reduction)"),
    row("smooth_l1_loss_backward", "SmoothL1LossBackwardBackward0",
        grad_output=f"summed_like(smooth_l1_loss_backward({BACK}, 0, beta), grad_output.sizes, "
                    "reduction, self.numel())",
        self="smooth_l1_double_backward(grad * grad_output, self, target, reduction, beta)",
        target="-smooth_l1_double_backward(grad * grad_output, self, target, reduction, beta)"),
    row("huber_loss", "HuberLossBackward0",
        self=f"huber_loss_backward({BACK}, reduction, delta)",
        target="huber_loss_backward(grad, target, self, reduction, delta)",
        jvp="reduced(huber_loss_backward(self_t, self_p, target_p, 0, delta) + "
            "huber_loss_backward(target_t, target_p, self_p, 0, delta), reduction)"),
    row("huber_loss_backward", "HuberLossBackwardBackward0",
        grad_output=f"summed_like(huber_loss_backward({BACK}, 0, delta), grad_output.sizes, "
                    "reduction, self.numel())",
        self="huber_double_backward(grad * grad_output, self, target, reduction, delta)",
        target="-huber_double_backward(grad * grad_output, self, target, reduction, delta)"),
    row("soft_margin_loss", "SoftMarginLossBackward0",
        self=f"soft_margin_loss_backward({BACK}, reduction)",
        jvp="reduced(soft_margin_loss_backward(self_t, self_p, target, 0), reduction)"),
    row("soft_margin_loss_backward", "SoftMarginLossBackwardBackward0",
        grad_output=f"summed_like(soft_margin_loss_backward({BACK}, 0), grad_output.sizes, "
                    "reduction, self.numel())",
        self="soft_margin_double_backward(grad * grad_output, self, target, reduction)"),
    row("binary_cross_entropy", "BinaryCrossEntropyBackward0",
        self=f"binary_cross_entropy_backward({BACK}, weight, reduction)",
        target="binary_cross_entropy_target(grad, self, weight, reduction)"),
    row("binary_cross_entropy_backward", "BinaryCrossEntropyBackwardBackward0",
        grad_output=f"summed_like(binary_cross_entropy_backward({BACK}, weight, 0), "
                    "grad_output.sizes, reduction, self.numel())",
        self="binary_cross_entropy_double(grad * grad_output, self, target, weight, reduction)",
        target="binary_cross_entropy_double_target(grad * grad_output, self, weight, reduction)"),
    row("binary_cross_entropy_with_logits", "BinaryCrossEntropyWithLogitsBackward0",
        self=f"logits_backward({BACK}, weight, pos_weight, reduction)",
        target="logits_target(grad, self, weight, pos_weight, reduction)"),
    row("nll_loss_forward", "NllLossBackward0",
        self=f"nll_loss_backward({BACK}, {OPTIONS}, total_weight)",
        jvp="nll_loss(self_t, target, weight, reduction, ignore_index)",
        differentiable_outputs=(True, False)),
    row("nll_loss_backward", "NllLossBackwardBackward0",
        grad_output=f"nll_loss(grad, target, {OPTIONS})", self=ZEROS),
    row("nll_loss2d_forward", "NllLoss2DBackward0",
        self=f"nll_loss2d_backward({BACK}, {OPTIONS}, total_weight)",
        jvp="nll_loss2d(self_t, target, weight, reduction, ignore_index)",
        differentiable_outputs=(True, False)),
    row("nll_loss2d_backward", "NllLoss2DBackwardBackward0",
        grad_output=f"nll_loss2d(grad, target, {OPTIONS})", self=ZEROS),
]  # fmt: skip
