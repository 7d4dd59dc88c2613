"""Recorders that describe the graph, for drawing, at the moment a backward call begins."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from labkit.autograd.backward import backward
from labkit.autograd.recording import Recorder, recording
from labkit.show.backward.autograd_walk import Walk, has_hooks

MOST_ELEMENTS = 4096
"""Gradients with more elements have no heat map: their numbers would fill the notebook."""


class WalkingRecorder(Recorder):
    """Records labkit's engine, and adds what each call's roots reach to a walk."""

    def __init__(self, walk: Walk) -> None:
        super().__init__(MOST_ELEMENTS)
        self.walk = walk

    def recording(self) -> AbstractContextManager[Any]:
        """Inside the `with`, backward calls add their steps here."""
        return recording(recorder=self)

    def engine(self, roots: Sequence[Any], gradients: Sequence[Any], **options: Any) -> None:
        """Run backward."""
        backward(roots, gradients, **options)

    def graph(self, roots: Sequence[Any]) -> None:
        """All nodes from these roots are described, and have numbers and edges."""
        for root in roots:
            in_front = not root.num_inputs  # the node in front of several roots, which nobody draws
            self.walk.add([edge[0] for edge in root.next_edges] if in_front else [root])
        super().graph(list(roots))

    def unpacked(self, node: Any, tensor: Any, expected: int) -> None:
        """The step says which saved tensor was asked for."""
        super().unpacked(node, tensor, expected)
        self.steps[-1].text = "" if node is None else _saved_name(node, tensor)


def _saved_name(node: Any, tensor: Any) -> str:
    """The attribute under which the node keeps the tensor: `_saved_self` is "self"."""
    for attribute in dir(node):
        if attribute.startswith("_raw_saved_"):
            raw = getattr(node, attribute)
            for one in raw if isinstance(raw, list | tuple) else (raw,):
                if getattr(one, "data", None) is tensor:
                    return attribute.removeprefix("_raw_saved_")
    return ""


def saved_names(node: Any) -> list[str]:
    """The saved tensors of a torch node that can be asked for without calling a hook."""
    return [
        attribute
        for attribute in dir(node)
        if attribute.startswith("_saved_")
        and hasattr(type(node), attribute.replace("_saved_", "_raw_saved_", 1))
        and not has_hooks(node, attribute)
    ]
