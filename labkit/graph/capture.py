"""`capture`: the graph of ATen operators that a program runs on example inputs."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from labkit.core.tensor_impl import TensorImpl
from labkit.graph.labkit_capture import capture_labkit


def capture(program: Callable[..., Any], *inputs: torch.Tensor | TensorImpl) -> GraphModule:
    """The operators that `program(*inputs)` runs; `node.args` and `node.users` are edges.

    program   an nn.Module or a function of tensors, of torch or of labkit as the inputs are. A
              module's parameters and buffers are not copied: the graph reads the module's own.

    Every node's `meta["val"]` has shape, dtype and strides. No gradients are recorded. Sizes are
    those of the examples, and a Python `if` has been decided. The program runs once, with all it
    does: a batch norm in training updates its statistics.

    Source   torch/fx/experimental/proxy_tensor.py  make_fx
    """
    if any(isinstance(one, TensorImpl) for one in inputs):
        return capture_labkit(program, inputs, _parameter_names(program))
    with torch.no_grad():  # the lambda hides parameters that keep their defaults
        graph = make_fx(lambda *given: program(*given), pre_dispatch=True)(*inputs)
    _name_inputs(graph, program)
    if isinstance(program, torch.nn.Module):
        _name_attributes(graph, program)
    graph.recompile()
    return graph


def _parameter_names(program: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(getattr(program, "forward", program)).parameters)


def _name_inputs(graph: GraphModule, program: Callable[..., Any]) -> None:
    names = _parameter_names(program)
    for node, name in zip(graph.graph.find_nodes(op="placeholder"), names, strict=False):
        node._rename(name)
        node.target = name


def _name_attributes(graph: GraphModule, module: torch.nn.Module) -> None:
    """Parameters and buffers are called as in the module, with `_` for the dots."""
    names = {id(one): name for name, one in [*module.named_parameters(), *module.named_buffers()]}
    for node in graph.graph.find_nodes(op="get_attr"):
        tensor = getattr(graph, node.target)
        if id(tensor) in names:
            node.target = names[id(tensor)].replace(".", "_")
            node._rename(node.target)
            setattr(graph, node.target, tensor)
    graph.delete_all_unused_submodules()
    used = {node.target for node in graph.graph.find_nodes(op="get_attr")}
    for name in [name for name, _ in [*graph.named_parameters(), *graph.named_buffers()]]:
        if name not in used:
            delattr(graph, name)
