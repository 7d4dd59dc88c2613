"""`show.graph`: a tensor's backward graph, captured operators, or a captured CUDA graph."""

import sys
from typing import Any

from labkit.show.backward.autograd_walk import Walk
from labkit.show.launches import is_launches, launches
from labkit.show.names import tensor_names, tensors_at
from labkit.show.operators import is_operators, operators
from labkit.widgets.graph.graph_view import GraphView


def graph(*roots: Any, title: str = "", simple: bool = False) -> GraphView:
    """The graph that backward would walk from `root`, its saved tensors and their versions.

    Several roots stand side by side in one picture.

    root    a tensor of torch or labkit with a grad_fn, or an autograd node; or a function without
            arguments that computes such a tensor. An arrow runs from a node to the node its
            gradient goes to next; a number on it is that node's input slot, where it is not 0.
            #0 is the first node that was made: larger numbers run earlier.
            Of torch.fx GraphModules the operators are drawn, an arrow from each to its readers. Of
            CUDA graphs the nodes are drawn, with the memory they were captured with: under the name
            of the caller's variable that is there now, or as temp 1, temp 2, ...
    simple  the drawing alone: no search, no details beside it

    Raises   TypeError    neither a tensor nor a node
             ValueError   the tensor has no graph: nothing recorded it
    Source   torch/csrc/autograd/node.h  Node
    """
    if roots and all(is_operators(root) for root in roots):
        return operators(roots, title, simple)
    if roots and all(is_launches(root) for root in roots):
        return launches(roots, tensors_at(sys._getframe(1)), title, simple)
    walk = Walk(tensor_names(sys._getframe(1)))
    walk.add([start_node(root() if is_function(root) else root, "show.graph") for root in roots])
    return GraphView(walk.nodes, walk.edges, title=title, simple=simple)


def is_function(root: Any) -> bool:
    """True for what has to be called first; autograd nodes can be called as well."""
    return callable(root) and not hasattr(root, "next_functions") and not hasattr(root, "grad_fn")


def start_node(root: Any, who: str) -> Any:
    """The node where backward from `root` starts."""
    if hasattr(root, "next_functions"):
        return root
    if not hasattr(root, "grad_fn"):
        raise TypeError(f"{who} takes a tensor or an autograd node, got {type(root).__name__}")
    if root.grad_fn is None:
        reason = (
            f"it is a leaf that asks for gradients; {who} takes what is computed from it"
            if root.requires_grad
            else "no input of the operation that made it asked for gradients, or grad mode was off"
        )
        raise ValueError(f"this tensor of shape {tuple(root.shape)} has no graph: {reason}")
    return root.grad_fn
