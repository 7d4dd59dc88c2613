"""Dropout in one pass over its input, by `kernels/dropout`.

Source   aten/src/ATen/native/cuda/Dropout.cu  native_dropout_cuda, fused_dropout_kernel
Differs  every thread draws for elements a grid's width apart; PyTorch does so too, except where the
         number of elements is even: there a thread draws for neighbours
"""

from labkit.core import dtype as dtypes
from labkit.core.generator import Generator
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda import copying, drawing
from labkit.ops.cuda.launching import NoKernel, check_device, read, written
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.random.distributions import generator_for
from labkit.ops.tensors import copy


@device_kernel("native_dropout")
def native_dropout(
    input: TensorImpl,  # noqa: A002
    p: float,
    train: bool | None,
    *,
    generator: Generator | None = None,
) -> tuple[TensorImpl, TensorImpl]:
    """The input with elements dropped, and the mask of those that stayed.

    generator  the device's default one by default
    """
    check_device(input)
    if input.dtype not in drawing.STEPS:
        raise NoKernel(f"its kernel takes floating numbers, not {input.dtype.name}")
    mask = copy.empty_like(input, dtype=dtypes.bool_)
    if train is False:
        copying.fill(mask, True)
        return copy.clone(input), mask
    result = copy.empty_like(input)
    if p == 1 or not input.numel():
        copying.fill(mask, False)
        copying.fill(result, 0)
        return result, mask
    source = input if input.is_non_overlapping_and_dense else copy.clone(input)
    drawing.launch(
        ("dropout", "1_one_pass", drawing.STEPS[input.dtype]),
        generator_for(generator, input), input.numel(),
        lambda: (read(source), written(result), written(mask)), (1 - p, 1 / (1 - p)),
    )  # fmt: skip
    return result, mask
