"""Graph capture: what streams are given becomes nodes, and events carry a capture across streams.

Source   CUDA Runtime API  cudaStreamBeginCapture, cudaStreamEndCapture
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from labkit.cuda.errors import CaptureError, InvalidValueError
from labkit.cuda.operation import Node, Operation


class Capture:
    """A graph in the making: nodes, and per stream the nodes its next one comes after."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.nodes: list[Node] = []
        self.last: dict[int, tuple[int, ...]] = {origin: ()}
        self.invalid = False

    def add(self, stream: int, operation: Operation) -> None:
        """A node behind the stream's last one."""
        self.nodes.append(Node(operation, self.last.get(stream, ())))
        self.last[stream] = (len(self.nodes) - 1,)

    def join(self, stream: int, nodes: tuple[int, ...]) -> None:
        """The stream's next node comes after these, too."""
        self.last[stream] = tuple(sorted({*self.last.get(stream, ()), *nodes}))

    def not_joined(self) -> list[int]:
        """Nodes that nothing leads from to the origin's last one."""
        reached, stack = set(), list(self.last.get(self.origin, ()))
        while stack:
            index = stack.pop()
            if index not in reached:
                reached.add(index)
                stack.extend(self.nodes[index].after)
        return [i for i in range(len(self.nodes)) if i not in reached]


class Captures:
    """All captures of a device: who takes part in which, and which event belongs to one."""

    def __init__(self) -> None:
        self._of_stream: dict[int, Capture] = {}
        self._of_event: dict[int, tuple[Capture, tuple[int, ...]]] = {}
        self._thread = threading.local()

    def of(self, stream: int) -> Capture | None:
        """The capture a stream takes part in."""
        return self._of_stream.get(stream)

    def take(self, stream: int, operation: Operation) -> bool:
        """True when the operation became a node of the graph that the stream captures.

        Raises   CaptureError   it is the default stream's, and another stream captures
        """
        capture = self._of_stream.get(stream)
        if capture is not None:
            capture.add(stream, operation)
        elif self._of_stream and stream == 0:
            raise CaptureError("the default stream cannot be used while a stream captures")
        return capture is not None

    def refuse(self, what: str) -> None:
        """Make every capture void, if there is one.

        Raises   CaptureError   there is one
        """
        if self._of_stream:
            for capture in self._of_stream.values():
                capture.invalid = True
            raise CaptureError(
                f"{what} is not allowed while a stream captures; the capture is void"
            )

    @contextlib.contextmanager
    def relaxed(self) -> Iterator[None]:
        """Inside, this thread may do what is only unsafe while a stream captures."""
        before = getattr(self._thread, "relaxed", False)
        self._thread.relaxed = True
        try:
            yield
        finally:
            self._thread.relaxed = before

    def refuse_unsafe(self, what: str) -> None:
        """As `refuse`, unless this thread is `relaxed`."""
        if not getattr(self._thread, "relaxed", False):
            self.refuse(what)

    def begin(self, stream: int) -> None:
        """The stream captures from now on."""
        if stream == 0:
            raise CaptureError(
                "the default stream cannot capture", "cudaErrorStreamCaptureImplicit"
            )
        if stream in self._of_stream:
            raise CaptureError(f"stream {stream} captures already")
        self._of_stream[stream] = Capture(stream)

    def end(self, stream: int) -> list[Node]:
        """The nodes of the capture that this stream began.

        Raises   CaptureError   it began none, it was made void, or a stream that joined it was not
                                joined back
        """
        capture = self._of_stream.get(stream)
        if capture is None or capture.origin != stream:
            raise CaptureError(f"stream {stream} did not begin a capture")
        for member in [s for s, c in self._of_stream.items() if c is capture]:
            del self._of_stream[member]
        for event in [e for e, (c, _) in self._of_event.items() if c is capture]:
            del self._of_event[event]
        if capture.invalid:
            raise CaptureError("the capture was made void", "cudaErrorStreamCaptureInvalidated")
        lost = capture.not_joined()
        if lost:
            names = [capture.nodes[i].operation.name for i in lost]
            raise CaptureError(
                f"{names} ran on a stream that was never joined back to stream {stream}",
                "cudaErrorStreamCaptureUnjoined",
            )
        return capture.nodes

    def record(self, event: int, stream: int) -> bool:
        """True when the mark belongs to a capture; otherwise the event is free of any."""
        capture = self._of_stream.get(stream)
        if capture is None:
            self._of_event.pop(event, None)
            return False
        self._of_event[event] = (capture, capture.last.get(stream, ()))
        return True

    def wait(self, stream: int, event: int) -> bool:
        """True when the event belongs to a capture, which the stream has then joined.

        Raises   CaptureError   the stream takes part in another one
        """
        if event not in self._of_event:
            return False
        capture, nodes = self._of_event[event]
        if self._of_stream.get(stream, capture) is not capture:
            raise CaptureError(f"stream {stream} captures another graph")
        self._of_stream[stream] = capture
        capture.join(stream, nodes)
        return True

    def forget(self, event: int) -> None:
        """The event is gone."""
        self._of_event.pop(event, None)

    def clear(self) -> None:
        """Nothing captures."""
        self._of_stream.clear()
        self._of_event.clear()


def checked(nodes: Sequence[Node]) -> list[Node]:
    """Copies of the nodes, independent of the graph they came from.

    Raises   InvalidValueError   a node comes after itself or one that does not exist yet
    """
    for index, node in enumerate(nodes):
        wrong = [i for i in node.after if not 0 <= i < index]
        if wrong:
            raise InvalidValueError(f"node {index} cannot come after nodes {wrong}")
    return [Node(node.operation, node.after) for node in nodes]
