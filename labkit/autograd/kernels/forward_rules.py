"""Forward mode: tangents go along with the values, by the rows' `jvp`.

Source   torch/csrc/autograd/forward_grad.h
         tools/autograd/gen_variable_type.py  emit_fw_derivatives
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from labkit.autograd.formulas.basics import real_part, zeros_like
from labkit.autograd.kernels.jvp_formula import evaluate
from labkit.autograd.variables.variable import can_require_grad, meta_of
from labkit.core.tensor_impl import TensorImpl
from labkit.core.thread_local_state import CarriedLocal
from labkit.ops.aten import aten


class _Forward(CarriedLocal):
    level = 0
    """The number of the open dual level; operators look no further while it is 0."""


FORWARD = _Forward()


@contextmanager
def no_level() -> Iterator[None]:
    """Inside the `with`, no dual level is open: what is called there has no tangents."""
    level, FORWARD.level = FORWARD.level, 0
    try:
        yield
    finally:
        FORWARD.level = level


def tangent_of(tensor: Any) -> Any:
    """The tensor's tangent at the open level; None when it has none."""
    if not isinstance(tensor, TensorImpl) or tensor.autograd_meta is None:
        return None
    held = tensor.autograd_meta.tangent
    return held[1] if held is not None and held[0] == FORWARD.level else None


def set_tangent(tensor: TensorImpl, tangent: TensorImpl) -> None:
    """The tensor has this tangent at the open level."""
    meta_of(tensor).tangent = (FORWARD.level, tangent)


def set_tangents(
    op: Any, row: Any, arguments: dict[str, Any], result: Any, original: Any = None
) -> None:
    """The results have the tangents that follow from those of the arguments.

    arguments   by schema name
    original    of an in-place call: what `self` held before

    Raises   NotImplementedError   an argument has a tangent, and the row has no `jvp`
    """
    tangents = {name: _tangents_in(value) for name, value in arguments.items()}
    if not any(_any(tangent) for tangent in tangents.values()):
        return
    if row.jvp is None:
        raise NotImplementedError(
            f"Trying to use forward AD with {row.operator} that does not support it because it "
            "has not been implemented yet."
        )
    primals = dict(arguments)
    if original is not None:
        primals["self"] = original
    with no_level():
        new = evaluate(op, row, primals, tangents, result)
    if original is not None:
        _write(result, new)
        return
    several = isinstance(result, list | tuple)
    targets = list(result) if several else [result]
    news = list(new) if isinstance(new, list | tuple) else [new]
    for target, tangent in zip(targets, news, strict=False):
        if tangent is None or not can_require_grad(target.dtype):
            continue
        if not target.dtype.is_complex:  # a real result moves along the real axis only
            with no_level():
                tangent = real_part(tangent)
        set_tangent(target, tangent)


def _tangents_in(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [tangent_of(each) for each in value]
    return tangent_of(value)


def _any(tangents: Any) -> bool:
    if isinstance(tangents, list):
        return any(each is not None for each in tangents)
    return tangents is not None


def _write(tensor: TensorImpl, tangent: TensorImpl) -> None:
    """The tangent of a tensor that was written: its old one holds the new numbers.

    A view's tangent is a view of the base's, so that the base's changes as well.

    Source   torch/csrc/autograd/autograd_meta.cpp  AutogradMeta::set_fw_grad
    """
    held, level = tangent_of(tensor), FORWARD.level
    with no_level():
        if held is None and tensor.base is not None:
            held = tangent_of_base_view(tensor, level)
        if held is None:
            held = aten.clone.default(tangent)
        else:
            aten.copy_.default(held, tangent)
    set_tangent(tensor, held)


def tangent_of_base_view(tensor: TensorImpl, level: int) -> TensorImpl:
    """A view of the base's tangent, which is zeros from now on if there was none."""
    base = tensor.base
    assert base is not None
    meta = meta_of(base)
    if meta.tangent is None or meta.tangent[0] != level:
        meta.tangent = (level, zeros_like(base))
    held: TensorImpl = aten.as_strided.default(
        meta.tangent[1], tensor.sizes, tensor.strides, tensor.storage_offset()
    )
    return held


def function_tangents(cls: Any, ctx: Any, args: Sequence[Any], results: Sequence[Any]) -> None:
    """The outputs of a custom Function have the tangents its `jvp` gives.

    Source   torch/csrc/autograd/custom_function.cpp  _process_forward_mode_AD
    """
    tangents = [tangent_of(arg) for arg in args]
    if not _any(tangents):
        return
    with no_level():
        given = cls.jvp(ctx, *tangents)
    several = given if isinstance(given, tuple) else (given,)
    if len(several) != len(results):
        raise RuntimeError(
            f"{cls.__name__}.jvp returned {len(several)} tangents for {len(results)} outputs"
        )
    for result, tangent in zip(results, several, strict=True):
        if tangent is not None:
            set_tangent(result, tangent)
