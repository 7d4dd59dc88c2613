"""Derivatives of layers: convolutions, pooling, padding, resizing, norms, softmax, attention."""

from labkit.autograd.derivatives.row import Row, row

LINEAR = "auto_linear"
WINDOW = "stride, padding, dilation, transposed, output_padding, groups"
ZEROS = "aten.zeros_like.default(self)"


def _pooling(rank: int) -> list[Row]:
    most, mean = f"max_pool{rank}d_with_indices", f"avg_pool{rank}d"
    arguments = "kernel_size, stride, padding, dilation, ceil_mode"
    averaging = "kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override"
    node = f"Pool{rank}D"
    return [
        row(most, f"Max{node}WithIndicesBackward0",
            self=f"{most}_backward(grad, self, {arguments}, result1)",
            differentiable_outputs=(True, False)),
        row(f"{most}_backward", f"Max{node}WithIndicesBackwardBackward0",
            grad_output=f"max_pool_double_backward(grad, indices, {rank})", self=ZEROS),
        row(mean, f"Avg{node}Backward0", self=f"{mean}_backward(grad, self, {averaging})",
            jvp=LINEAR),
        row(f"{mean}_backward", f"Avg{node}BackwardBackward0",
            grad_output=f"{mean}(grad, {averaging})", self=ZEROS),
        row(f"_adaptive_avg_pool{rank}d", f"AdaptiveAvg{node}Backward0",
            self=f"_adaptive_avg_pool{rank}d_backward(grad, self)", jvp=LINEAR),
        row(f"_adaptive_avg_pool{rank}d_backward", f"AdaptiveAvg{node}BackwardBackward0",
            grad_output=f"_adaptive_avg_pool{rank}d(grad, grad_output.sizes[-{rank}:])",
            self=ZEROS),
    ]  # fmt: skip


ROWS: list[Row] = [
    row("convolution", "ConvolutionBackward0",
        {"input, weight, bias": "convolution_gradients(grad, input, weight, bias.sizes, "
                                f"{WINDOW}, needs)"}),
    row("convolution_backward", "ConvolutionBackwardBackward0",
        {"grad_output, input, weight": "convolution_double_backward(grads, grad_output, input, "
                                       f"weight, {WINDOW}, needs)"}),
    row("im2col", "Im2ColBackward0",
        self="col2im(grad, self.sizes[-2:], kernel_size, dilation, padding, stride)", jvp=LINEAR),
    row("col2im", "Col2ImBackward0",
        self="im2col(grad, kernel_size, dilation, padding, stride)", jvp=LINEAR),
    *_pooling(2), *_pooling(3),
    row("constant_pad_nd", "ConstantPadNdBackward0",
        self="constant_pad_back(grad, pad)",
        jvp="constant_pad_nd(self_t, pad, 0)"),
    row("native_batch_norm", "NativeBatchNormBackward0",
        {"input, weight, bias": "batch_norm_gradients(grad, input, weight, running_mean, "
                                "running_var, result1, result2, training, eps, needs)"},
        differentiable_outputs=(True, False, False)),
    row("native_batch_norm_backward", "NativeBatchNormBackwardBackward0",
        {"grad_out, input, weight": "batch_norm_double_backward(grads, grad_out, input, weight, "
                                    "running_mean, running_var, save_mean, save_invstd, train, "
                                    "eps, needs)"}),
    row("native_layer_norm", "NativeLayerNormBackward0",
        {"input, weight, bias": "layer_norm_gradients(grad, input, normalized_shape, result1, "
                                "result2, weight, bias, needs)"},
        differentiable_outputs=(True, False, False)),
    row("native_layer_norm_backward", "NativeLayerNormBackwardBackward0",
        {"grad_out, input, weight": "layer_norm_double_backward(grads, grad_out, input, weight, "
                                    "mean, rstd, normalized_shape, needs)"},
        bias="None"),
    row("native_group_norm", "NativeGroupNormBackward0",
        {"input, weight, bias": "group_norm_gradients(grads, input, result1, result2, weight, N, "
                                "C, HxW, group, needs)"}),
    row("native_group_norm_backward", "NativeGroupNormBackwardBackward0",
        {"grad_out, input, weight": "group_norm_double_backward(grads, grad_out, input, weight, "
                                    "mean, rstd, group, needs)"}),
    row("_softmax", "SoftmaxBackward0",
        self="_softmax_backward_data(grad, result, dim, self.dtype)",
        jvp="softmax_jvp(self_t, result, dim)"),
    row("_log_softmax", "LogSoftmaxBackward0",
        self="_log_softmax_backward_data(grad, result, dim, self.dtype)",
        jvp="log_softmax_jvp(self_t, result, dim)"),
    row("_safe_softmax", "SafeSoftmaxBackward0",
        self="_softmax_backward_data(grad, result, dim, self.dtype)",
        jvp="softmax_jvp(self_t, result, dim)"),
    row("native_dropout", "NativeDropoutBackward0",
        input="native_dropout_backward(grad, result1, "
              "1.0 if not train else 0.0 if p == 1 else 1 / (1 - p))",
        differentiable_outputs=(True, False)),
    row("native_dropout_backward", "NativeDropoutBackwardBackward0",
        grad_output="native_dropout_backward(grad, mask, scale)", mask="None"),
    row("_softmax_backward_data", "SoftmaxBackwardDataBackward0",
        grad_output="_softmax_backward_data(grad, output, dim, input_dtype)",
        output="softmax_double_backward(grad, grad_output, dim, output)"),
    row("_log_softmax_backward_data", "LogSoftmaxBackwardDataBackward0",
        grad_output="grad - aten.sum.dim_IntList(grad * exp(output), [dim], True)",
        output="-aten.sum.dim_IntList(grad_output, [dim], True) * exp(output) * grad"),
    row("_scaled_dot_product_flash_attention_for_cpu",
        "ScaledDotProductFlashAttentionForCpuBackward0",
        {"query, key, value": "attention_gradients(grad, query, key, value, output, logsumexp, "
                              "dropout_p, is_causal, attn_mask, scale)"},
        differentiable_outputs=(True, False)),
]  # fmt: skip
