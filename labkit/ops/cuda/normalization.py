"""Layer norm of float32, batch norm of float32 and halves, by the kernels of `kernels/`.

Source   aten/src/ATen/native/cuda/layer_norm_kernel.cu, Normalization.cu
"""

import math
from collections.abc import Sequence

from labkit.core import dtype as dtypes
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.convolution.windows import strides_after
from labkit.ops.cuda.launching import (
    STEPS,
    NoKernel,
    check_device,
    check_floats,
    check_floats_or_halves,
    empty,
    read,
    shelf,
    written,
)
from labkit.ops.cuda.layouts import laid_out, packed
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.layers.layer_norm import check_normalized, statistics_dtype
from labkit.ops.pointwise.pointwise import OPERATORS, wrapped_number
from labkit.ops.tensors import copy

THREADS = 128
SPLITS = 4
"""Blocks that share the rows of a column of dgamma and dbeta."""

Optional = TensorImpl | None
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]
Optionals = tuple[Optional, Optional, Optional]


@device_kernel("native_layer_norm")
def native_layer_norm(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    normalized_shape: Sequence[int],
    weight: Optional,
    bias: Optional,
    eps: float,
) -> Triple:
    """The last dimensions normalised; the mean and 1 / deviation, size 1 where they were taken."""
    rows, cols = check_normalized(input, normalized_shape, weight=weight, bias=bias)
    check_floats(input, weight, bias)
    kept = input.sizes[: input.dim() - len(normalized_shape)] + (1,) * len(normalized_shape)
    y, mean, rstd = empty(input.sizes, input), empty(kept, input), empty(kept, input)
    if not input.numel():
        raise NoKernel("its kernel takes at least one element")
    x, gamma, beta = copy.contiguous(input), packed(weight), packed(bias)
    outputs = [written(each) for each in (y, mean, rstd)]
    shelf("layer_norm", "3_welford")(
        (rows,), (THREADS,), (read(x), read(gamma), read(beta), *outputs, rows, cols, eps)
    )
    return y, mean, rstd


@device_kernel("native_layer_norm_backward")
def native_layer_norm_backward(
    grad_out: TensorImpl,
    input: TensorImpl,  # noqa: A002
    normalized_shape: Sequence[int],
    mean: TensorImpl,
    rstd: TensorImpl,
    weight: Optional,
    bias: Optional,
    output_mask: Sequence[bool],
) -> Optionals:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    rows, cols = check_normalized(input, normalized_shape, weight=weight, bias=bias)
    check_floats(grad_out, input, mean, rstd, weight)
    if not input.numel():
        raise NoKernel("its kernel takes at least one element")
    dy, x, gamma = copy.contiguous(grad_out), copy.contiguous(input), packed(weight)
    op, rung = "layer_norm_backward", "2_no_atomics"
    statistics = (read(copy.contiguous(mean)), read(copy.contiguous(rstd)))
    made: list[Optional] = [None, None, None]
    if output_mask[0]:
        dx = made[0] = empty(input.sizes, input)
        into = written(dx)
        arguments = (read(dy), read(x), read(gamma), *statistics, into, rows, cols)
        shelf(op, rung)((rows,), (THREADS,), arguments)
    parameters = [(1, weight), (2, bias)]
    wanted = [i for i, each in parameters if output_mask[i] and each is not None]
    if wanted:
        partial = empty((2, SPLITS, cols), input)
        kernel, into = shelf(op, rung, "weights"), written(partial)
        geometry = kernel.geometry(cols=cols, splits=SPLITS)
        kernel(*geometry, (read(dy), read(x), *statistics, into, rows, cols))
        for i in wanted:
            made[i] = empty(normalized_shape, input)
        sums = [None if each is None else written(each) for each in made[1:]]
        kernel = shelf(op, rung, "finish")
        kernel(*kernel.geometry(cols=cols), (read(partial), *sums, SPLITS, cols))
    return made[0], made[1], made[2]


def _planes(input_: TensorImpl) -> Ints:
    """N, C, and how many elements a channel of a sample has.

    Raises   NoKernel   there are none
    """
    if not input_.numel():
        raise NoKernel("its kernel takes at least one element")
    n, c, *rest = input_.sizes
    return n, c, math.prod(rest)


def _vector(length: int, input_: TensorImpl) -> TensorImpl:
    """One number for each channel; halves have theirs in float32."""
    return empty((length,), input_, dtypes.float32)


def _check_images(
    images: Sequence[TensorImpl], parameters: Sequence[Optional], saved: Sequence[Optional] = ()
) -> None:
    """Pass for images of one type that kernels read, and float32 for what a channel has one of.

    Raises   NoKernel   another type, or halves alone, whose statistics are halves as well
    """
    check_floats_or_halves(*images)
    check_device(*images, *parameters, *saved)
    if statistics_dtype(images[0], *parameters) is not dtypes.float32:
        raise NoKernel(f"its kernel keeps statistics in float32, not {images[0].dtype.name}")
    given = [each for each in (*parameters, *saved) if each is not None]
    if given:
        check_floats(*given)


@device_kernel("native_batch_norm")
def native_batch_norm(
    input: TensorImpl,  # noqa: A002
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple:
    """Every channel with mean 0 and variance 1, scaled and moved; the mean and 1 / deviation used.

    In training the running statistics move towards the batch's, without a new version.
    """
    _check_images([input], [weight, bias, running_mean, running_var])
    n, c, spatial = _planes(input)
    x, y = copy.contiguous(input), empty(input.sizes, input)
    parameters = (read(packed(weight)), read(packed(bias)))
    strides = strides_after(input.sizes, input)
    if training:
        mean, rstd = _vector(c, input), _vector(c, input)
        moved = [each if each is None else written(each) for each in (running_mean, running_var)]
        outputs = [written(each) for each in (y, mean, rstd)]
        shelf("batch_norm", "2_welford", STEPS[input.dtype])(
            (c,), (THREADS,),
            (read(x), *parameters, *moved, *outputs, n, c, spatial, momentum, eps),
        )  # fmt: skip
        return laid_out(y, strides), mean, rstd
    if running_mean is None or running_var is None:
        raise NoKernel("there are no running statistics")
    kernel = shelf("batch_norm_inference", "2_per_plane", STEPS[input.dtype])
    running = (read(packed(running_mean)), read(packed(running_var)))
    kernel((n * c,), (64,), (read(x), *parameters, *running, written(y), n, c, spatial, eps))
    return laid_out(y, strides), _vector(0, input), _vector(0, input)


@device_kernel("native_batch_norm_backward")
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
) -> Optionals:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    _check_images([grad_out, input], [weight, running_mean, running_var], [save_mean, save_invstd])
    n, c, spatial = _planes(input)
    mean, rstd = (save_mean, save_invstd) if train else (running_mean, running_var)
    if mean is None or rstd is None:
        raise NoKernel("there are no statistics")
    if not train:
        moved = OPERATORS["add.Tensor"].functional(rstd, wrapped_number(eps))
        rstd = OPERATORS["rsqrt"].functional(moved)
    dy, x, gamma = copy.contiguous(grad_out), copy.contiguous(input), packed(weight)
    made = empty(input.sizes, input), _vector(c, input), _vector(c, input)
    outputs = [written(each) for each in made]
    statistics = (read(copy.contiguous(mean)), read(copy.contiguous(rstd)))
    shelf("batch_norm_backward", "1_block_per_channel", STEPS[input.dtype])(
        (c,), (THREADS,),
        (read(dy), read(x), read(gamma), *statistics, *outputs, n, c, spatial, train),
    )  # fmt: skip
    dx, dgamma, dbeta = made
    return (
        laid_out(dx, strides_after(input.sizes, input)) if output_mask[0] else None,
        dgamma if output_mask[1] else None,
        dbeta if output_mask[2] else None,
    )
