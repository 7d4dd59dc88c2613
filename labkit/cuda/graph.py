"""CUDA graphs: captured from a stream or built launch by launch, then replayed with one call.

Source   aten/src/ATen/cuda/CUDAGraph.h  CUDAGraph; torch/cuda/graphs.py
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from labkit.cuda import arguments
from labkit.cuda.driver import Driver
from labkit.cuda.errors import ArgumentError, InvalidValueError
from labkit.cuda.launch import check_launch
from labkit.cuda.module import RawKernel
from labkit.cuda.operation import Node, Operation
from labkit.cuda.select import current_driver
from labkit.cuda.stream import Stream, handle_of


class Graph:
    """Operations and what each comes after. Nodes are numbered in the order they were added.

    `after` names earlier nodes; a node with none may run as soon as the graph does.
    """

    def __init__(self, driver: Driver | None = None) -> None:
        self.driver = driver or current_driver()
        self.nodes: list[Node] = []

    def add_kernel(
        self,
        kernel: RawKernel,
        grid: Any,
        block: Any,
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        after: Sequence[int] = (),
    ) -> int:
        """A launch. Arrays must live on the device: a graph replays addresses, not copies."""
        grid3, block3 = check_launch(grid, block, shared_mem, kernel.limits)
        bound = arguments.bind(args, kernel.function.signature, kernel.name, self.driver)
        if bound.host:
            raise ArgumentError(
                f"argument {bound.host[0][0]} of {kernel.name} is on the host; a graph needs "
                "device memory"
            )
        wrong = [i for i in after if not 0 <= i < len(self.nodes)]
        if wrong:
            raise InvalidValueError(f"there are nodes 0 to {len(self.nodes) - 1}, not {wrong}")
        operation = Operation(
            "kernel", kernel.name, function=kernel.function, grid=grid3, block=block3,
            args=tuple(bound.packed), shared_bytes=shared_mem, keep=tuple(args),
        )  # fmt: skip
        self.nodes.append(Node(operation, tuple(after)))
        return len(self.nodes) - 1

    def instantiate(self) -> "GraphExec":
        """The graph, ready to run any number of times; later changes to this one do not matter."""
        return GraphExec(self)

    def __repr__(self) -> str:
        edges = sum(len(node.after) for node in self.nodes)
        return f"Graph({len(self.nodes)} nodes, {edges} edges)"


class GraphExec:
    """An instantiated graph."""

    def __init__(self, graph: Graph) -> None:
        self.driver = graph.driver
        self._executable = self.driver.graph_instantiate(list(graph.nodes))

    def replay(self, stream: Stream | int | None = None) -> None:
        """Every node is queued, in an order its edges allow."""
        self.driver.graph_launch(self._executable, handle_of(stream, self.driver))


class capture:
    """What is queued on `stream` inside becomes a graph: `with capture(stream) as graph:`.

    The stream is current inside; the graph is complete after the block.

    Raises   CaptureError   at the end, when the capture was made void or a branch was not joined
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.graph = Graph(stream.driver)

    def __enter__(self) -> Graph:
        self.stream.driver.stream_begin_capture(self.stream.handle)
        self.stream.__enter__()
        return self.graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stream.__exit__(kind, error, traceback)
        if error is None:
            self.graph.nodes = list(self.stream.driver.stream_end_capture(self.stream.handle))
            return
        try:
            self.stream.driver.stream_end_capture(self.stream.handle)
        except RuntimeError:
            return  # the first error is the one to tell
