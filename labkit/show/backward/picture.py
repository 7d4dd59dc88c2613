"""`show.backward`: one backward call, of labkit's engine or torch's, step by step."""

import sys
from collections.abc import Sequence
from typing import Any

from labkit.show.backward.autograd_walk import Walk
from labkit.show.graph import is_function, start_node
from labkit.show.names import tensor_names
from labkit.widgets.graph.graph_view import GraphView


def backward(
    root: Any,
    gradient: Any = None,
    *,
    inputs: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    title: str = "",
    at: int | str | None = None,
    simple: bool = False,
) -> GraphView:
    """Backward has run from `root`, and can be walked: leaves have their gradients.

    Every step shows the ready heap in the order of its array, how many gradients each node still
    waits for, the gradient buffers, the saved tensors that were asked for with their versions,
    hooks that fired, and what arrived as a heat map. An error of the backward call is the last
    step; it is shown, not raised. Where a saved tensor was written in place, the step in which its
    node asks for it names the node and both versions, and in anomaly mode the forward line.

    root      a tensor of torch or labkit with a grad_fn, several of one of them in a list, or a
              function without arguments that computes them
    gradient  what to start from; per root, in a list, when there are several. Ones for one element
    inputs, retain_graph, create_graph   as `torch.autograd.backward` takes them
    at        the step to open at: its number, from 1, or words of its text
    simple    only where gradients arrive and who waits, for a first look

    Raises   TypeError    no tensor, or tensors of both libraries
             ValueError   a tensor has no graph, or there is no step `at`
    Source   torch/csrc/autograd/engine.cpp  Engine::evaluate_function
    Differs  Of torch only what hooks tell is observed; the heap and the buffers between are
             computed from the graph by the engine's rules.
    """
    # whose import makes labkit's autograd
    from labkit.show.backward.frames import Frames, plain_names

    names = tensor_names(sys._getframe(1))
    if is_function(root):
        root = root()
    roots = list(root) if isinstance(root, list | tuple) else [root]
    gradients = list(gradient) if isinstance(gradient, list | tuple) else [gradient]
    if not roots:
        raise ValueError("show.backward takes at least one tensor, got an empty list")
    if gradient is None:
        gradients *= len(roots)
    for one in roots:
        if hasattr(one, "next_functions"):
            raise TypeError("backward starts from tensors; show.graph takes a node")
        start_node(one, "show.backward")
    walk = Walk(names)
    options = {"inputs": inputs, "retain_graph": retain_graph, "create_graph": create_graph}
    recorder = recorder_for(roots, walk)
    with recorder.recording():
        try:
            recorder.engine(roots, gradients, **options)
        except Exception:
            if not recorder.steps:  # the call was refused before anything ran
                raise
    frames = Frames(walk, recorder.nodes_met(), simple)
    nodes = [{"label": name} for name in plain_names(walk)] if simple else walk.nodes
    steps = frames.add(recorder.steps)
    return GraphView(nodes, walk.edges, steps, title=title, simple=simple).open_at(at)


def recorder_for(tensors: Sequence[Any], walk: Walk) -> Any:
    """The recorder for the library these tensors are of.

    Raises   TypeError   tensors of both
    """
    of_torch = {type(one).__module__.partition(".")[0] == "torch" for one in tensors}
    if len(of_torch) > 1:
        raise TypeError("the tensors are of torch and of labkit; one engine runs one of them")
    if of_torch.pop():
        from labkit.show.backward.torch_backward import (
            TorchRecorder,  # needs torch, which loads slowly
        )

        return TorchRecorder(walk)
    from labkit.show.backward.recorder import WalkingRecorder  # its import makes every operator

    return WalkingRecorder(walk)
