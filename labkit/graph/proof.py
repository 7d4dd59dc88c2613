"""A rewrite is a claim: `largest_difference` runs both graphs and says how far apart they are."""

import copy
from typing import Any

import torch
from torch.fx import GraphModule


def largest_difference(before: GraphModule, after: GraphModule, *inputs: torch.Tensor) -> float:
    """The largest distance of an element of the results, both computed in float64.

    NaN equals NaN, and an infinity equals itself.

    Raises   ValueError   the results differ in number, shape or dtype; or a graph changed one of
                          its inputs or attributes
    """
    one, other = (_run(graph, inputs) for graph in (before, after))
    if [(r.shape, r.dtype) for r in one] != [(r.shape, r.dtype) for r in other]:
        raise ValueError(f"results {_shapes(one)} became {_shapes(other)}")
    return max((_distance(a, b) for a, b in zip(one, other, strict=True)), default=0.0)


def _run(graph: GraphModule, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    wide = copy.deepcopy(graph).double()
    given = {f"input {i}": _double(one) for i, one in enumerate(inputs)}
    watched = {**given, **dict(wide.named_parameters()), **dict(wide.named_buffers())}
    kept = {name: one.detach().clone() for name, one in watched.items()}
    with torch.no_grad():
        results: Any = wide(*given.values())
    for name, tensor in watched.items():
        if not torch.equal(tensor.nan_to_num(), kept[name].nan_to_num()):
            raise ValueError(f"the graph writes to {name}")
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().double() if tensor.is_floating_point() else tensor.clone()


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    same = (a == b) | (a.isnan() & b.isnan())
    apart = torch.where(same, 0.0, (a.double() - b.double()).abs())
    return float(apart.nan_to_num(torch.inf).max()) if apart.numel() else 0.0


def _shapes(results: list[torch.Tensor]) -> list[tuple[int, ...]]:
    return [tuple(one.shape) for one in results]
