"""Batch norm in evaluation, folded into the weights of the convolution or linear layer before it.

Source   torch/nn/utils/fusion.py  fuse_conv_bn_weights, fuse_linear_bn_weights
Differs  computes the new weights in float64 and rounds once
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from labkit.graph.rewrite import Rewrite, add_attribute, attribute, begin, calls
from labkit.graph.storages import Storages

aten = torch.ops.aten
LAYERS = (aten.conv2d.default, aten.conv2d.padding, aten.conv1d.default, aten.linear.default)


class Norm(NamedTuple):
    """The arguments of `aten.batch_norm`."""

    input: Node
    weight: Node | None
    bias: Node | None
    mean: Node | None
    variance: Node | None
    training: bool
    momentum: float
    epsilon: float
    cudnn: bool


def fold_batch_norm(graph: GraphModule) -> Rewrite:
    """A layer followed by a batch norm in evaluation is one layer with other weights.

    Folded: y = (w x + b - mean) * scale + beta, with scale = gamma / sqrt(variance + epsilon), is
    a layer with weights w * scale and bias (b - mean) * scale + beta.
    """
    rewrite = begin(graph)
    storages = Storages(rewrite.graph)
    for node in calls(rewrite.graph, aten.batch_norm.default):
        norm = Norm(*node.args)
        layer = norm.input
        if layer.target not in LAYERS:
            continue
        refusal = why_not_folded(node, storages)
        if refusal:
            rewrite.refuse(*refusal)
            continue
        _fold(rewrite.graph, layer, norm)
        node.replace_all_uses_with(layer)
        rewrite.graph.graph.erase_node(node)
        rewrite.done.append(f"{node.name} is in the weights of {layer.name}")
    rewrite.graph.graph.eliminate_dead_code()
    return rewrite.finish()


def why_not_folded(node: Node, storages: Storages) -> tuple[Node, Node, str] | None:
    """The edge that forbids to fold this batch norm into the layer before it, and why.

    One user is asked for, since the layer's own result is no longer computed.
    """
    norm = Norm(*node.args)
    layer = norm.input
    if norm.training:
        return layer, node, "training: the mean and variance are this batch's, known when it runs"
    for other in layer.users:
        if other is not node:
            return layer, other, f"{other.name} reads it as well, without the norm"
    if layer.target is aten.linear.default and layer.meta["val"].dim() != 2:
        return layer, node, "the norm's channels are dimension 1, the layer's features the last"
    return _why_not_constant(layer, node, storages)


def _why_not_constant(layer: Node, node: Node, storages: Storages) -> tuple[Node, Node, str] | None:
    """The first of all weights and statistics that may change, or does not match the others."""
    edges = [(one, layer) for one in layer.all_input_nodes[1:]]
    edges += [(one, node) for one in node.all_input_nodes[1:]]
    first = edges[0][0]
    for tensor, reader in edges:
        if tensor.op != "get_attr":
            return tensor, reader, "is computed in the graph, so its value is not known here"
        if storages.is_written(tensor):
            return tensor, reader, "is written to in the graph"
        value, like = tensor.meta["val"], first.meta["val"]
        if (value.dtype, value.device) != (like.dtype, like.device):
            return tensor, reader, f"is {value.dtype} on {value.device}, {first.name} {like.dtype}"
    return None


def _fold(graph: GraphModule, layer: Node, norm: Norm) -> None:
    bias = layer.args[2] if len(layer.args) > 2 else layer.kwargs.get("bias")
    per_channel = [_value(graph, one) for one in (bias, *norm[1:5])]
    new = folded(attribute(graph, layer.args[1]), per_channel, norm.epsilon)
    made = [
        add_attribute(graph, f"{layer.name}_folded_{name}", tensor, layer)
        for name, tensor in zip(("weight", "bias"), new, strict=True)
    ]
    layer.args = (layer.args[0], *made, *layer.args[3:])
    layer.kwargs = {name: value for name, value in layer.kwargs.items() if name != "bias"}


def _value(graph: GraphModule, node: Any) -> torch.Tensor | None:
    return None if node is None else attribute(graph, node)


def folded(
    weight: torch.Tensor, per_channel: Sequence[torch.Tensor | None], epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the one layer.

    weight       dimension 0 is the output channel
    per_channel  the layer's bias, gamma, beta, running mean, running variance; the first three
                 may be None
    """
    bias, gamma, beta, mean, variance = (
        None if one is None else one.detach().double() for one in per_channel
    )
    assert mean is not None and variance is not None
    scale = (variance + epsilon).rsqrt() * (1 if gamma is None else gamma)
    shift = (0 if bias is None else bias) - mean
    new_bias = shift * scale + (0 if beta is None else beta)
    new_weight = weight.detach() * scale.view(-1, *[1] * (weight.dim() - 1))
    return new_weight.to(weight.dtype), new_bias.to(weight.dtype)
