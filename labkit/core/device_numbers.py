"""Numbers of a distribution from a device's generator, made on the host, by PyTorch's CUDA rules.

The grid of a kernel decides which thread fills which element, and with that the numbers: 256
threads per block, so many blocks as fit on the device at once, four numbers per thread and turn.

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

from labkit.core.philox import DeviceGenerator, random4

Array = NDArray[Any]
BLOCK = 256
THREADS_PER_MULTIPROCESSOR = 2048
MULTIPROCESSORS = 132
"""Of an H100 or H200."""


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


def words(drawn: Array) -> Array:
    """Whole numbers of 32 bits."""
    return drawn.astype(np.uint64)


def long_words(drawn: Array) -> Array:
    """Whole numbers of 64 bits, each of two words: the first is the upper half."""
    first, second = drawn[:, 0::2].astype(np.uint64), drawn[:, 1::2].astype(np.uint64)
    return (first << np.uint64(32)) | second
