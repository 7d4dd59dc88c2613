"""Numbers of a distribution from the host's generator, in the order PyTorch draws them.

Every function takes the generator, how many numbers, and the element type they are for, and
answers a flat NumPy array in a type that holds the values exactly.

Source   aten/src/ATen/native/cpu/DistributionTemplates.h
         aten/src/ATen/core/DistributionsHelper.h
         aten/src/ATen/core/TransformationHelper.h
Differs  `bernoulli` is PyTorch's on processors that are not Intel's, where PyTorch does not hand
         it to MKL
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.formats import decode, encode
from labkit.core.generator import CPUGenerator
from labkit.ops.cpu_capability import multiply_add
from labkit.ops.random import box_muller
from labkit.ops.random.box_muller import each

Array = NDArray[Any]

DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}
"""Bits of a uniform number that each type holds."""
BLOCK = 16
"""From so many contiguous elements on, normal numbers are made in blocks."""


def rounded(values: Array, dtype: DType) -> Array:
    """The values as `dtype` holds them; the two small types are reached through float32."""
    through = values.astype(np.float32) if dtype.itemsize == 2 else values
    return decode(encode(through, dtype), dtype)


def unit_doubles(generator: CPUGenerator, count: int) -> NDArray[np.float64]:
    """Uniform in [0, 1), 53 bits each."""
    bits = generator.random64(count) & np.uint64((1 << 53) - 1)
    return bits.astype(np.float64) * np.float64(2.0**-53)


def unit_singles(generator: CPUGenerator, count: int) -> NDArray[np.float32]:
    """Uniform in [0, 1), 24 bits each."""
    bits = generator.random(count) & np.uint32((1 << 24) - 1)
    return bits.astype(np.float32) * np.float32(2**-24)


def uniform(
    generator: CPUGenerator, count: int, dtype: DType, low: float = 0.0, high: float = 1.0
) -> Array:
    """Uniform in [low, high)."""
    if dtype is dtypes.float64:
        return multiply_add(unit_doubles(generator, count), high - low, low, np.float64)
    start, end = np.float32(low), np.float32(high)
    values = multiply_add(unit_singles(generator, count), end - start, start)
    if dtype is dtypes.float32:
        return values
    values = rounded(values, dtype)  # may round up to the end, which is not in the range
    first, last = rounded(np.array([start, end]), dtype)
    return np.where(values >= last, first, values) if last > first else values


def normal(
    generator: CPUGenerator, count: int, dtype: DType, mean: float, std: float, in_blocks: bool
) -> Array:
    """Normal numbers.

    in_blocks  the elements are contiguous: from 16 on they are made eight pairs at a time
    """
    if not in_blocks or count < BLOCK:
        return rounded(normal_doubles(generator, count, mean, std), dtype)
    # float32 and float64 draw for everything and then once more for the rest; the smaller types
    # draw block by block.
    drawn = count if DIGITS[dtype] >= 24 else count // BLOCK * BLOCK
    make: Any = (unit_doubles, box_muller.doubles)
    if dtype is not dtypes.float64:
        make = (unit_singles, box_muller.singles)
    units, pairs = make
    first = units(generator, drawn)[: count // BLOCK * BLOCK]
    values = _blocks(first, pairs, mean, std)
    if count % BLOCK:
        last = _blocks(units(generator, BLOCK), pairs, mean, std)
        values = np.concatenate([values[: count - BLOCK], last])
    return rounded(values, dtype)


def _blocks(units: Array, pairs: Any, mean: float, std: float) -> Array:
    halves = units.reshape(-1, 2, BLOCK // 2)
    made = pairs(halves[:, 0], halves[:, 1], mean, std)
    return np.stack(made, axis=1).ravel()


def normal_doubles(generator: CPUGenerator, count: int, mean: float, std: float) -> Array:
    """Normal numbers one after the other, two from every pair; an odd one waits for the next call.

    Source   aten/src/ATen/core/DistributionsHelper.h  normal_distribution
    """
    waiting = generator.next_double_normal
    if count == 0:
        return np.empty(0)
    pairs = (count - (waiting is not None) + 1) // 2
    units = unit_doubles(generator, 2 * pairs)
    radius = np.sqrt(-2 * each(math.log1p, -units[1::2]))
    theta = 2 * math.pi * units[0::2]
    both = np.stack([radius * each(math.cos, theta), radius * each(math.sin, theta)], axis=1)
    standard = both.ravel() if waiting is None else np.concatenate([[waiting], both.ravel()])
    generator.next_double_normal = float(standard[count]) if len(standard) > count else None
    return multiply_add(standard[:count], std, mean, np.float64)


def bernoulli(generator: CPUGenerator, count: int, probability: float) -> NDArray[np.bool_]:
    """True with one probability for all."""
    result: NDArray[np.bool_] = unit_doubles(generator, count) < probability
    return result


def integers(generator: CPUGenerator, count: int, span: int, base: int) -> NDArray[np.int64]:
    """Whole numbers from base to before base + span; spans from 2 to the 28 on draw 64 bits."""
    if span >= 1 << 28:
        drawn = generator.random64(count)
    else:
        drawn = generator.random(count).astype(np.uint64)
    shifted = drawn % np.uint64(span) + np.uint64(base % (1 << 64))  # wraps as 64 bits do
    return shifted.view(np.int64)


def full_range(generator: CPUGenerator, count: int, dtype: DType) -> NDArray[np.uint64]:
    """Whole numbers from 0 to the largest that the type holds without a gap."""
    if dtype is dtypes.float64 or dtype.itemsize == 8:
        drawn = generator.random64(count)
    else:
        drawn = generator.random(count).astype(np.uint64)
    if dtype.is_floating_point:
        return drawn % np.uint64((1 << DIGITS[dtype]) + 1)
    return drawn & np.uint64(1 if dtype.kind == "bool" else np.iinfo(dtype.raw).max)
