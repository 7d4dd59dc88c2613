"""What a pass hands back: the new graph, what it did, and each edge that stopped it."""

import copy
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, GraphModule, Node


@dataclass(frozen=True)
class Refusal:
    """A rewrite that would have changed results, and the edge that forbids it.

    producer, reader   the nodes at the edge's ends, by name
    """

    producer: str
    reader: str
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} -> {self.reader}: {self.reason}"


@dataclass
class Rewrite:
    """A pass over a graph. `before` stays as it was, and so do all tensors it reads."""

    before: GraphModule
    graph: GraphModule
    done: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def refuse(self, producer: Node, reader: Node, reason: str) -> None:
        """Note an edge that stays as it is."""
        self.refused.append(Refusal(producer.name, reader.name, reason))

    def finish(self) -> "Rewrite":
        """The graph has been checked and its Python written anew."""
        self.graph.graph.lint()
        self.graph.recompile()
        return self

    def __str__(self) -> str:
        refused = [f"refused  {one}" for one in self.refused]
        return "\n".join([*(f"done     {one}" for one in self.done), *refused]) or "nothing to do"


def begin(graph: GraphModule) -> Rewrite:
    """A rewrite that works on a copy of the graph; the tensors are the graph's own."""
    return Rewrite(graph, GraphModule(graph, copy.deepcopy(graph.graph)))


def calls(graph: Graph | GraphModule, *targets: object) -> list[Node]:
    """The nodes that call one of these functions, in order."""
    nodes = graph.graph.nodes if isinstance(graph, GraphModule) else graph.nodes
    return [node for node in nodes if node.op == "call_function" and node.target in targets]


def attribute(graph: GraphModule, node: Node) -> torch.Tensor:
    """The tensor that a get_attr node reads."""
    tensor = getattr(graph, str(node.target))
    assert isinstance(tensor, torch.Tensor)
    return tensor


def add_attribute(graph: GraphModule, name: str, tensor: torch.Tensor, before: Node) -> Node:
    """A get_attr node for a new tensor of the graph, just before another node."""
    while hasattr(graph, name):
        name += "_"
    graph.register_buffer(name, tensor)
    with graph.graph.inserting_before(before):
        node = graph.graph.get_attr(name)
    node.meta["val"] = tensor
    return node
