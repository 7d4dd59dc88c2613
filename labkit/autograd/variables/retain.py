"""A computed tensor keeps its gradient.

Source   torch/csrc/autograd/python_variable.cpp; torch/csrc/autograd/variable.cpp  retain_grad
"""

import weakref
from typing import Any

from labkit.autograd.variables.variable import edge_of_history, meta_of, requires_grad
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


def retain_grad(tensor: TensorImpl) -> None:
    """After backward the tensor's `grad` is its gradient; a leaf's is anyway.

    Raises   RuntimeError   it does not require grad
    Source   torch/csrc/autograd/variable.cpp  VariableHooks::retain_grad
    """
    if not requires_grad(tensor):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    edge = edge_of_history(tensor)
    meta = meta_of(tensor)
    if edge is None or meta.retains_grad:
        return
    held = weakref.ref(tensor)  # the node must not keep its own output alive

    def retain(grad: Any) -> None:
        target = held()
        if target is None:
            return
        owner = meta_of(target)
        if owner.grad is None:
            owner.grad = aten.clone.default(grad)
        else:
            owner.grad = owner.grad + grad

    node, number = edge
    if node.retains_grad_hooks is None:
        node.retains_grad_hooks = {}
    node.retains_grad_hooks[number] = retain
    meta.retains_grad = True
