"""The overloads that write into tensors of the caller's: `lab.sum(x, 0, out=total)`.

Each runs the operator and moves its results; the schema is the operator's own with the outputs
added. Element-wise operators have theirs from `labkit.ops.pointwise.pointwise`.

Source   aten/src/ATen/native/native_functions.yaml; aten/src/ATen/native/Resize.cpp  resize_output
Differs  PyTorch computes into the output; here a temporary holds the result in between. Of the
         reductions every result whose type can be cast is taken, where some want one exact type
"""

from typing import Any

from labkit.core import promotion
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import assert_writable
from labkit.ops.aten import aten
from labkit.ops.indexing import index_along, masked, scatter  # noqa: F401
from labkit.ops.linear_algebra import blas, matmul, triangular  # noqa: F401
from labkit.ops.pointwise import binary, complex_numbers  # noqa: F401
from labkit.ops.random import distributions, random_factories  # noqa: F401
from labkit.ops.reduction import (  # noqa: F401
    reduction,
    scan,
    softmax,
    sorting,
    statistics,
    truth,
)
from labkit.ops.registration import LIBRARY, kernel
from labkit.ops.shape import joining  # noqa: F401
from labkit.ops.tensors import copy, tensor_factories  # noqa: F401
from labkit.ops.tensors.resize import resize_output
from labkit.ops.tensors.tensor_factories import EXPLICIT, OPTIONS

_PLAIN = {
    "all": "all_out", "all.dim": "out", "all.dims": "dims_out", "amax": "out", "amin": "out",
    "any": "all_out", "any.dim": "out", "any.dims": "dims_out", "argmax": "out", "argmin": "out",
    "complex": "out", "count_nonzero": "out",
    "count_nonzero.dim_IntList": "dim_IntList_out", "cumsum": "out",
    "linalg_vector_norm": "out", "max": "unary_out",
    "max.other": "out", "mean": "dtype_out", "mean.dim": "out", "min": "unary_out",
    "min.other": "out", "norm.Scalar": "Scalar_out", "norm.ScalarOpt_dim": "out",
    "std.correction": "correction_out", "std.dim": "out", "sum": "out",
    "sum.dim_IntList": "IntList_out", "tril": "out", "triu": "out",
    "var.correction": "correction_out", "var.dim": "out",
}  # fmt: skip
_EXACT = {
    "addmm": "out", "baddbmm": "out", "bmm": "out", "dot": "out", "gather": "out",
    "index_add": "out", "index_select": "out", "log_softmax.int": "int_out", "masked_select": "out",
    "matmul": "out", "mm": "out", "mv": "out", "scatter_add": "out", "softmax.int": "int_out",
    "take": "out",
}  # fmt: skip
"""Operators whose output has the type of the result."""
_JOINS = {"cat": "out", "stack": "out"}
_SEVERAL = {
    "max.dim": ("dim_max", "max", "max_values"), "min.dim": ("dim_min", "min", "min_indices"),
    "sort": ("values", "values", "indices"),
    "sort.stable": ("values_stable", "values", "indices"),
}  # fmt: skip
_FACTORIES = {
    "arange": "out", "arange.start_step": "start_out", "eye": "out", "eye.m": "m_out",
    "full": "out", "linspace": "out", "ones": "out", "zeros": "out",
    "rand": "out", "rand.generator": "generator_out", "randn": "out",
    "randn.generator": "generator_out", "randint": "out", "randint.generator": "generator_out",
    "randint.low": "low_out", "randint.low_generator": "low_generator_out",
}  # fmt: skip
_APART = ("gather", "index_select", "take", "masked_select", *_JOINS)
"""Operators whose output shares no memory with what they read."""
_MAY_BE_SELF = ("cumsum", "sort", "index_add", "scatter_add")
"""Those that read while they write: the output may be `self`, but no part of it."""
_FOLLOW_THE_OUTPUT = ("sum", "cumsum", "mean")
"""With no `dtype` given these compute in the type of the output."""


def write(name: str, out: TensorImpl, result: TensorImpl) -> TensorImpl:
    """`out` holds the result of the operator, resized and converted.

    Raises   RuntimeError   the result's type cannot be cast to the output's, or is another one
             TypeError      likewise, of a join
    """
    if name in _EXACT and result.dtype is not out.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype.name}, but got {out.dtype.name} "
            "instead"
        )
    if not promotion.can_cast(result.dtype, out.dtype):
        output = f"can't be cast to the desired output type {out.dtype.name}"
        if name in _JOINS:
            raise TypeError(f"{name}(): input types {output}")
        raise RuntimeError(f"result type {result.dtype.name} {output}")
    resize_output(out, result.sizes, result.strides)
    return copy.copy_(out, result)


def _schema(name: str, overload: str, outs: tuple[str, ...], factory: bool) -> str:
    """The schema of the overload with outputs, from that of the operator."""
    text = str(LIBRARY.dispatcher.find(f"aten::{name}").schema).removeprefix("aten::")
    arguments, returned = text.partition("(")[2].rsplit(") -> ", 1)
    if factory:
        for options in (OPTIONS, OPTIONS.replace("dtype=None", "dtype=4")):
            arguments = arguments.replace(options, "*").replace(options[3:], "")
        arguments = arguments.removesuffix(", ").removesuffix(", *")
    letters = [f"Tensor({letter}!)" for letter, _ in zip("abc", outs, strict=False)]
    added = ", ".join(f"{kind} {out}" for kind, out in zip(letters, outs, strict=True))
    star = ", " if "*," in arguments else ", *, "
    names = [each.strip().removeprefix("Tensor") for each in returned.strip("()").split(",")]
    made = [kind + name for kind, name in zip(letters, names, strict=True)]
    result = made[0] if len(made) == 1 else f"({', '.join(made)})"
    return f"{name.partition('.')[0]}.{overload}({arguments}{star}{added}) -> {result}"


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(aten, base), overload or "default")


def _define(name: str, overload: str, outs: tuple[str, ...], factory: bool = False) -> None:
    operator, base = _operator(name), name.partition(".")[0]

    def run(*args: Any, **kwargs: Any) -> Any:
        into = [kwargs.pop(out) for out in outs]
        if factory:
            kwargs |= {"dtype": into[0].dtype, "device": into[0].device}
        elif base in _FOLLOW_THE_OUTPUT and promotion.can_cast(args[0].dtype, into[0].dtype):
            kwargs["dtype"] = kwargs.get("dtype") or into[0].dtype
        if base in _APART:
            assert_writable(into[0], args)
        elif base in _MAY_BE_SELF:
            assert_writable(into[0], args, same=args[0])
        found = operator(*args, **kwargs)
        results = found if isinstance(found, tuple | list) else [found]
        written = tuple([write(name, *pair) for pair in zip(into, results, strict=True)])
        return written[0] if len(written) == 1 else written

    kernel(_schema(name, overload, outs, factory), EXPLICIT, variants="function")(run)


for _name, _overload in (_PLAIN | _EXACT | _JOINS).items():
    _define(_name, _overload, ("out",))
for _name, (_overload, *_outs) in _SEVERAL.items():
    _define(_name, _overload, tuple(_outs))
for _name, _overload in _FACTORIES.items():
    _define(_name, _overload, ("out",), factory=True)
