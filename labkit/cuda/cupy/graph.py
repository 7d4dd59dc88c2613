"""Graphs on a real GPU: as the driver captured them, and made from nodes by capturing."""

import contextlib
from collections.abc import Sequence
from typing import Any

from cupy.cuda import runtime

from labkit.cuda.operation import Node


class Captured:
    """A graph as the driver captured it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.after: tuple[int, ...] = ()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            runtime.graphDestroy(self.handle)


class Executable:
    """An instantiated graph, and what it must keep alive."""

    def __init__(self, handle: int, keep: Sequence[Any]) -> None:
        self.handle, self.keep = handle, keep

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            runtime.graphExecDestroy(self.handle)


def captured_from_nodes(driver: Any, nodes: Sequence[Node]) -> Executable:
    """The graph, captured from streams that are given its nodes, one each."""
    origin = driver.stream_create(non_blocking=True)
    streams = [driver.stream_create(non_blocking=True) for _ in nodes]
    events = [driver.event_create() for _ in range(len(nodes) + 1)]
    driver.stream_begin_capture(origin)
    driver.event_record(events[-1], origin)
    for node, stream, event in zip(nodes, streams, events[:-1], strict=True):
        for earlier in node.after:
            driver.stream_wait_event(stream, events[earlier])
        if not node.after:
            driver.stream_wait_event(stream, events[-1])
        _queue(driver, node, stream)
        driver.event_record(event, stream)
    for event in events[:-1]:
        driver.stream_wait_event(origin, event)
    (captured,) = driver.stream_end_capture(origin)
    executable: Executable = driver.graph_instantiate([captured])
    executable.keep = nodes
    for stream in (*streams, origin):
        driver.stream_destroy(stream)
    for event in events:
        driver.event_destroy(event)
    return executable


def _queue(driver: Any, node: Node, stream: int) -> None:
    one = node.operation
    if one.kind == "kernel":
        driver.launch(one, stream)
    elif one.kind == "memcpy":
        driver.memcpy_async(one.dst, one.src, one.size_bytes, stream)
    elif one.kind == "memset":
        driver.memset_async(one.dst, one.byte, one.size_bytes, stream)
    elif one.call is not None:
        driver.launch_host_function(stream, one.call)
