"""A convolution or linear layer, its batch norm and ReLU become one kernel of the shelf."""

from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from labkit.graph.folding import Norm, why_not_folded
from labkit.graph.rewrite import Rewrite, begin, calls
from labkit.graph.storages import Storages, arguments

aten = torch.ops.aten


def conv_bn_relu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: Sequence[torch.Tensor | None],
    epsilon: float,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """relu(batch_norm(conv2d(x))), the norm as in evaluation.

    norm   gamma and beta, which may be None, running mean and running variance

    On a device `run_on_device` launches kernels/conv_bn_relu/3_epilogue.cu instead.
    """
    gamma, beta, mean, variance = norm
    y = aten.conv2d(x, weight, bias, stride, padding, dilation, groups)
    return aten.relu(aten.batch_norm(y, gamma, beta, mean, variance, False, 0.0, epsilon, False))


def linear_bn_relu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: Sequence[torch.Tensor | None],
    epsilon: float,
) -> torch.Tensor:
    """relu(batch_norm(linear(x))): to the kernel, a convolution of images of one pixel."""
    gamma, beta, mean, variance = norm
    y = aten.linear(x, weight, bias)
    return aten.relu(aten.batch_norm(y, gamma, beta, mean, variance, False, 0.0, epsilon, False))


FUSED = {aten.conv2d.default: conv_bn_relu, aten.linear.default: linear_bn_relu}


def use_shelf_kernels(graph: GraphModule) -> Rewrite:
    """Each layer whose only reader is a norm, and that one's only reader a ReLU, is one call.

    The conditions are those of `fold_batch_norm`; no weight changes.
    """
    rewrite = begin(graph)
    storages = Storages(rewrite.graph)
    for node in calls(rewrite.graph, aten.batch_norm.default):
        layer = Norm(*node.args).input
        if layer.target not in FUSED:
            continue
        refusal = why_not_folded(node, storages) or _why_no_relu(node)
        if refusal:
            rewrite.refuse(*refusal)
            continue
        (relu,) = node.users
        with rewrite.graph.graph.inserting_before(relu):
            fused = rewrite.graph.graph.call_function(FUSED[layer.target], _arguments(layer, node))
        fused.meta["val"] = relu.meta["val"]
        relu.replace_all_uses_with(fused)
        rewrite.done.append(f"{layer.name}, {node.name} and {relu.name} are {fused.name}")
        for gone in (relu, node, layer):
            rewrite.graph.graph.erase_node(gone)
    return rewrite.finish()


def _why_no_relu(node: Node) -> tuple[Node, Node, str] | None:
    for reader in node.users:
        if len(node.users) > 1:
            return node, reader, f"one of {len(node.users)} readers of what would not be written"
        if reader.target is not aten.relu.default:
            return node, reader, "the kernel ends in a ReLU, and this is none"
    return None


def _arguments(layer: Node, node: Node) -> tuple[object, ...]:
    given = {argument.name: value for argument, value in arguments(layer)}
    norm = Norm(*node.args)
    numbers = given["input"], given["weight"], given.get("bias"), norm[1:5], norm.epsilon
    if layer.target is aten.linear.default:
        return numbers
    return (
        *numbers, given.get("stride", [1, 1]), given.get("padding", [0, 0]),
        given.get("dilation", [1, 1]), given.get("groups", 1),
    )  # fmt: skip
