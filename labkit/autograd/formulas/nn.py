"""Gradients of convolutions, pooling and softmax, and the gradients of those.

Source   torch/csrc/autograd/FunctionsManual.cpp  max_pool_double_backward, softmax_double_backward
         aten/src/ATen/native/Convolution.cpp  _convolution_double_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten

Ints = Sequence[int]


def convolution_gradients(
    grad: Any,
    input_: Any,
    weight: Any,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    needs: Sequence[bool],
) -> Any:
    """Gradients of input, weight and bias."""  # fmt: skip
    return aten.convolution_backward.default(
        grad, input_, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
        groups, needs,
    )  # fmt: skip


def _added(total: Any, part: Any) -> Any:
    return part if total is None else aten.add.Tensor(total, part)


def convolution_double_backward(
    grads: Sequence[Any],
    grad_output: Any,
    input_: Any,
    weight: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    needs: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Gradients of the gradient of the output, of the input and of the weight.

    grads  of what `convolution_backward` gave for input, weight and bias; each may be None

    A convolution is linear in its input and in its weight, so each part is one again.
    """  # fmt: skip
    on_input, on_weight, on_bias = grads
    window = (stride, padding, dilation, transposed, output_padding, groups)
    back = aten.convolution_backward.default
    output = into = filters = None
    if needs[0]:
        if on_input is not None:
            output = aten.convolution.default(on_input, weight, None, *window)
        if on_weight is not None:
            output = _added(output, aten.convolution.default(input_, on_weight, None, *window))
        if on_bias is not None:
            sizes = (1, -1, *[1] * (input_.dim() - 2))
            shown = aten.expand.default(aten.reshape.default(on_bias, sizes), grad_output.sizes)
            output = _added(output, shown)
    if needs[1] and on_weight is not None:
        wanted = (True, False, False)
        into = back(grad_output, input_, on_weight, None, *window, wanted)[0]
    if needs[2] and on_input is not None:
        wanted = (False, True, False)
        filters = back(grad_output, on_input, weight, None, *window, wanted)[1]
    return output, into, filters


def constant_pad_back(grad: Any, pad: Ints) -> Any:
    """Without what was padded."""
    return aten.constant_pad_nd.default(grad, [-amount for amount in pad], 0)


def max_pool_double_backward(grad: Any, indices: Any) -> Any:
    """What lies where the largest elements were."""
    shape = indices.sizes[:-2]
    if 0 in indices.sizes:
        return aten.reshape.default(
            aten.zeros_like.default(indices, dtype=grad.dtype), indices.sizes
        )
    flat = aten.reshape.default(grad, (*shape, -1))
    found = aten.gather.default(flat, -1, aten.reshape.default(indices, (*shape, -1)))
    return aten.view.default(found, indices.sizes)


def softmax_double_backward(grad: Any, grad_output: Any, dim: int, output: Any) -> Any:
    """The gradient of `output` in the gradient of a softmax."""
    return (
        grad_output * grad
        - aten.sum.dim_IntList(output * grad_output, [dim], True) * grad
        - grad_output * aten.sum.dim_IntList(output * grad, [dim], True)
    )
