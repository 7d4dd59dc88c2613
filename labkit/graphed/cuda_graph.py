"""One captured graph, and the private pool that its memory comes from.

The addresses that a graph writes to are written into it, so nobody else may get them while it can
be replayed: its memory comes from a private pool, which the graph holds as long as it lives.

Source   torch/cuda/graphs.py  CUDAGraph, graph; aten/src/ATen/cuda/CUDAGraph.cpp
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from labkit.cuda.driver import Driver
from labkit.cuda.errors import CudaError
from labkit.cuda.graph import Graph, GraphExec
from labkit.cuda.operation import Node
from labkit.cuda.select import current_driver
from labkit.cuda.stream import Stream, current_stream
from labkit.cuda.tensor_memory import serving
from labkit.memory.history import MempoolId
from labkit.memory.storages.storage_allocator import StorageAllocator


def storages() -> StorageAllocator:
    """Who serves "cuda" now, with a caching allocator.

    Raises   RuntimeError   each tensor asks the driver itself, which a capture does not allow
    """
    found: Any = serving()
    found = getattr(found, "current", found)
    if not isinstance(found, StorageAllocator):
        raise RuntimeError(
            "a graph needs the caching allocator, which gives it a private pool: "
            "labkit.memory.storages.cuda_storages.install() first"
        )
    return found


def graph_pool_handle() -> MempoolId:
    """The id of a pool that several graphs may share."""
    return storages().allocator.private_pools.new_id()


def is_current_stream_capturing() -> bool:
    """True while what this thread queues becomes a graph."""
    driver = current_driver()
    return driver.stream_is_capturing(current_stream(driver).handle)


class CUDAGraph:
    """A graph that is captured once and replayed any number of times.

    Source   aten/src/ATen/cuda/CUDAGraph.h  CUDAGraph
    Differs  it is instantiated when the capture ends, and no recipe is kept
    """

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._storages: StorageAllocator | None = None
        self._stream = 0
        self._pool: MempoolId | None = None
        self._executable: GraphExec | None = None
        self.nodes: Sequence[Node] = ()
        """What was captured: each operation, and what it comes after; on a GPU one item, which only
        its driver can read.
        """

    def capture_begin(self, pool: MempoolId | None = None) -> None:
        """What the current stream is given becomes this graph; tensors made there live in its pool.

        pool   of another graph or from `graph_pool_handle`; None: a new one

        Raises   RuntimeError   the default stream is current, or a graph was captured already
        """
        if self._pool is not None:
            raise RuntimeError("this CUDAGraph has captured a graph already: make another one")
        driver = current_driver()
        stream = current_stream(driver).handle
        if stream == 0:
            raise RuntimeError(
                "the default stream cannot capture: make another stream current; the graph may be "
                "replayed on any"
            )
        serves = storages()
        pools = serves.allocator.private_pools
        driver.stream_begin_capture(stream)
        self._driver, self._storages, self._stream = driver, serves, stream
        self._pool = pool or pools.new_id()
        pools.begin(self._pool, driver.stream_is_capturing, capture=True)

    def capture_end(self) -> None:
        """The graph can be replayed.

        Raises   CaptureError   the capture was made void, or a stream was not joined back
        """
        if self._driver is None or self._storages is None or self._pool is None:
            raise RuntimeError("capture_end comes after capture_begin")
        pools = self._storages.allocator.private_pools
        recipe = Graph(self._driver)
        try:
            recipe.nodes = list(self._driver.stream_end_capture(self._stream))
        except CudaError:
            pools.end(self._pool)
            self.reset()
            raise
        pools.end(self._pool)
        self.nodes, self._executable = tuple(recipe.nodes), recipe.instantiate()

    def replay(self) -> None:
        """Every node is queued on the current stream, by one call of the driver.

        Raises   RuntimeError   nothing was captured
        """
        if self._executable is None:
            raise RuntimeError("replay comes after a capture that succeeded")
        self._executable.replay()

    def pool(self) -> MempoolId:
        """The id of its private pool.

        Raises   RuntimeError   nothing was captured
        """
        if self._pool is None:
            raise RuntimeError("a graph has a pool once it is captured")
        return self._pool

    def reset(self) -> None:
        """There is no graph, and one holder of the pool less."""
        if self._pool is not None and self._storages is not None:
            self._storages.release_pool(self._pool)
        self._pool, self._executable, self.nodes = None, None, ()

    def __del__(self) -> None:
        self.reset()

    def __repr__(self) -> str:
        if not all(isinstance(node, Node) for node in self.nodes):
            return "CUDAGraph(captured by the driver)"
        edges = sum(len(node.after) for node in self.nodes)
        return f"CUDAGraph({len(self.nodes)} nodes, {edges} edges)"


class graph:
    """Inside, what is queued becomes `cuda_graph`: `with graph(cuda_graph):`.

    pool     whose memory tensors are made of; None: the graph's own
    stream   captures, and is current inside; by default a side stream

    Raises   CaptureError   at the end, as `capture_end`

    Source   torch/cuda/graphs.py  graph
    Differs  an error of the body is told, and not the one that ends its void capture
    """

    def __init__(
        self, cuda_graph: CUDAGraph, pool: MempoolId | None = None, stream: Stream | None = None
    ) -> None:
        self.cuda_graph, self.pool = cuda_graph, pool
        self.capture_stream = stream or Stream()

    def __enter__(self) -> None:
        self.capture_stream.driver.synchronize()
        storages().empty_cache()  # room for the graph
        self.capture_stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool)
        except BaseException as error:
            self.capture_stream.__exit__(type(error), error, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.cuda_graph.capture_end()
        except CudaError:
            if error is None:
                raise
        finally:
            self.capture_stream.__exit__(kind, error, traceback)
        if error is not None:
            self.cuda_graph.reset()
