"""Autograd kernels of operators that have no row: they compute, and refuse to be differentiated.

Source   torch/csrc/autograd/autograd_not_implemented_fallback.cpp
         torch/csrc/autograd/functions/basic_ops.h  NotImplemented
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from labkit.autograd.node import Node, next_sequence_nr
from labkit.autograd.state import STATE
from labkit.autograd.variables.history import check_inplace, rebase, set_histories
from labkit.autograd.variables.variable import collect_next_edges, compute_requires_grad
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.operator import OperatorHandle

Kernel = Callable[..., Any]


class NotImplemented(Node):  # noqa: A001 (PyTorch's name)
    """The node of a call that cannot be differentiated: an error when a gradient comes.

    Source   torch/csrc/autograd/functions/basic_ops.h  NotImplemented
    """

    def __init__(self, operator: str, tensors: Sequence[TensorImpl]) -> None:
        self.sequence_nr = next_sequence_nr()
        self.operator = operator
        self.next_edges = collect_next_edges(tensors)

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        """Raises."""
        raise NotImplementedError(f"derivative for {self.operator} is not implemented")


def tensors_in(values: Iterable[Any]) -> Iterator[TensorImpl]:
    """Every tensor, lists flattened."""
    for value in values:
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, TensorImpl):
                yield each


def not_implemented_kernel(op: OperatorHandle) -> Kernel:
    """Computes; results of arguments that require grad get a `NotImplemented` node."""
    redispatch = op._on_redispatch
    writes = op.schema.is_mutable

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        node = None
        if STATE.grad:
            tensors = list(tensors_in((*args, *kwargs.values())))
            if writes:
                check_inplace(args[0], *tensors)
            if compute_requires_grad(tensors):
                node = NotImplemented(op.name, tensors)
        result = redispatch[keys.raw & AFTER_ADINPLACEORVIEW.raw](*args, **kwargs)
        if node is not None:
            if writes:
                rebase(args[0], node)
            elif result is not None:
                several = isinstance(result, list | tuple)
                set_histories(node, result if several else (result,), None)
        return result

    return kernel


def out_kernel(op: OperatorHandle) -> Kernel:
    """Computes into `out`, unless a gradient would have to be recorded.

    Source   torch/csrc/autograd/VariableTypeUtils.h  throw_error_out_requires_grad
    """
    redispatch = op._on_redispatch
    name = op.schema.name.partition("::")[2]

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if STATE.grad and compute_requires_grad(tensors_in((*args, *kwargs.values()))):
            raise RuntimeError(
                f"{name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        return redispatch[keys.raw & AFTER_ADINPLACEORVIEW.raw](*args, **kwargs)

    return kernel


def unlinked_kernel(op: OperatorHandle) -> Kernel:
    """A view without derivative: it shares memory and versions, and is nobody's view to autograd.

    Source   torch/csrc/autograd/variable.h  make_variable_non_differentiable_view
    """
    redispatch = op._on_redispatch

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = redispatch[keys.raw & AFTER_ADINPLACEORVIEW.raw](*args, **kwargs)
        if result is not args[0]:
            result.base = None
        return result

    return kernel
