"""`show.graph`: the backward graph of a tensor, or any graph given as nodes and edges."""

from typing import Any

from labkit.widgets.graph_view import GraphView

DETAIL_LENGTH = 60


def graph(root: Any, title: str = "") -> GraphView:
    """The graph that backward would walk from `root`, its saved tensors and their versions.

    root  a torch tensor with a grad_fn, or a torch autograd node. An arrow runs from a node to
          the node its gradient goes to next; a number on it is that node's input slot, where it
          is not 0.

    Raises   TypeError    neither a tensor nor a node
             ValueError   the tensor has no graph: nothing recorded it
    Source   torch/csrc/autograd/function.h  Node, Edge
    """
    start = _start(root)
    place = {start: 0}
    order = [start]
    edges: list[dict[str, Any]] = []
    for node in order:  # grows while it is walked: breadth first, never recursive
        for target, slot in node.next_functions:
            if target is None:
                continue
            if target not in place:
                place[target] = len(order)
                order.append(target)
            label = str(slot) if slot else ""
            edges.append({"source": place[node], "target": place[target], "label": label})
    return GraphView([_described(node) for node in order], edges, title=title)


def _start(root: Any) -> Any:
    if hasattr(root, "next_functions"):
        return root
    if not hasattr(root, "grad_fn"):
        raise TypeError(f"show.graph takes a tensor or an autograd node, got {type(root).__name__}")
    if root.grad_fn is None:
        reason = (
            "it is a leaf that asks for gradients; show.graph takes what is computed from it"
            if root.requires_grad
            else "no input of the operation that made it asked for gradients, or grad mode was off"
        )
        raise ValueError(f"this tensor of shape {tuple(root.shape)} has no graph: {reason}")
    return root.grad_fn


def _described(node: Any) -> dict[str, Any]:
    name = node.name().rpartition("::")[2]
    if name == "AccumulateGrad":
        shape = tuple(node.variable.shape)
        return {
            "label": "AccumulateGrad",
            "kind": "leaf",
            "badges": [f"leaf {shape}"],
            "details": {"adds into": f".grad of a leaf of shape {shape}, {node.variable.dtype}"},
        }
    saved = _saved_values(node)
    tensors = [text for text in saved.values() if text.startswith("tensor")]
    return {
        "label": name,
        "kind": "saves tensors" if tensors else "operation",
        "badges": [f"saved: {len(tensors)}"] if tensors else [],
        "details": saved,
    }


def _saved_values(node: Any) -> dict[str, str]:
    """What the node keeps for backward, by PyTorch's own attribute names."""
    found = {}
    for attribute in dir(node):
        if not attribute.startswith("_saved_"):
            continue
        try:
            value = getattr(node, attribute)
        except RuntimeError as error:  # freed by an earlier backward, or changed since it was saved
            found[attribute] = str(error).partition(":")[0]
            continue
        found[attribute] = _text(value)
    return found


def _text(value: Any) -> str:
    if hasattr(value, "_version"):
        return f"tensor {tuple(value.shape)} {value.dtype}, version {value._version}"
    return repr(value)[:DETAIL_LENGTH]
