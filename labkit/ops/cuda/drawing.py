"""Random numbers drawn on the device, by `kernels/random`.

Every function fills `self` in the order its elements lie in memory, and moves the generator on.
Each raises `NoKernel`, before it has drawn, for a type or a device without kernel.

Source   aten/src/ATen/native/cuda/DistributionTemplates.h
"""

from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.device_numbers import BLOCK, grid_for
from labkit.core.dtype import DType
from labkit.core.philox import DeviceGenerator
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_device, shelf, written
from labkit.ops.tensors import copy

STEPS = {
    dtypes.float32: "", dtypes.float64: "double", dtypes.float16: "half",
    dtypes.bfloat16: "bfloat16",
}  # fmt: skip
"""Element type -> the word in which its kernel's name ends."""


def launch(
    ladder: tuple[str, str, str],
    generator: DeviceGenerator,
    count: int,
    arguments: Any,
    settings: tuple[Any, ...],
    unroll: int = 4,
) -> None:
    """Queue a kernel of the shelf that draws: arguments, count, seed, offset, settings.

    ladder     folder, file and step of the kernel
    arguments  called for its first arguments when the kernel is there
    unroll     numbers that a thread makes in a turn
    """
    kernel = shelf(*ladder)
    grid = grid_for(count, unroll)
    seed, offset = generator.take(grid.increment)
    kernel((grid.threads // BLOCK,), (BLOCK,), (*arguments(), count, seed, offset, *settings))


def uniform(self: TensorImpl, generator: DeviceGenerator, low: float, high: float) -> None:
    """Uniform in [low, high)."""
    step = f"uniform_{_step_of(self)}" if self.dtype is not dtypes.float32 else ""
    _fill(self, self.dtype, step, generator, (float(low), float(high)))


def normal(self: TensorImpl, generator: DeviceGenerator, mean: float, std: float) -> None:
    """Normal."""
    step = f"normal_{_step_of(self)}".rstrip("_")
    _fill(self, self.dtype, step, generator, (float(mean), float(std)))


def bernoulli(self: TensorImpl, generator: DeviceGenerator, p: float) -> None:
    """1 with probability p, else 0."""
    step = "bernoulli_double" if self.dtype is dtypes.float64 else "bernoulli"
    _fill(self, dtypes.bool_, step, generator, (float(p),))


def whole(self: TensorImpl, generator: DeviceGenerator, low: int, span: int, wide: bool) -> None:
    """Whole numbers from low to before low + span.

    wide  of words of 64 bits, else of 32
    """
    step = "whole_wide" if wide else "whole"
    _fill(self, dtypes.int64, step, generator, (low, span % (1 << 64)))


def _step_of(self: TensorImpl) -> str:
    if self.dtype not in STEPS:
        raise NoKernel(f"its kernel makes floating numbers, not {self.dtype.name}")
    return STEPS[self.dtype]


def _fill(
    self: TensorImpl, made_as: DType, step: str, generator: DeviceGenerator, settings: Any
) -> None:
    check_device(self)
    in_place = self.dtype is made_as and self.is_non_overlapping_and_dense
    made = self if in_place else copy.empty_like(self, dtype=made_as)
    unroll = 2 if step.endswith(("double", "wide")) else 4
    ladder = ("random", "1_grid_stride", step)
    launch(ladder, generator, made.numel(), lambda: (written(made),), settings, unroll)
    if in_place:
        self.bump_version()
    else:
        copy.copy_(self, made)
