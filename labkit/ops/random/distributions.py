"""Operators that fill a tensor with random numbers, on the host.

The numbers go into the elements in the order in which PyTorch's iterator walks them: that of
memory, whatever the order of the dimensions.

Source   aten/src/ATen/native/Distributions.cpp
         aten/src/ATen/native/DistributionTemplates.h
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core.dtype import DType
from labkit.core.formats import largest_finite
from labkit.core.generator import CPUGenerator, Generator, default_generator
from labkit.core.memory_overlap import assert_no_internal_overlap
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import refuse_unless
from labkit.ops.iterator.iteration_order import iteration_order
from labkit.ops.random import cpu_distributions
from labkit.ops.registration import kernel
from labkit.ops.shape import reinterpret
from labkit.ops.tensors import copy

Array = NDArray[Any]
Draw = Callable[[CPUGenerator, int], Array]


def generator_for(generator: Generator | None, self: TensorImpl) -> Any:
    """The given generator, or the default one of the tensor's device.

    Raises   RuntimeError   a generator of another type of device
    """
    if generator is None:
        return default_generator(self.device)
    if generator.device.type != self.device.type:
        raise RuntimeError(
            f"Expected a '{self.device.type}' device type for generator but found "
            f"'{generator.device.type}'"
        )
    return generator


def in_memory_order(self: TensorImpl, flat: Array) -> Array:
    """Numbers in the order the elements lie in memory, as an array of the tensor's sizes."""
    slowest_first = iteration_order(self.sizes, [self.strides])[::-1]
    laid_out = flat.reshape([self.sizes[dim] for dim in slowest_first])
    return laid_out.transpose(np.argsort(slowest_first)) if slowest_first else laid_out


def fill(self: TensorImpl, generator: Generator | None, draw: Draw) -> TensorImpl:
    """`draw(generator, count)` becomes the elements; one more version."""
    assert_no_internal_overlap(self.sizes, self.strides)
    if self.numel():
        flat = draw(generator_for(generator, self), self.numel())
        copy.write(self, in_memory_order(self, flat))
    self.bump_version()
    return self


def check_uniform(self: TensorImpl, low: float, high: float) -> None:
    """Pass when [low, high) is a range that the tensor's type can hold.

    Source   aten/src/ATen/native/DistributionTemplates.h  uniform_impl_
    """
    refuse_unless("check_uniform_bounds", self.dtype, ("floating",))
    largest = largest_finite(self.dtype)
    for name, bound in (("from", low), ("to", high)):
        if not -largest <= bound <= largest:
            raise RuntimeError(f"{name} is out of bounds for {self.dtype.name}: {bound}")
    if not low <= high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= the largest {self.dtype.name}, but found to={high} and "
            f"from={low}"
        )


@kernel(
    "uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> "
    "Tensor(a!)",
    variants="method",
)
def uniform_(
    self: TensorImpl, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element uniform in [low, high)."""
    if self.dtype.is_complex:
        uniform_(reinterpret.view_as_real(self), low, high, generator=generator)
        return self
    check_uniform(self, low, high)
    return fill(
        self, generator, lambda g, n: cpu_distributions.uniform(g, n, self.dtype, low, high)
    )


@kernel(
    "normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> "
    "Tensor(a!)",
    variants="method",
)
def normal_(
    self: TensorImpl, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element normal; both parts of a complex one with half the variance.

    Source   aten/src/ATen/native/DistributionTemplates.h  normal_impl_
    """
    check_std(std)
    if self.dtype.is_complex:
        normal_(reinterpret.view_as_real(self), 0.0, std / math.sqrt(2), generator=generator)
        if mean:
            copy.write(self, copy.values(self) + mean)
        return self
    refuse_unless("normal_kernel_cpu", self.dtype, ("floating",))
    in_blocks = self.is_contiguous()
    return fill(
        self,
        generator,
        lambda g, n: cpu_distributions.normal(g, n, self.dtype, mean, std, in_blocks),
    )


def check_std(std: float) -> None:
    """Pass for a standard deviation."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


@kernel(
    "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def bernoulli_(
    self: TensorImpl, p: float = 0.5, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element 1 with probability p, else 0."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if self.dtype.is_complex:
        raise NotImplementedError(f"'bernoulli_scalar_cpu_' not implemented for {self.dtype.name}")
    return fill(self, generator, lambda g, n: cpu_distributions.bernoulli(g, n, p))


def random_bounds(self: TensorImpl, low: int, high: int | None) -> tuple[int, int]:
    """The range, checked against the tensor's type; without a high end it goes to the largest.

    Source   aten/src/ATen/native/DistributionTemplates.h  random_from_to_impl
    """
    if high is not None and not low < high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if self.dtype.is_complex:
        raise NotImplementedError(f"'random_from_to_kernel_cpu' not for {self.dtype.name}")
    if self.dtype.is_floating_point:
        lowest, highest = -largest_finite(self.dtype), largest_finite(self.dtype)
    elif self.dtype.kind == "bool":
        lowest, highest = 0, 1
    else:
        limits = np.iinfo(self.dtype.raw)
        lowest, highest = int(limits.min), int(limits.max)
    for name, bound in (("from", low), ("to - 1", low if high is None else high - 1)):
        if not lowest <= bound <= highest:
            raise RuntimeError(f"{name} is out of bounds for {self.dtype.name}: {bound}")
    if high is None:
        high = 1 + largest_whole(self.dtype)
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' below the largest value, got {low}")
    return low, high


@kernel(
    "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def random_from_(
    self: TensorImpl, low: int, high: int | None, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element a whole number from low to before high; to the type's largest without one."""
    low, high = random_bounds(self, low, high)
    span = high - low
    return fill(self, generator, lambda g, n: cpu_distributions.integers(g, n, span, low))


def largest_whole(dtype: DType) -> int:
    """Up to here every whole number has an element of its own."""
    if dtype.is_floating_point:
        return 1 << cpu_distributions.DIGITS[dtype]
    return 1 if dtype.kind == "bool" else int(np.iinfo(dtype.raw).max)


@kernel(
    "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def random_to_(self: TensorImpl, high: int, *, generator: Generator | None = None) -> TensorImpl:
    """Every element a whole number from 0 to before high."""
    return random_from_(self, 0, high, generator=generator)


@kernel("random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)", variants="method")
def random_(self: TensorImpl, *, generator: Generator | None = None) -> TensorImpl:
    """Every element a whole number from 0 to the largest the type holds without a gap."""
    if self.dtype.is_complex:
        raise NotImplementedError(f"'random_kernel_cpu' not implemented for {self.dtype.name}")
    return fill(self, generator, lambda g, n: cpu_distributions.full_range(g, n, self.dtype))
