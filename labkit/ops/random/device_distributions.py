"""Random numbers for tensors on a device, by the rules of PyTorch's CUDA kernels.

The grid of such a kernel decides which thread fills which element, and with that the numbers: 256
threads per block, so many blocks as fit on the device at once, four numbers per thread and turn.
The numbers are made on the host and copied over.

Source   aten/src/ATen/native/cuda/DistributionTemplates.h
         distribution_elementwise_grid_stride_kernel, calc_execution_policy
Differs  logarithm, sine and cosine are the host's, the device's differ in last bits; the number of
         multiprocessors is that of `MULTIPROCESSORS` unless the caller says otherwise
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import generator as generators
from labkit.core.device import Device
from labkit.core.generator import Generator
from labkit.core.memory_overlap import assert_no_internal_overlap
from labkit.core.philox import DeviceGenerator, random4
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.random import distributions
from labkit.ops.random.distributions import generator_for, in_memory_order
from labkit.ops.registration import DEVICES, kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]
BLOCK = 256
THREADS_PER_MULTIPROCESSOR = 2048
MULTIPROCESSORS = 132
"""Of an H100 or H200."""


for _type in ("cuda", "lab"):
    generators.register_generator(_type, DeviceGenerator)


@dataclass(frozen=True)
class Grid:
    """How many threads a kernel over so many elements has, and how many numbers each draws.

    unroll  numbers of one call that become elements: 4, or 2 for float64
    """

    threads: int
    turns: int
    unroll: int

    @property
    def increment(self) -> int:
        """By how much the generator's offset moves."""
        return self.turns * 4


def grid_for(count: int, unroll: int = 4, multiprocessors: int = MULTIPROCESSORS) -> Grid:
    """The grid PyTorch launches over `count` elements."""
    blocks = (count + BLOCK - 1) // BLOCK
    blocks = max(min(blocks, multiprocessors * (THREADS_PER_MULTIPROCESSOR // BLOCK)), 1)
    threads = blocks * BLOCK
    return Grid(threads, (count - 1) // (threads * unroll) + 1, unroll)


def draw(
    generator: DeviceGenerator, count: int, convert: Callable[[Array], Array], unroll: int = 4
) -> Array:
    """`count` numbers in the order of the elements.

    convert  [threads, 4] words to [threads, unroll] numbers
    """
    grid = grid_for(count, unroll)
    seed, offset = generator.take(grid.increment)
    threads = np.arange(grid.threads, dtype=np.uint64)
    made = np.concatenate(
        [convert(random4(seed, threads, offset + 4 * turn)).T.ravel() for turn in range(grid.turns)]
    )
    return made[:count]


def unit_singles(words: Array) -> Array:
    """Uniform in (0, 1], as curand_uniform4 makes them.

    Source   curand_uniform.h  _curand_uniform
    """
    return (words.astype(np.float32) * np.float32(2**-32)) + np.float32(2**-33)


def unit_doubles(words: Array) -> Array:
    """Uniform in (0, 1], two numbers of 53 bits from four words.

    Source   curand_uniform.h  _curand_uniform_double_hq
    """
    low, high = words[:, 0::2].astype(np.uint64), words[:, 1::2].astype(np.uint64)
    bits = low ^ (high << np.uint64(21))
    result: Array = bits.astype(np.float64) * 2.0**-53 + 2.0**-54
    return result


def normal_pairs(uniform: Array, angles: Array) -> Array:
    """Sine first, then cosine, of Box and Muller's pairs.

    Source   curand_normal.h  _curand_box_muller
    """
    radius = np.sqrt(uniform.dtype.type(-2) * np.log(uniform))
    both = np.stack([radius * np.sin(angles), radius * np.cos(angles)], axis=-1)
    return both.reshape(len(uniform), -1)


def normal_singles(words: Array) -> Array:
    """Four normal numbers from four words."""
    two_pi = np.float32(2 * np.pi)
    scale, half = np.float32(2**-32) * two_pi, np.float32(2**-33) * two_pi
    angles = words[:, 1::2].astype(np.float32) * scale + half
    return normal_pairs(unit_singles(words[:, 0::2]), angles)


def normal_doubles(words: Array) -> Array:
    """Two normal numbers from four words."""
    uniform = unit_doubles(words)
    return normal_pairs(uniform[:, :1], uniform[:, 1:] * (2 * np.pi))


def _fill(self: TensorImpl, flat: Array) -> TensorImpl:
    assert_no_internal_overlap(self.sizes, self.strides)
    fallback.note("random numbers", "they are made on the host, by the device's rules")
    copy.write(self, in_memory_order(self, flat))
    self.bump_version()
    return self


def _unit(self: TensorImpl, generator: Generator | None) -> Array:
    source = generator_for(generator, self)
    if self.dtype is dtypes.float64:
        return draw(source, self.numel(), unit_doubles, 2)
    return draw(source, self.numel(), unit_singles)


def uniform_(
    self: TensorImpl, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element uniform in [low, high): the end that is drawn becomes the start."""
    distributions.check_uniform(self, low, high)
    if not self.numel():
        return self
    values = _unit(self, generator)
    start, end = values.dtype.type(low), values.dtype.type(high)
    scaled = values * (end - start) + start
    return _fill(self, np.where(scaled == end, start, scaled))


def normal_(
    self: TensorImpl, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element normal."""
    distributions.check_std(std)
    distributions.refuse_unless_floating("normal_kernel_cuda", self.dtype)
    if not self.numel():
        return self
    source = generator_for(generator, self)
    if self.dtype is dtypes.float64:
        values = draw(source, self.numel(), normal_doubles, 2)
    else:
        values = draw(source, self.numel(), normal_singles)
    return _fill(self, values * values.dtype.type(std) + values.dtype.type(mean))


def bernoulli_(
    self: TensorImpl, p: float = 0.5, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element 1 with probability p, else 0."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if not self.numel():
        return self
    return _fill(self, draw(generator_for(generator, self), self.numel(), unit_singles) < p)


def _words(words: Array) -> Array:
    return words.astype(np.uint64)


def _long_words(words: Array) -> Array:
    first, second = words[:, 0::2].astype(np.uint64), words[:, 1::2].astype(np.uint64)
    return (first << np.uint64(32)) | second


def random_from_(
    self: TensorImpl, low: int, high: int | None, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element a whole number from low to before high."""
    if high is None:
        raise NotImplementedError("random_ without an upper bound has no rule for devices here")
    distributions.random_bounds(self, low, high)
    if not self.numel():
        return self
    source, span = generator_for(generator, self), high - low
    if span >= 1 << 28:
        drawn = draw(source, self.numel(), _long_words, 2)
    else:
        drawn = draw(source, self.numel(), _words)
    shifted = drawn % np.uint64(span) + np.uint64(low % (1 << 64))
    return _fill(self, shifted.view(np.int64))


_FILLERS: dict[str, tuple[Any, Any]] = {
    "uniform_": (distributions.uniform_, uniform_),
    "normal_": (distributions.normal_, normal_),
    "bernoulli_.float": (distributions.bernoulli_, bernoulli_),
    "random_.from": (distributions.random_from_, random_from_),
}
for _name, (_, _on_device) in _FILLERS.items():
    for _key in DEVICES:
        kernel(_name, _key)(_on_device)


def filler(name: str, device: Device) -> Any:
    """The kernel of an in-place operator for tensors on a device."""
    return _FILLERS[name][device.type != "cpu"]
