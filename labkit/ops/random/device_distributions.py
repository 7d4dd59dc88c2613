"""Random numbers for tensors on a device, by the rules of PyTorch's CUDA kernels.

`kernels/random` draws them. On a device that kernels do not run on, a learner's own for instance,
the host makes the same numbers and copies them over.

Source   aten/src/ATen/native/cuda/DistributionTemplates.h
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.core import device_numbers as numbers
from labkit.core import dtype as dtypes
from labkit.core import generator as generators
from labkit.core.device import Device
from labkit.core.device_numbers import Array
from labkit.core.generator import Generator
from labkit.core.memory_overlap import assert_no_internal_overlap
from labkit.core.philox import DeviceGenerator
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.arrays import refuse_unless
from labkit.ops.cuda import drawing
from labkit.ops.fallback import NoKernel
from labkit.ops.random import distributions
from labkit.ops.random.distributions import generator_for, in_memory_order
from labkit.ops.registration import DEVICES, kernel
from labkit.ops.tensors import copy

for _type in ("cuda", "lab"):
    generators.register_generator(_type, DeviceGenerator)


def _drawn(
    self: TensorImpl,
    generator: Generator | None,
    on_device: Callable[[DeviceGenerator], None],
    on_host: Callable[[DeviceGenerator], Array],
) -> TensorImpl:
    """The tensor filled, by the device where it has a kernel."""
    assert_no_internal_overlap(self.sizes, self.strides)
    if not self.numel():
        return self
    source = generator_for(generator, self)
    try:
        on_device(source)
    except NoKernel as missing:
        why = f"{missing}: they are made on the host, by the device's rules"
        fallback.note("random numbers", why)
        copy.write(self, in_memory_order(self, on_host(source)))
        self.bump_version()
    return self


def uniform_(
    self: TensorImpl, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element uniform in [low, high): the end that is drawn becomes the start."""
    distributions.check_uniform(self, low, high)

    def on_host(source: DeviceGenerator) -> Array:
        values = _floats(self, source, numbers.unit_singles, numbers.unit_doubles)
        start, end = values.dtype.type(low), values.dtype.type(high)
        scaled = values * (end - start) + start
        return np.where(scaled == end, start, scaled)

    return _drawn(self, generator, lambda source: drawing.uniform(self, source, low, high), on_host)


def normal_(
    self: TensorImpl, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element normal."""
    distributions.check_std(std)
    refuse_unless("normal_kernel_cuda", self.dtype, ("floating",))

    def on_host(source: DeviceGenerator) -> Array:
        values = _floats(self, source, numbers.normal_singles, numbers.normal_doubles)
        scaled: Array = values * values.dtype.type(std) + values.dtype.type(mean)
        return scaled

    return _drawn(self, generator, lambda source: drawing.normal(self, source, mean, std), on_host)


def bernoulli_(
    self: TensorImpl, p: float = 0.5, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element 1 with probability p, else 0."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")

    def on_host(source: DeviceGenerator) -> Array:
        return _floats(self, source, numbers.unit_singles, numbers.unit_doubles) < p

    return _drawn(self, generator, lambda source: drawing.bernoulli(self, source, p), on_host)


def random_from_(
    self: TensorImpl, low: int, high: int | None, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element a whole number from low to before high; to the type's largest without one."""
    low, high = distributions.random_bounds(self, low, high)
    return _whole(self, generator, low, high - low, high - low >= 1 << 28)


def random_to_(self: TensorImpl, high: int, *, generator: Generator | None = None) -> TensorImpl:
    """Every element a whole number from 0 to before high."""
    return random_from_(self, 0, high, generator=generator)


def random_(self: TensorImpl, *, generator: Generator | None = None) -> TensorImpl:
    """Every element a whole number from 0 to the largest the type holds without a gap."""
    span = 1 + distributions.largest_whole(self.dtype)
    return _whole(self, generator, 0, span, self.dtype in (dtypes.int64, dtypes.float64))


def _whole(
    self: TensorImpl, generator: Generator | None, low: int, span: int, wide: bool
) -> TensorImpl:
    def on_host(source: DeviceGenerator) -> Array:
        drawn = (
            numbers.draw(source, self.numel(), numbers.long_words, 2)
            if wide
            else numbers.draw(source, self.numel(), numbers.words)
        )
        inside = drawn % np.uint64(span) if span < 1 << 64 else drawn
        shifted = inside + np.uint64(low % (1 << 64))
        return shifted.view(np.int64)

    return _drawn(
        self, generator, lambda source: drawing.whole(self, source, low, span, wide), on_host
    )


def _floats(self: TensorImpl, source: DeviceGenerator, singles: Any, doubles: Any) -> Array:
    if self.dtype is dtypes.float64:
        return numbers.draw(source, self.numel(), doubles, 2)
    return numbers.draw(source, self.numel(), singles)


_FILLERS: dict[str, tuple[Any, Any]] = {
    "uniform_": (distributions.uniform_, uniform_),
    "normal_": (distributions.normal_, normal_),
    "bernoulli_.float": (distributions.bernoulli_, bernoulli_),
    "random_.from": (distributions.random_from_, random_from_),
    "random_.to": (distributions.random_to_, random_to_),
    "random_": (distributions.random_, random_),
}
for _name, (_, _on_device) in _FILLERS.items():
    for _key in DEVICES:
        kernel(_name, _key)(_on_device)


def filler(name: str, device: Device) -> Any:
    """The kernel of an in-place operator for tensors on a device."""
    return _FILLERS[name][device.type != "cpu"]
