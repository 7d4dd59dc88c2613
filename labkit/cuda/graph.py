"""CUDA graphs: captured from a stream or built node by node, then replayed with one call.

Source   aten/src/ATen/cuda/CUDAGraph.h  CUDAGraph; torch/cuda/graphs.py
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from labkit.cuda import arguments
from labkit.cuda.driver import Driver
from labkit.cuda.errors import ArgumentError, InvalidValueError
from labkit.cuda.launch import as_dim3
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

    def _add(self, operation: Operation, after: Sequence[int]) -> int:
        wrong = [i for i in after if not 0 <= i < len(self.nodes)]
        if wrong:
            raise InvalidValueError(f"there are nodes 0 to {len(self.nodes) - 1}, not {wrong}")
        self.nodes.append(Node(operation, tuple(after)))
        return len(self.nodes) - 1

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
        grid3, block3 = as_dim3(grid, "grid"), as_dim3(block, "block")
        kernel.check(grid3, block3, shared_mem)
        operation = Operation(
            "kernel", kernel.name, function=kernel.function, grid=grid3, block=block3,
            args=self._packed(kernel.function, kernel.name, args), shared_bytes=shared_mem,
            keep=tuple(args),
        )  # fmt: skip
        return self._add(operation, after)

    def _packed(self, function: Any, name: str, args: Sequence[Any]) -> tuple[bytes, ...]:
        bound = arguments.bind(args, function.signature, name, self.driver)
        if bound.host:
            raise ArgumentError(
                f"argument {bound.host[0][0]} of {name} is on the host; a graph needs device memory"
            )
        return tuple(bound.packed)

    def add_memcpy(self, dst: int, src: int, size_bytes: int, *, after: Sequence[int] = ()) -> int:
        """A copy between two addresses, of the device or the host."""
        return self._add(
            Operation("memcpy", "memcpy", dst=dst, src=src, size_bytes=size_bytes), after
        )

    def add_memset(
        self, address: int, byte: int, size_bytes: int, *, after: Sequence[int] = ()
    ) -> int:
        """Every byte of a range gets one value."""
        return self._add(
            Operation("memset", "memset", dst=address, byte=byte, size_bytes=size_bytes), after
        )

    def add_host(self, function: Callable[[], None], *, after: Sequence[int] = ()) -> int:
        """A call on the host."""
        return self._add(Operation("host", "host function", call=function), after)

    def add_empty(self, *, after: Sequence[int] = ()) -> int:
        """Nothing: a place where branches join."""
        return self._add(Operation("empty", "join"), after)

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
        self._nodes = list(graph.nodes)
        self._graph = graph
        self._executable = self.driver.graph_instantiate(self._nodes)

    def replay(self, stream: Stream | int | None = None) -> None:
        """Every node is queued, in an order its edges allow."""
        self.driver.graph_launch(self._executable, handle_of(stream, self.driver))

    def set_kernel_args(self, node: int, args: Sequence[Any]) -> None:
        """The next replays launch that node with other arguments."""
        operation = self._nodes[node].operation
        if operation.kind != "kernel":
            raise InvalidValueError(f"node {node} is a {operation.kind}, not a kernel")
        packed = self._graph._packed(operation.function, operation.name, args)
        self._nodes[node] = Node(operation.with_args(packed), self._nodes[node].after)
        self._executable = self.driver.graph_instantiate(self._nodes)


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
