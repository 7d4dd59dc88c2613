"""A recorded graph as plain data, the same for PyTorch's nodes and labkit's.

Source   torch/csrc/autograd/python_cpp_function.cpp  THPCppFunction_next_functions
"""

from collections.abc import Sequence
from typing import Any

Row = tuple[str, tuple[tuple[int, int] | None, ...]]


def graph(outputs: Sequence[Any], leaves: Sequence[Any]) -> tuple[list[Row], list[int]]:
    """Every node behind the outputs, and the order in which they were recorded.

    Rows are (name, edges) in depth-first order; an edge is (row, input number of that node), or
    None where no gradient goes. The accumulator of leaf i is called "AccumulateGrad i". The order
    lists rows by sequence number.
    """
    places = {id(leaf): place for place, leaf in enumerate(leaves)}
    found = nodes(outputs)
    numbers = {node: number for number, node in enumerate(found)}
    rows = [
        (_name(node, places), tuple([_edge(edge, numbers) for edge in node.next_functions]))
        for node in found
    ]
    computed = [i for i, node in enumerate(found) if not rows[i][0].startswith("AccumulateGrad")]
    order = sorted(computed, key=lambda i: found[i]._sequence_nr())
    return rows, order


def nodes(outputs: Sequence[Any]) -> list[Any]:
    """Every node behind the outputs, depth first."""
    seen: set[Any] = set()
    found: list[Any] = []
    stack = [output.grad_fn for output in reversed(outputs) if output.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        found.append(node)
        stack += [after for after, _ in reversed(node.next_functions) if after is not None]
    return found


def _edge(edge: tuple[Any, int], numbers: dict[Any, int]) -> tuple[int, int] | None:
    node, position = edge
    return None if node is None else (numbers[node], position)


def _name(node: Any, places: dict[int, int]) -> str:
    name: str = node.name()
    name = name.rpartition("::")[2]
    if "AccumulateGrad" in name:
        return f"AccumulateGrad {places.get(id(node.variable), '?')}"
    return name


def difference(theirs: tuple[list[Row], list[int]], ours: tuple[list[Row], list[int]]) -> str:
    """Where the two graphs differ first; "" where they are equal."""
    for row, (a, b) in enumerate(zip(theirs[0], ours[0], strict=False)):
        if a != b:
            return f"node {row}: torch {a}, labkit {b}"
    if len(theirs[0]) != len(ours[0]):
        return f"torch has {len(theirs[0])} nodes, labkit {len(ours[0])}"
    if theirs[1] != ours[1]:
        return f"torch recorded them in the order {theirs[1]}, labkit in {ours[1]}"
    return ""
