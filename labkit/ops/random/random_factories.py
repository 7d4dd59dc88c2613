"""Operators that make tensors of random numbers, and dropout.

Source   aten/src/ATen/native/TensorFactories.cpp, Dropout.cpp
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.generator import Generator
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.random import device_distributions
from labkit.ops.random.distributions import generator_for
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy
from labkit.ops.tensors.tensor_factories import EXPLICIT, OPTIONS, empty, empty_like, scalar_type

Fill = Callable[..., TensorImpl]
_LIKE = f"{OPTIONS}, MemoryFormat? memory_format=None) -> Tensor"
_WHOLE = OPTIONS.replace("dtype=None", "dtype=4")


def _filled(made: TensorImpl, name: str, *args: Any, generator: Generator | None) -> TensorImpl:
    """A fresh tensor filled by the in-place operator of its device, as if it never was empty."""
    device_distributions.filler(name, made.device)(made, *args, generator=generator)
    made.version_counter.version = 0
    return made


def _define(schema: str, function: Fill, overload: str = "generator") -> None:
    """The operator, and its overload with a generator."""
    name, _, arguments = schema.partition("(")
    base = name.partition(".")[0]
    with_generator = arguments.replace("*, ", "*, Generator? generator, ")
    for each in (schema, f"{base}.{overload}({with_generator}"):
        kernel(each, EXPLICIT, variants="function")(function)


def _standard(name: str, fill: str) -> None:
    def made(size: Any, *, generator: Generator | None = None, **options: Any) -> TensorImpl:
        return _filled(empty(size, **options), fill, generator=generator)

    def like(self: TensorImpl, *, generator: Generator | None = None, **options: Any) -> TensorImpl:
        return _filled(empty_like(self, **options), fill, generator=generator)

    _define(f"{name}(SymInt[] size, {OPTIONS}) -> Tensor", made)
    _define(f"{name}_like(Tensor self, {_LIKE}", like)


_standard("rand", "uniform_")
_standard("randn", "normal_")


def _randint(
    low: int,
    high: int,
    size: Any,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    **options: Any,
) -> TensorImpl:
    made = empty(size, dtype=scalar_type(dtype, dtypes.int64), **options)
    return _filled(made, "random_.from", low, high, generator=generator)


def _randint_to(high: int, size: Any, **options: Any) -> TensorImpl:
    return _randint(0, high, size, **options)


_define(f"randint(SymInt high, SymInt[] size, {_WHOLE}) -> Tensor", _randint_to)
_define(
    f"randint.low(SymInt low, SymInt high, SymInt[] size, {_WHOLE}) -> Tensor",
    _randint,
    "low_generator",
)


# -- dropout --------------------------------------------------------------------------------------


@composite("dropout(Tensor input, float p, bool train) -> Tensor", variants="function")
def dropout(input: TensorImpl, p: float, train: bool) -> Any:  # noqa: A002
    """Elements set to 0 with probability p, and the others scaled up to keep the mean.

    Source   aten/src/ATen/native/Dropout.cpp  _dropout_impl
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or not input.numel():
        return input
    if input.device.type != "cpu" and p < 1:
        return aten.native_dropout.default(input, p, train)[0]
    if p == 1:
        zero = aten.zeros.default([], dtype=input.dtype, device=input.device)
        return aten.mul.Tensor(input, zero)
    return aten.mul.Tensor(input, _noise(aten.empty_like.default(input), p))


def _noise(noise: TensorImpl, p: float) -> Any:
    """The tensor filled: 1 / (1 - p) with probability 1 - p, else 0."""
    return aten.div_.Scalar(aten.bernoulli_.float(noise, 1 - p), 1 - p)


@kernel(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", variants="function"
)
def native_dropout(
    input: TensorImpl,  # noqa: A002
    p: float,
    train: bool | None,
) -> tuple[TensorImpl, TensorImpl]:
    """The input with elements dropped, and the mask of those that stayed.

    Source   aten/src/ATen/native/Dropout.cpp  native_dropout_cpu
    """
    if not input.numel():
        return input, copy.empty_like(input)
    if train is False:
        mask = copy.empty_like(input, copy.contiguous_format, dtypes.bool_)
        copy.store(mask, np.ones((), np.bool_))
        return copy.clone(input), mask
    kept = 1 - p
    mask = copy.empty_like(input, dtype=dtypes.bool_)
    _filled(mask, "bernoulli_.float", kept, generator=generator_for(None, input))
    scale = 1 / kept if kept else 0.0
    product = aten.mul_.Scalar(aten.mul.Tensor(input, mask), scale)
    return product, mask


@kernel(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", variants=""
)
def native_dropout_backward(grad_output: TensorImpl, mask: TensorImpl, scale: float) -> Any:
    """The gradient where the mask is true, scaled."""
    return aten.mul.Scalar(aten.mul.Tensor(grad_output, mask), scale)
