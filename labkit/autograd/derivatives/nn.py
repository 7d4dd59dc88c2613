"""Derivatives of layers: convolutions, pooling, norms, softmax."""

from labkit.autograd.derivatives.row import Row, row

WINDOW = "stride, padding, dilation, transposed, output_padding, groups"
KERNEL = "kernel_size, stride, padding, dilation, ceil_mode"
MEANS = "kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override"

ROWS: list[Row] = [
    row("convolution", "ConvolutionBackward0",
        {"input, weight, bias": "convolution_backward(grad, input, weight, bias.sizes, "
                                f"{WINDOW}, needs)"}),
    row("max_pool2d_with_indices", "MaxPool2DWithIndicesBackward0",
        self=f"max_pool2d_with_indices_backward(grad, self, {KERNEL}, result1)",
        differentiable_outputs=(True, False)),
    row("avg_pool2d", "AvgPool2DBackward0", self=f"avg_pool2d_backward(grad, self, {MEANS})"),
    row("_adaptive_avg_pool2d", "AdaptiveAvgPool2DBackward0",
        self="_adaptive_avg_pool2d_backward(grad, self)"),
    row("native_batch_norm", "NativeBatchNormBackward0",
        {"input, weight, bias": "native_batch_norm_backward(grad, input, weight, running_mean, "
                                "running_var, result1, result2, training, eps, needs)"},
        differentiable_outputs=(True, False, False)),
    row("native_layer_norm", "NativeLayerNormBackward0",
        {"input, weight, bias": "native_layer_norm_backward(grad, input, normalized_shape, "
                                "result1, result2, weight, bias, needs)"},
        differentiable_outputs=(True, False, False)),
    row("_softmax", "SoftmaxBackward0",
        self="_softmax_backward_data(grad, result, dim, self.dtype)"),
    row("_log_softmax", "LogSoftmaxBackward0",
        self="_log_softmax_backward_data(grad, result, dim, self.dtype)"),
    row("native_dropout", "NativeDropoutBackward0",
        input="native_dropout_backward(grad, result1, "
              "1.0 if not train else 0.0 if p == 1 else 1 / (1 - p))",
        differentiable_outputs=(True, False)),
    row("_softmax_backward_data", "SoftmaxBackwardDataBackward0",
        grad_output="_softmax_backward_data(grad, output, dim, input_dtype)",
        output="softmax_double_backward(grad, grad_output, dim, output)"),
    row("_log_softmax_backward_data", "LogSoftmaxBackwardDataBackward0",
        grad_output="grad - aten.sum.dim_IntList(grad * exp(output), [dim], True)",
        output="-aten.sum.dim_IntList(grad_output, [dim], True) * exp(output) * grad"),
]  # fmt: skip
