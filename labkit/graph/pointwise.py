"""`fuse_pointwise`: element-wise operators that feed each other become one generated kernel.

Source   torch/_inductor/scheduler.py  Scheduler.fuse_nodes
Differs  one result per kernel, where Inductor's may have several; a value that is broadcast is
         always written, where Inductor computes a cheap one anew; reductions are not fused
"""

from torch.fx import Graph, GraphModule, Node

from labkit.graph.codegen import PointwiseKernel, why_not_pointwise
from labkit.graph.rewrite import Rewrite, begin
from labkit.graph.storages import Storages, operator_name


def fuse_pointwise(graph: GraphModule) -> Rewrite:
    """Each group of element-wise nodes with one result is one kernel.

    A node joins the group of its readers when all of them are in it: then its value is needed
    nowhere else, and no way leads out of the group and back.
    """
    rewrite = begin(graph)
    storages = Storages(rewrite.graph)
    taken: set[Node] = set()
    for last in reversed(list(rewrite.graph.graph.nodes)):
        if last in taken or not _may_fuse(last, storages):
            continue
        group = _group(last, taken, storages)
        if len(group) > 1:
            taken |= group
            _replace(rewrite, [n for n in storages.order if n in group])
    _note_refusals(rewrite)
    return rewrite.finish()


def _may_fuse(node: Node, storages: Storages) -> bool:
    if node.op != "call_function" or why_not_pointwise(node):
        return False
    return not any(storages.is_written(one) for one in (node, *node.all_input_nodes))


def _group(last: Node, taken: set[Node], storages: Storages) -> set[Node]:
    group, waiting = {last}, [last]
    while waiting:
        for node in waiting.pop().all_input_nodes:
            if (
                node not in group | taken
                and set(node.users) <= group
                and node.meta["val"].shape == last.meta["val"].shape
                and _may_fuse(node, storages)
            ):
                group.add(node)
                waiting.append(node)
    return group


def single(node: Node) -> PointwiseKernel:
    """The kernel of one element-wise node; nodes of one operator share its text."""
    kernel, _ = _kernel(f"only_{operator_name(node)}", [node])
    for place, one in enumerate(kernel.inside.graph.find_nodes(op="placeholder")):
        one._rename(f"x{place}")
    kernel.result._rename("y")
    return kernel


def _kernel(name: str, group: list[Node]) -> tuple[PointwiseKernel, list[Node]]:
    """The kernel of a group in order, and what it reads; a value read twice is one input."""
    outside = [one for node in group for one in node.all_input_nodes if one not in group]
    inputs = list(dict.fromkeys(outside))
    inside = Graph()
    copies = {one: inside.placeholder(one.name) for one in inputs}
    for one, copied in copies.items():
        copied.meta = dict(one.meta)
    for node in group:
        copies[node] = inside.node_copy(node, lambda one: copies[one])
    inside.output(copies[group[-1]])
    return PointwiseKernel(name, GraphModule({}, inside)), inputs


def _replace(rewrite: Rewrite, group: list[Node]) -> None:
    graph, last = rewrite.graph.graph, group[-1]
    name = "fused_" + "_".join(node.name for node in group)
    kernel, inputs = _kernel(name if len(name) <= 40 else f"fused_{last.name}", group)
    rewrite.graph.add_submodule(kernel.name, kernel)
    with graph.inserting_before(last):
        fused = graph.call_module(kernel.name, tuple(inputs))
    fused.meta["val"] = last.meta["val"]
    last.replace_all_uses_with(fused)
    for node in reversed(group):
        graph.erase_node(node)
    rewrite.done.append(f"{', '.join(node.name for node in group)} are {fused.name}")


def _note_refusals(rewrite: Rewrite) -> None:
    """Why an element-wise node still writes a value that an element-wise node reads."""
    storages = Storages(rewrite.graph)
    for node in rewrite.graph.graph.nodes:
        if not _makes_elements(node, storages):
            continue
        for reader in node.users:
            if not _makes_elements(reader, storages):
                continue
            others = [user.name for user in node.users if user is not reader]
            if others:
                rewrite.refuse(node, reader, f"{others[0]} reads it too, so it is written anyway")
            else:
                rewrite.refuse(node, reader, "it is broadcast: each element would be made anew")


def _makes_elements(node: Node, storages: Storages) -> bool:
    return node.op == "call_module" or _may_fuse(node, storages)
