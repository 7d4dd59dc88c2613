"""The Autograd kernel of an operator that registered none: it says so if a gradient comes by.

What such an operator calls is recorded as ever, so one that is made of differentiable calls has a
gradient all the same. A result that is not gets none, and a node that warns.

Source   torch/csrc/autograd/autograd_not_implemented_fallback.cpp
         basicAutogradNotImplementedFallbackImpl
"""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

from labkit.autograd.kernels.no_derivative import tensors_in
from labkit.autograd.node import Node, next_sequence_nr
from labkit.autograd.state import STATE
from labkit.autograd.variables import tensor_state, variable
from labkit.core.alias_keys import AUTOGRAD_SET
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.layer_keys import AFTER_AUTOGRAD
from labkit.dispatch.layers.layer import declares, put_results
from labkit.dispatch.library import Library
from labkit.dispatch.situation import Next, Situation

_FALLBACK = Library("_", "IMPL")


def _warn(operator: str) -> None:
    warnings.warn(
        f"{operator}: an autograd kernel was not registered to the Autograd key(s) but we are "
        "trying to backprop through it. This may lead to silently incorrect behavior. This "
        "behavior is deprecated and will be removed in a future version of PyTorch. If your "
        "operator is differentiable, please ensure you have registered an autograd kernel to the "
        "correct Autograd key (e.g. DispatchKey::Autograd, "
        "DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, or to "
        "squash this warning and use the previous behavior, please register "
        "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd.",
        UserWarning,
        stacklevel=2,
    )


class WarnNotImplemented(Node):
    """The node of a result without history: it warns, and no gradient goes on.

    Source   torch/csrc/autograd/autograd_not_implemented_fallback.cpp  WarnNotImplemented
    """

    def __init__(self, operator: str, tensors: Sequence[TensorImpl]) -> None:
        self.sequence_nr = next_sequence_nr()
        self.operator = operator
        self.next_edges = variable.collect_next_edges(tensors)

    @classmethod
    def name(cls) -> str:
        """As C++ prints it."""
        return "torch::autograd::WarnNotImplemented"

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> list[Any]:
        """No gradient, and a warning."""
        _warn(self.operator)
        return [None] * len(self.next_edges)


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Redispatches below autograd; what is called there is recorded."""
    text = "has no derivative to record; redispatches below autograd"
    return Next("redispatch", text, keys & AFTER_AUTOGRAD, now)


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Run what is below; where an argument requires grad, every result warns in backward."""
    tensors = list(tensors_in(stack))
    node = None
    if STATE.grad and variable.compute_requires_grad(tensors):
        node = WarnNotImplemented(op.name, tensors)
    put_results(stack, op.redispatch_boxed(keys & AFTER_AUTOGRAD, stack))
    if node is not None:
        for result in tensors_in(stack):
            if result.dtype.is_inexact:
                _mark(result, node, written=any(result is tensor for tensor in tensors))


def _mark(result: TensorImpl, node: WarnNotImplemented, written: bool) -> None:
    if variable.requires_grad(result):
        tensor_state.register_hook(result, lambda grad: _warn(node.operator))
    elif not written:
        variable.set_history(result, node)


def register(library: Library) -> Library:
    """Every operator of its dispatcher without an Autograd kernel of its own runs this one."""
    for key in AUTOGRAD_SET:
        library.fallback(kernel, key)
    return library


@cache
def install() -> None:
    """The default dispatcher has it."""
    register(_FALLBACK)
