"""Gradients of normalisations, and the gradients of those.

All of them make `normal = (x - mean) * rstd` with statistics over some dimensions, then scale and
move it. With u the gradient times the scale, the input's gradient is

    rstd * (u - mean(u) - normal * mean(u * normal))

Source   torch/csrc/autograd/FunctionsManual.cpp  batchnorm_double_backward,
         layer_norm_double_backward
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten

Three = tuple[Any, Any, Any]


def _mean(x: Any, over: Sequence[int]) -> Any:
    return aten.mean.dim(x, over, True)


def _input_gradient(u: Any, normal: Any, rstd: Any, over: Sequence[int]) -> Any:
    """Of what was normalised, from the gradient of `normal`."""
    return rstd * (u - _mean(u, over) - normal * _mean(u * normal, over))


def _double_backward(
    grads: Sequence[Any],
    grad_out: Any,
    normal: Any,
    rstd: Any,
    weight: Any,
    over: Sequence[int] | None,
    parameter_dims: Sequence[int],
) -> Three:
    """Gradients of the gradient of the output, of the input and of the weight.

    grads           of the gradients of input, weight and bias, shaped like `weight` where they
                    are its; each may be None
    weight          None, or shaped to broadcast
    over            dimensions of the statistics; None: they were given, not taken
    parameter_dims  dimensions that the weight does not have
    """
    on_input, on_weight, on_bias = grads
    u = grad_out if weight is None else grad_out * weight
    output = into = filters = None
    toward = None  # the gradient of `normal`
    if on_input is not None:
        if over is None:
            slope = rstd * on_input
        else:
            slope = _input_gradient(on_input, normal, rstd, over)
            count = math.prod(normal.sizes[dim] for dim in over)
            reach, pull = _mean(on_input * normal, over), _mean(u * normal, over)
            toward = -rstd * (on_input * pull + u * reach)
            total = aten.sum.dim_IntList(on_input * (u - _mean(u, over)), over, True)
            into = -(total / count - pull * reach) * rstd * rstd * normal
        output = slope if weight is None else slope * weight
        if weight is not None:
            filters = grad_out * slope
            if parameter_dims:  # an empty list would sum everything
                filters = aten.sum.dim_IntList(filters, parameter_dims, True)
    if on_weight is not None:
        output = on_weight * normal if output is None else output + on_weight * normal
        toward = on_weight * grad_out if toward is None else toward + on_weight * grad_out
    if on_bias is not None:
        shown = aten.expand.default(on_bias, grad_out.sizes)
        output = shown if output is None else output + shown
    if toward is not None:
        part = toward * rstd if over is None else _input_gradient(toward, normal, rstd, over)
        into = part if into is None else into + part
    return output, into, filters


def _shaped(tensor: Any, sizes: Sequence[int]) -> Any:
    return None if tensor is None else aten.reshape.default(tensor, sizes)


def _only(needs: Sequence[bool], *made: Any) -> Three:
    kept = [each if need else None for each, need in zip(made, needs, strict=True)]
    return kept[0], kept[1], kept[2]


def batch_norm_gradients(
    grad: Any,
    input_: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    invstd: Any,
    training: bool,
    eps: float,
    needs: Sequence[bool],
) -> Any:
    """Gradients of input, weight and bias."""  # fmt: skip
    return aten.native_batch_norm_backward.default(
        grad, input_, weight, running_mean, running_var, mean, invstd, training, eps, needs
    )


def batch_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Any,
    input_: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    needs: Sequence[bool],
) -> Three:
    """Gradients of the gradient of the output, of the input and of the weight."""  # fmt: skip
    channels = (1, -1, *[1] * (input_.dim() - 2))
    over = (0, *range(2, input_.dim()))
    if train:
        mean, rstd = save_mean, save_invstd
    else:
        mean = running_mean
        rstd = aten.rsqrt.default(aten.add.Scalar(running_var, eps))
    rstd = _shaped(rstd, channels)
    normal = (input_ - _shaped(mean, channels)) * rstd
    on = [grads[0], _shaped(grads[1], channels), _shaped(grads[2], channels)]
    scale = _shaped(weight, channels)
    statistics = over if train else None
    output, into, filters = _double_backward(on, grad_out, normal, rstd, scale, statistics, over)
    return _only(needs, output, into, _shaped(filters, (-1,)))


def layer_norm_gradients(
    grad: Any,
    input_: Any,
    shape: Sequence[int],
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    needs: Sequence[bool],
) -> Any:
    """Gradients of input, weight and bias."""  # fmt: skip
    return aten.native_layer_norm_backward.default(
        grad, input_, shape, mean, rstd, weight, bias, needs
    )


def layer_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Any,
    input_: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    shape: Sequence[int],
    needs: Sequence[bool],
) -> Three:
    """Gradients of the gradient of the output, of the input and of the weight."""  # fmt: skip
    start = input_.dim() - len(shape)
    over = tuple(range(start, input_.dim()))
    leading = tuple(range(start))
    normal = (input_ - mean) * rstd
    output, into, filters = _double_backward(grads, grad_out, normal, rstd, weight, over, leading)
    return _only(needs, output, into, _shaped(filters, tuple(shape)))
