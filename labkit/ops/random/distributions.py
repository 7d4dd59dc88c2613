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

from labkit.core import dtype as dtypes
from labkit.core import promotion, tensor_impl
from labkit.core.dtype import DType
from labkit.core.formats import compute_dtype, encode, largest_finite
from labkit.core.generator import CPUGenerator, Generator, default_generator
from labkit.core.memory_overlap import assert_no_internal_overlap
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
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
        copy.store(self, encode(in_memory_order(self, flat), self.dtype))
    self.bump_version()
    return self


def refuse_unless_floating(name: str, dtype: DType) -> None:
    """Pass for a real floating type that can compute.

    Raises   NotImplementedError   any other type
    """
    if not dtype.is_floating_point or dtype.is_float8:
        raise NotImplementedError(f"{name!r} not implemented for {dtype.name}")


def check_uniform(self: TensorImpl, low: float, high: float) -> None:
    """Pass when [low, high) is a range that the tensor's type can hold.

    Source   aten/src/ATen/native/DistributionTemplates.h  uniform_impl_
    """
    refuse_unless_floating("check_uniform_bounds", self.dtype)
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
            copy.store(self, encode(copy.values(self) + mean, self.dtype))
        return self
    refuse_unless_floating("normal_kernel_cpu", self.dtype)
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
    "exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def exponential_(
    self: TensorImpl, lambd: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element exponential with mean 1 / lambd."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            f"Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {self.dtype.name}"
        )
    return fill(
        self, generator, lambda g, n: cpu_distributions.exponential(g, n, self.dtype, lambd)
    )


@kernel(
    "cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? generator=None) -> "
    "Tensor(a!)",
    variants="method",
)
def cauchy_(
    self: TensorImpl, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element from a Cauchy distribution."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            f"Cauchy distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {self.dtype.name}"
        )
    return fill(
        self, generator, lambda g, n: cpu_distributions.cauchy(g, n, self.dtype, median, sigma)
    )


@kernel(
    "log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) -> "
    "Tensor(a!)",
    variants="method",
)
def log_normal_(
    self: TensorImpl, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element such that its logarithm is normal."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    refuse_unless_floating("log_normal_cpu", self.dtype)
    return fill(
        self, generator, lambda g, n: cpu_distributions.log_normal(g, n, self.dtype, mean, std)
    )


@kernel(
    "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def geometric_(self: TensorImpl, p: float, *, generator: Generator | None = None) -> TensorImpl:
    """Every element how many trials it takes until the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if self.dtype.is_complex or self.dtype.kind == "bool":
        raise NotImplementedError(f"'geometric_cpu' not implemented for {self.dtype.name}")
    shown = self.dtype if self.dtype.is_floating_point else dtypes.float64
    return fill(self, generator, lambda g, n: cpu_distributions.geometric(g, n, shown, p))


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
    if self.dtype.is_complex or self.dtype.is_float8:
        raise NotImplementedError(f"'bernoulli_scalar_cpu_' not implemented for {self.dtype.name}")
    return fill(self, generator, lambda g, n: cpu_distributions.bernoulli(g, n, p))


@kernel(
    "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
    variants="method",
)
def bernoulli_tensor_(
    self: TensorImpl, p: TensorImpl, *, generator: Generator | None = None
) -> TensorImpl:
    """Every element 1 with a probability of its own, else 0."""
    if self.dtype.is_complex or self.dtype.is_float8:
        raise NotImplementedError(
            f"'bernoulli_tensor_cpu_self_' not implemented for {self.dtype.name}"
        )
    refuse_unless_floating("bernoulli_tensor_cpu_p_", p.dtype)
    if broadcast_shapes(self.sizes, p.sizes) != self.sizes:
        raise RuntimeError(
            f"bernoulli_: probabilities of sizes {list(p.sizes)} do not broadcast to "
            f"{list(self.sizes)}"
        )
    assert_no_internal_overlap(self.sizes, self.strides)
    if self.numel():
        chances = np.broadcast_to(wide(p), self.sizes)
        if not ((chances >= 0) & (chances <= 1)).all():
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        order = iteration_order(self.sizes, [self.strides])[::-1]
        flat = chances.transpose(order).ravel()
        drawn = cpu_distributions.bernoulli_each(generator_for(generator, self), flat)
        copy.store(self, encode(in_memory_order(self, drawn), self.dtype))
    self.bump_version()
    return self


@kernel("bernoulli(Tensor self, *, Generator? generator=None) -> Tensor")
def bernoulli(self: TensorImpl, *, generator: Generator | None = None) -> TensorImpl:
    """1 with the probability that the element is, else 0."""
    result = copy.empty_like(self, copy.contiguous_format)
    bernoulli_tensor_(result, self, generator=generator)
    result.version_counter.version = 0
    return result


@kernel("bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor")
def bernoulli_p(self: TensorImpl, p: float, *, generator: Generator | None = None) -> TensorImpl:
    """1 with probability p, else 0, in the shape of `self`."""
    result = copy.empty_like(self)
    bernoulli_(result, p, generator=generator)
    result.version_counter.version = 0
    return result


def random_bounds(self: TensorImpl, low: int, high: int | None) -> tuple[int, int | None]:
    """The range, checked against the tensor's type.

    Source   aten/src/ATen/native/DistributionTemplates.h  random_from_to_impl
    """
    if high is not None and not low < high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if self.dtype.is_complex or self.dtype.is_float8:
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
    if high is None:
        high = 1 + _largest_whole(self.dtype)
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' below the largest value, got {low}")
    span = high - low
    return fill(self, generator, lambda g, n: cpu_distributions.integers(g, n, span, low))


def _largest_whole(dtype: DType) -> int:
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
    if self.dtype.is_complex or self.dtype.is_float8:
        raise NotImplementedError(f"'random_kernel_cpu' not implemented for {self.dtype.name}")
    return fill(self, generator, lambda g, n: cpu_distributions.full_range(g, n, self.dtype))


def _standard_normal(shape: tuple[int, ...], dtype: DType, generator: Generator | None) -> Array:
    result = tensor_impl.empty(shape, dtype)
    return wide(normal_(result, generator=generator))


@kernel("normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor")
def normal_tensor_float(
    mean: TensorImpl, std: float = 1.0, *, generator: Generator | None = None
) -> TensorImpl:
    """Normal numbers, each around a mean of its own."""
    check_std(std)
    result = tensor_impl.empty(mean.sizes, mean.dtype)
    spread = wide(normal_(result, 0.0, std, generator=generator))
    return new_tensor(spread + wide(mean), mean.dtype)


@kernel("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor")
def normal_float_tensor(
    mean: float, std: TensorImpl, *, generator: Generator | None = None
) -> TensorImpl:
    """Normal numbers around one mean, each with a standard deviation of its own."""
    _check_stds(std)
    standard = _standard_normal(std.sizes, std.dtype, generator)
    centre = np.asarray(mean, compute_dtype(std.dtype))
    return new_tensor(centre + standard * wide(std), std.dtype)


@kernel("normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor")
def normal_tensor_tensor(
    mean: TensorImpl, std: TensorImpl, *, generator: Generator | None = None
) -> TensorImpl:
    """Normal numbers, each with a mean and a standard deviation of its own."""
    _check_stds(std)
    shape = broadcast_shapes(mean.sizes, std.sizes)
    dtype = promotion.result_type(mean, std)
    standard = _standard_normal(shape, dtype, generator)
    return new_tensor(wide(mean) + standard * wide(std), dtype)


def _check_stds(std: TensorImpl) -> None:
    if std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.numel() and not (wide(std) >= 0).all():
        raise RuntimeError("normal expects all elements of std >= 0.0")


@kernel(
    "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, "
    "Generator? generator=None) -> Tensor"
)
def multinomial(
    self: TensorImpl,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> TensorImpl:
    """Indices of categories, drawn in proportion to the weights in each row.

    Source   aten/src/ATen/native/Distributions.cpp  multinomial_out
    """
    if self.dim() not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {self.dim()}")
    if not self.dtype.is_floating_point or self.dtype.is_float8:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {self.dtype.name}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > self.sizes[-1]:
        raise RuntimeError(
            f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{num_samples} of {self.sizes[-1]}"
        )
    weights = wide(self)
    rows = weights.reshape(-1, weights.shape[-1])
    if not len(rows):
        return new_tensor(np.empty((*self.sizes[:-1], num_samples), np.int64), dtypes.int64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (rows.sum(axis=1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    source = generator_for(generator, self)
    if replacement and num_samples > 1:
        chosen = _with_replacement(source, rows, num_samples)
    else:
        chosen = _without_replacement(source, self, rows, num_samples)
    return new_tensor(chosen.reshape(*self.sizes[:-1], num_samples), dtypes.int64)


def _without_replacement(
    source: CPUGenerator, self: TensorImpl, rows: Array, num_samples: int
) -> Array:
    """The categories whose weight over an exponential number is largest."""
    drawn = copy.empty_like(self)
    exponential_(drawn, 1.0, generator=source)
    with np.errstate(all="ignore"):
        keys = cpu_distributions.rounded(rows / wide(drawn).reshape(rows.shape), self.dtype)
    if num_samples == 1:
        return np.argmax(keys, axis=1)
    return np.argsort(-keys, axis=1, kind="stable")[:, :num_samples]


def _with_replacement(source: CPUGenerator, rows: Array, num_samples: int) -> Array:
    """Where uniform numbers fall among the cumulative weights.

    Source   aten/src/ATen/native/cpu/MultinomialKernel.cpp  multinomial_with_replacement_apply
    """
    cumulative = np.cumsum(rows, axis=1, dtype=rows.dtype)
    cumulative /= cumulative[:, -1:]
    cumulative[:, -1] = 1
    uniform = cpu_distributions.unit_doubles(source, len(rows) * num_samples)
    return np.stack(
        [
            np.searchsorted(row.astype(np.float64), draws)
            for row, draws in zip(cumulative, uniform.reshape(len(rows), -1), strict=True)
        ]
    )
