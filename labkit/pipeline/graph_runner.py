"""A function of tensors as one replay: a CUDA graph on a GPU, its stand-in elsewhere.

    runner = GraphRunner(network)
    better = runner(frames)             # captured at the first frames of a shape, then replayed

Source   torch/cuda/graphs.py  CUDAGraph, graph, make_graphed_callables
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WARM_UPS = 3  # as make_graphed_callables
READ = "aten::_local_scalar_dense"  # item(), bool(), float()


class OperatorGraph:
    """Operators with the tensors they read and wrote: what a CUDA graph is, without a GPU.

    steps  (operator, its arguments, its keyword arguments, its result) in order

    Differs  a capture runs what it writes down; a replay makes new memory, and copies from it.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def replay(self) -> None:
        """Every operator has run again on the same tensors, and its result is where it was."""
        for operator, args, kwargs, result in self.steps:
            again = operator(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class _Capturing(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, graph: OperatorGraph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if operator.name() == READ:
            raise RuntimeError("a capture cannot read a tensor's number: no kernel has run yet")
        result = operator(*args, **(kwargs or {}))
        self.graph.steps.append((operator, args, kwargs or {}, result))
        return result


def capture(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Any, Tensor]:
    """(a graph of `function(x)`, its result); `graph.replay()` computes it again from `x`.

    Raises   RuntimeError   the function reads numbers back, which a capture does not allow
    """
    if x.device.type == "cuda":
        return captured_on_gpu(function, x)
    return recorded(function, x)


def recorded(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[OperatorGraph, Tensor]:
    """(the operators that `function(x)` ran, its result).

    Raises   RuntimeError   the function reads numbers back
    """
    graph = OperatorGraph()
    with _Capturing(graph):
        result = function(x)
    return graph, result


def captured_on_gpu(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Any, Tensor]:
    """What `capture` returns for a tensor on a GPU."""
    here, side = torch.cuda.current_stream(x.device), torch.cuda.Stream(x.device)
    side.wait_stream(here)
    with torch.cuda.stream(side):  # what only a first call does is done outside of the capture
        for _ in range(WARM_UPS):
            function(x)
    here.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(x)
    return graph, result


class GraphRunner:
    """`function` of one tensor, captured once for each shape, element type and device.

    A call copies in, replays, and copies out. Weights are read where they are: one that is changed
    in place counts from the next call on.

    most  how many graphs are kept; for further shapes the function is called as it is

    Raises   RuntimeError   at a call, when the function cannot be captured
    """

    def __init__(self, function: Callable[[Tensor], Tensor], most: int = 8) -> None:
        self.function, self.most = function, most
        self._graphs: dict[Any, tuple[Tensor, Any, Tensor]] = {}

    def __len__(self) -> int:
        """How many graphs it keeps."""
        return len(self._graphs)

    def __call__(self, x: Tensor) -> Tensor:
        """What `function(x)` gives, in memory of its own."""
        key = x.shape, x.dtype, x.device
        if key not in self._graphs:
            if len(self._graphs) == self.most:
                return self.function(x)
            static = x.clone()
            self._graphs[key] = (static, *capture(self.function, static))
        static, graph, result = self._graphs[key]
        static.copy_(x)
        graph.replay()
        return result.clone()
