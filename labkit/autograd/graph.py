"""Tools around a graph: hooks on saved tensors, edges as objects.

Source   torch/autograd/graph.py
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd.backward import GradientEdge
from labkit.autograd.node import Node
from labkit.autograd.state import STATE
from labkit.autograd.variables import variable
from labkit.core.missing import refuse_others
from labkit.core.tensor_impl import TensorImpl


class saved_tensors_hooks:
    """Inside the `with`, `pack(tensor)` is kept for backward; `unpack` gives the tensor back.

    Source   torch/autograd/graph.py  saved_tensors_hooks
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        STATE.saved_hooks = (*STATE.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *_exception: object) -> None:
        STATE.saved_hooks = STATE.saved_hooks[:-1]


def get_gradient_edge(tensor: TensorImpl) -> GradientEdge:
    """Where the tensor's gradient goes.

    Raises   RuntimeError   it does not require grad
    Source   torch/autograd/graph.py  get_gradient_edge
    """
    edge = variable.gradient_edge(tensor)
    if not edge:
        raise RuntimeError("Cannot get gradient edge for Tensor that does not require grad")
    return GradientEdge(edge[0], edge[1], tensor)


__all__ = [
    "GradientEdge",
    "Node",
    "get_gradient_edge",
    "saved_tensors_hooks",
]

__getattr__ = refuse_others(__name__)
