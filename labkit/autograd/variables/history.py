"""What a recorded call does to the history of the tensors it made or wrote.

Source   torch/csrc/autograd/VariableTypeUtils.h
         torch/csrc/autograd/variable.cpp  impl::rebase_history
"""

from typing import Any

from labkit.autograd.node import Node
from labkit.autograd.variables.meta import AutogradMeta
from labkit.autograd.variables.rebase import rebase_base
from labkit.autograd.variables.variable import (
    add_input,
    add_undefined_input,
    compute_requires_grad,
    edge_of_history,
    has_history,
    move_hooks,
    requires_grad,
    set_gradient_edge,
)
from labkit.autograd.variables.view_errors import view_modified
from labkit.core.tensor_impl import TensorImpl


def check_inplace(tensor: TensorImpl, *arguments: Any) -> None:
    """Nothing, if a call of these arguments may write the tensor, and be recorded if need be.

    Raises   RuntimeError   a leaf that requires grad, or a view that must not be written
    Source   torch/csrc/autograd/VariableTypeUtils.h  check_inplace
    """
    if not compute_requires_grad(arguments):
        return
    meta = tensor.autograd_meta
    is_view = meta is not None and meta.is_view
    whose = "a leaf Variable"
    owner = tensor
    if is_view and tensor.base is not None:
        view_modified(meta)
        whose, owner = "a view of a leaf Variable", tensor.base
    if requires_grad(tensor) and not (has_history(owner) and has_history(tensor)):
        raise RuntimeError(f"{whose} that requires grad is being used in an in-place operation.")


def set_histories(node: Node, results: Any, flags: tuple[bool, ...] | None) -> None:
    """Each result is the node's next output, unless it has no derivative.

    flags   which can have one; None: those of a differentiable type
    """
    for i, result in enumerate(results):
        if flags is not None and not flags[i]:
            continue
        if result is None:
            add_undefined_input(node)
        else:
            set_output(result, node)


def set_output(result: TensorImpl, node: Node) -> None:
    """The new tensor is the node's next output, if its type has derivatives."""
    if result.dtype.is_inexact:
        result.autograd_meta = meta = AutogradMeta()
        meta.edge = (node, add_input(node, result))


def rebase(tensor: TensorImpl, node: Node) -> None:
    """A recorded call wrote the tensor: its history, and its base's, now contain the node.

    Source   torch/csrc/autograd/variable.cpp  impl::rebase_history
    """
    add_input(node, tensor)
    if tensor.base is not None:
        rebase_base(tensor, node)
        return
    old = edge_of_history(tensor)
    set_gradient_edge(tensor, (node, 0))
    move_hooks(tensor, old, (node, 0))
