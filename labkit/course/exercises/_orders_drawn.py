"""Pictures of a failing case: an order, and the place at which an answer's own differs."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from labkit.core.dispatch_key_set import keyset
from labkit.course.exercise import Case
from labkit.widgets.graph.graph_view import GraphView

MOST_NODES = 40


def engine_drawn(case: Case, got: Any, order: Sequence[str]) -> GraphView | None:
    """The graph with the right order beside its nodes; the first one that ran otherwise is marked.

    order   the right one; got["order"] is the answer's
    """
    (spec,) = case.inputs
    if spec["shape"] != "random" or len(spec["nodes"]) > MOST_NODES:
        return None
    names = [f"n{number}" for number in reversed(range(len(spec["nodes"])))]
    names += [f"leaf{number}" for number in range(spec["leaves"])]
    place = {name: at for at, name in enumerate(names)}
    edges = [
        {"source": place[f"n{number}"], "target": place[edge[0]], "label": str(edge[1] or "")}
        for number, targets in enumerate(spec["nodes"])
        for edge in targets
        if edge is not None
    ]
    mine = list(got["order"]) if isinstance(got, Mapping) else []
    said, wrong = _parting(mine, order)
    return GraphView(
        [{"label": name} for name in names],
        edges,
        [
            {
                "text": said,
                "marks": {place[wrong]: "error"} if wrong in place else {},
                "notes": {place[name]: f"{at}." for at, name in enumerate(order, start=1)},
            }
        ],
        title="the order in which the nodes should run",
        simple=True,
    )


def hops_drawn(case: Case, got: Any, right: Any) -> GraphView | None:
    """The hops of the call, each with what stands in its slot."""
    word, mask, table = case.inputs
    hops, mine = right, got if isinstance(got, list) else []
    nodes = [
        {"label": "the set", "badges": [_highest(word)]},
        {"label": "word & mask", "badges": [_highest(word & mask)]},
        *({"label": hop, "badges": [_kind(table.get(hop, "nothing there"))]} for hop in hops),
    ]
    edges = [{"source": at, "target": at + 1} for at in range(len(nodes) - 1)]
    said, wrong = _parting(mine, hops)
    marks = {hops.index(wrong) + 2: "error"} if wrong in hops else {}
    frames = [{"text": said, "marks": marks}]
    return GraphView(nodes, edges, frames, title="the hops of one call", simple=True)


def _parting(mine: Sequence[str], right: Sequence[str]) -> tuple[str, str]:
    """In words, where the two part; and who is right there."""
    at = next((n for n, pair in enumerate(zip(mine, right, strict=False)) if pair[0] != pair[1]),
              min(len(mine), len(right)))  # fmt: skip
    wanted = right[at] if at < len(right) else "nobody"
    yours = mine[at] if at < len(mine) else "nobody"
    if wanted == yours:
        return "the order is right; something else is not", ""
    return f"number {at + 1} is {wanted}; in yours it is {yours}", wanted


def _highest(word: int) -> str:
    return f"top: {keyset(word).slot_key()}"


def _kind(kind: str | int) -> str:
    return f"own set, {_highest(kind)}" if isinstance(kind, int) else str(kind)


def tensors_drawn(got: Any, right: Any) -> Any:
    """The first tensor that differs, the answer's beside the right one; None where none does."""
    from labkit import show

    for yours, wanted in _pairs(got, right):
        if yours.shape != wanted.shape:
            return show.strides(yours, wanted, names=["yours", "should be"])
        near = torch.isclose(yours, wanted.to(yours.dtype), rtol=1e-4, atol=1e-6)
        if not near.all():
            rounded = torch.where(near, yours, wanted.to(yours.dtype))
            return show.strides(yours, rounded, names=["yours", "should be"], compare=True)
    return None


def _pairs(got: Any, right: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tensors at the same place of two structures."""
    if isinstance(got, torch.Tensor) and isinstance(right, torch.Tensor):
        return [(got, right)]
    if isinstance(got, Mapping) and isinstance(right, Mapping):
        return [pair for name in right for pair in _pairs(got.get(name), right[name])]
    if isinstance(got, list | tuple) and isinstance(right, list | tuple):
        both = zip(got, right, strict=False)
        return [pair for one, other in both for pair in _pairs(one, other)]
    return []
