"""Channels moved into space and back.

Source   aten/src/ATen/native/PixelShuffle.cpp
"""

import math

from labkit.core.memory_format import strides_for, suggest_memory_format
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.registration import kernel


def _check(name: str, self: TensorImpl, factor: int) -> None:
    if self.dim() < 3:
        raise RuntimeError(f"{name} expects input to have at least 3 dimensions, got {self.dim()}")
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive factor, got {factor}")


@kernel("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", variants="function")
def pixel_shuffle(self: TensorImpl, upscale_factor: int) -> TensorImpl:
    """[*, C * r * r, H, W] is [*, C, H * r, W * r]."""
    _check("pixel_shuffle", self, upscale_factor)
    r = upscale_factor
    *batch, channels, height, width = self.sizes
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    blocks = self.raw().reshape(math.prod(batch), channels // (r * r), r, r, height, width)
    raw = blocks.transpose(0, 1, 4, 2, 5, 3)
    raw = raw.reshape(*batch, channels // (r * r), height * r, width * r)
    layout = suggest_memory_format(self.sizes, self.strides)
    return new_raw(raw, self.dtype, strides_for(raw.shape, layout))


@kernel("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", variants="function")
def pixel_unshuffle(self: TensorImpl, downscale_factor: int) -> TensorImpl:
    """[*, C, H * r, W * r] is [*, C * r * r, H, W]."""
    _check("pixel_unshuffle", self, downscale_factor)
    r = downscale_factor
    *batch, channels, height, width = self.sizes
    for name, back, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({back})={size} is not divisible by {r}"
            )
    blocks = self.raw().reshape(math.prod(batch), channels, height // r, r, width // r, r)
    raw = blocks.transpose(0, 1, 3, 5, 2, 4)
    raw = raw.reshape(*batch, channels * r * r, height // r, width // r)
    layout = suggest_memory_format(self.sizes, self.strides)
    return new_raw(raw, self.dtype, strides_for(raw.shape, layout))
