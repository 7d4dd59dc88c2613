"""Which nodes have to run when only some gradients are wanted.

Source   torch/csrc/autograd/graph_task.h  GraphTask::ExecInfo
         torch/csrc/autograd/engine.cpp  GraphTask::init_to_execute
"""

from collections.abc import Sequence

from labkit.autograd.node import Edge, Node


class ExecInfo:
    """What is to be done with one node.

    needed    it runs
    captures  (input number, result number): gradients that were asked for
    """

    __slots__ = ("captures", "needed")

    def __init__(self) -> None:
        self.needed = False
        self.captures: list[tuple[int, int]] = []

    @property
    def should_execute(self) -> bool:
        """Gradients have to come this far."""
        return self.needed or bool(self.captures)


def compute_exec_info(
    root: Node, outputs: Sequence[Edge], accumulate_grad: bool
) -> dict[Node, ExecInfo]:
    """Node -> what to do with it, for the nodes on a path to one of `outputs`.

    Source   torch/csrc/autograd/engine.cpp  GraphTask::init_to_execute
    """
    infos: dict[Node, ExecInfo] = {root: ExecInfo()}
    for number, (node, input_nr) in enumerate(outputs):
        info = infos.setdefault(node, ExecInfo())
        if accumulate_grad:
            info.needed = True
        else:
            info.captures.append((input_nr, number))
    for node in _children_first(root):
        if not node.next_edges:
            continue
        leads_there = any(
            edge and edge[0] in infos and infos[edge[0]].should_execute for edge in node.next_edges
        )
        if leads_there:
            infos.setdefault(node, ExecInfo()).needed = True
    return infos


def _children_first(root: Node) -> list[Node]:
    """Every node after all nodes its edges lead to; without recursion."""
    order: list[Node] = []
    seen = {root}
    stack = [(root, iter(root.next_edges))]
    while stack:
        node, edges = stack[-1]
        for edge in edges:
            if edge and edge[0] not in seen:
                seen.add(edge[0])
                stack.append((edge[0], iter(edge[0].next_edges)))
                break
        else:
            order.append(node)
            stack.pop()
    return order
