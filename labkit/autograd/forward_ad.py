"""Dual numbers: a value and its tangent, carried together through every operator.

    with dual_level():
        x = make_dual(primal, tangent)
        y = f(x)
        value, derivative = unpack_dual(y)

Source   torch/autograd/forward_ad.py
Differs  element-wise and linear operators have a rule; the others say that they have none
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.autograd.formulas.basics import zeros_like
from labkit.autograd.kernels.forward_rules import FORWARD, no_level, set_tangent, tangent_of
from labkit.autograd.variables.variable import can_require_grad
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten

_levels = itertools.count(1)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives.

    Source   torch/autograd/forward_ad.py  UnpackedDualTensor
    """

    primal: TensorImpl
    tangent: TensorImpl | None


class dual_level:
    """Inside the `with`, tangents exist; after it, they are gone.

    Source   torch/autograd/forward_ad.py  dual_level
    """

    def __enter__(self) -> int:
        if FORWARD.level:
            raise RuntimeError(
                "Nested forward mode AD is not supported at the moment: a dual level is open"
            )
        FORWARD.level = next(_levels)
        return FORWARD.level

    def __exit__(self, *_exception: object) -> None:
        FORWARD.level = 0


def make_dual(tensor: TensorImpl, tangent: TensorImpl) -> TensorImpl:
    """A view of the tensor with this tangent.

    Raises   RuntimeError   no level is open; or the two do not fit
             ValueError     a type without derivatives
    Source   torch/autograd/forward_ad.py  make_dual
    """
    if not FORWARD.level:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not can_require_grad(given.dtype):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {given.dtype}"
            )
    if tensor.sizes != tangent.sizes:
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the "
            f"original Tensor, this is not supported. Tensor is of size {list(tensor.sizes)} "
            f"while the given forward gradient is of size {list(tangent.sizes)}."
        )
    if tensor.dtype is not tangent.dtype:
        raise RuntimeError(
            f"the tangent must have the tensor's type {tensor.dtype}, got {tangent.dtype}"
        )
    dual: TensorImpl = aten.alias.default(tensor)
    set_tangent(dual, tangent)
    return dual


def unpack_dual(tensor: TensorImpl) -> UnpackedDualTensor:
    """The value without its tangent, and the tangent, or None.

    Source   torch/autograd/forward_ad.py  unpack_dual
    """
    tangent = tangent_of(tensor) if FORWARD.level else None
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with no_level():
        return UnpackedDualTensor(aten.alias.default(tensor), tangent)


def jvp(
    function: Callable[..., Any], primals: tuple[TensorImpl, ...], tangents: tuple[TensorImpl, ...]
) -> tuple[Any, Any]:
    """The function's value, and its derivative in the direction of the tangents.

    Source   torch/_functorch/eager_transforms.py  jvp
    """
    if len(primals) != len(tangents):
        raise RuntimeError(f"got {len(primals)} primals and {len(tangents)} tangents")
    with dual_level():
        duals = [make_dual(p, t) for p, t in zip(primals, tangents, strict=True)]
        result = function(*duals)
        several = result if isinstance(result, tuple) else (result,)
        pairs = [unpack_dual(each) for each in several]
    outs = tuple(pair.primal for pair in pairs)
    found = tuple(
        zeros_like(pair.primal) if pair.tangent is None else pair.tangent for pair in pairs
    )
    return (outs, found) if isinstance(result, tuple) else (outs[0], found[0])
