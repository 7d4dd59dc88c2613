"""Normalisation per channel over the batch, with running statistics.

Source   aten/src/ATen/native/Normalization.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_after
from labkit.ops.layers.layer_norm import statistics_dtype
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]


def per_channel(vector: Array, rank: int) -> Array:
    """[C] in a shape that broadcasts against [N, C, ...]."""
    return vector.reshape(1, -1, *[1] * (rank - 2))


def _update(running: Optional, batch: Array, momentum: float) -> None:
    """One step of a moving average, written without a new version, as PyTorch's kernel does."""
    if running is not None:
        kept = (1 - momentum) * wide(running)
        moved = (kept + momentum * batch).astype(kept.dtype)
        copy.store(running, new_tensor(moved, running.dtype).raw())


@kernel(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
)
def native_batch_norm(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple:
    """Every channel with mean 0 and variance 1, scaled and moved; the mean and 1 / deviation used.

    In training the batch gives the statistics, and the running ones, when there, move towards them
    (the variance unbiased); else the running ones are used and the last two results are empty.
    """
    refuse_unless("batch_norm", input.dtype, ("floating",))
    x = wide(input)
    over = (0, *range(2, x.ndim))
    kept = statistics_dtype(input, weight, bias, running_mean, running_var)
    with np.errstate(all="ignore"):
        if training:
            count = x.size // x.shape[1] if x.shape[1] else 0
            mean = x.mean(axis=over)
            variance = ((x - per_channel(mean, x.ndim)) ** 2).sum(axis=over)
            invstd = 1 / np.sqrt(variance / count + eps)
            _update(running_mean, mean, momentum)
            _update(running_var, variance / (count - 1), momentum)
            saved = new_tensor(mean, kept), new_tensor(invstd, kept)
        else:
            assert running_mean is not None and running_var is not None
            mean = wide(running_mean)
            invstd = 1 / np.sqrt(wide(running_var) + eps)
            saved = new_tensor(np.empty(0), kept), new_tensor(np.empty(0), kept)
        result = (x - per_channel(mean, x.ndim)) * per_channel(invstd, x.ndim)
        if weight is not None:
            result = result * per_channel(wide(weight), x.ndim)
        if bias is not None:
            result = result + per_channel(wide(bias), x.ndim)
    return (new_tensor(result, input.dtype, strides_after(input.sizes, input)), *saved)


@kernel(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, "
    "Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, "
    "bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    variants="",
)
def native_batch_norm_backward(
    grad_out: TensorImpl,
    input: TensorImpl,  # noqa: A002
    weight: Optional,
    running_mean: Optional,
    running_var: Optional,
    save_mean: Optional,
    save_invstd: Optional,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    g, x = wide(grad_out), wide(input)
    rank, over = x.ndim, (0, *range(2, x.ndim))
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, invstd = wide(save_mean), wide(save_invstd)
    else:
        assert running_mean is not None and running_var is not None
        mean, invstd = wide(running_mean), 1 / np.sqrt(wide(running_var) + eps)
    centred = x - per_channel(mean, rank)
    g_sum = g.sum(axis=over)
    dot = (g * centred).sum(axis=over)
    made: list[Optional] = [None, None, None]
    kept = statistics_dtype(input, weight, running_mean, running_var)
    with np.errstate(all="ignore"):
        if output_mask[0]:
            scale = invstd if weight is None else invstd * wide(weight)
            if train:
                count = x.size // x.shape[1] if x.shape[1] else 0
                slope = per_channel(dot * invstd * invstd / count, rank)
                grad = (g - per_channel(g_sum / count, rank)) - centred * slope
            else:
                grad = g
            strides = strides_after(input.sizes, input)
            made[0] = new_tensor(grad * per_channel(scale, rank), input.dtype, strides)
        parameter = weight.dtype if weight is not None else kept
        if output_mask[1]:
            made[1] = new_tensor(dot * invstd, parameter)
        if output_mask[2]:
            made[2] = new_tensor(g_sum, parameter)
    return made[0], made[1], made[2]


@composite(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    variants="function",
)
def batch_norm(
    input: TensorImpl,  # noqa: A002
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> TensorImpl:
    """[N, C, ...] with every channel normalised, scaled by `weight` and moved by `bias`, both [C].

    Raises   RuntimeError   a parameter of another length, or no running statistics to use
    """
    if input.dim() < 2 and input.numel():
        raise RuntimeError(f"batch_norm expects [N, C, ...], got sizes {list(input.sizes)}")
    channels = input.sizes[1] if input.dim() > 1 else 0
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight,
             "bias": bias}  # fmt: skip
    for name, parameter in named.items():
        if parameter is None:
            if not training and name.startswith("running"):
                raise RuntimeError(f"Expected {name} to be defined when training=False")
        elif parameter.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {parameter.numel()}")
    if input.numel() == 0:
        result = aten.clone.default(input)
        if weight is not None:
            result = aten.mul.Tensor(result, aten.select.int(weight, 0, 0))
        if bias is not None:
            result = aten.add.Tensor(result, aten.select.int(bias, 0, 0))
        return result
    return aten.native_batch_norm.default(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]
