"""Graphs as a program asks for them: captured, built node by node, changed and launched."""

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Node, Operation
from labkit.cuda.programs.calls_launch import LaunchCalls, Wanted
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question

_PLACE = 20
"""A node is called (graph << 20) + its place + 1, which no pointer and no other node is."""
_FILL = struct.Struct("<QQIIQQ")
_HANDLE_BYTES = 4
_IF, _WHILE, _SWITCH = range(3)
_ASSIGN_DEFAULT = 1
_SET_DEPENDENCIES = 1
_MOST_ROUNDS = 1 << 20


@dataclass
class _Graph:
    """A graph in the making.

    nodes   in the order they were added
    values  (address, value) that a launch starts the values of its conditions with
    """

    nodes: list[Node] = field(default_factory=list)
    values: list[tuple[int, int]] = field(default_factory=list)


class GraphCalls:
    """The runtime's graph functions."""

    def __init__(self, session: Session, launches: LaunchCalls) -> None:
        self._session, self._driver, self._launches = session, session.driver, launches
        self._graphs: dict[int, _Graph] = {}
        self._ready: dict[int, _Graph] = {}
        self._numbers = itertools.count(1)
        self._into: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Stream -> the graph that its capture is added to, behind which nodes."""
        self._bodies: int | None = None

    # Capture

    def cudaStreamBeginCapture(self, question: Question) -> Answer:
        self._driver.stream_begin_capture(self._session.stream(question.numbers[0]))
        return Answer()

    def cuemu_capture_into(self, question: Question) -> Answer:
        stream = self._session.stream(question.numbers[0])
        self._graph(question, 1)
        self._driver.stream_begin_capture(stream)
        self._into[stream] = question.numbers[1], _places(question.data)
        return Answer()

    def cudaStreamEndCapture(self, question: Question) -> Answer:
        stream = self._session.stream(question.numbers[0])
        number, behind = self._into.pop(stream, (0, ()))
        nodes = self._driver.stream_end_capture(stream)
        if not number:
            return Answer((self._number_of(nodes),))
        whole = self._graphs[number].nodes
        first = len(whole)
        for node in nodes:
            after = tuple(first + place for place in node.after) or behind
            whole.append(replace(node, after=after))
        return Answer((number,))

    def cuemu_capture_info(self, question: Question) -> Answer:
        stream = self._session.stream(question.numbers[0])
        capture = self._driver.capture_of(stream)
        if capture is None:
            return Answer()
        number = self._number_of(capture.nodes)
        after = (self._node(number, place) for place in capture.last.get(stream, ()))
        return Answer((2 if capture.invalid else 1, number), _packed(after))

    def cuemu_capture_after(self, question: Question) -> Answer:
        stream = self._session.stream(question.numbers[0])
        capture = self._driver.capture_of(stream)
        if capture is None:
            raise InvalidValueError("the stream does not capture", "cudaErrorIllegalState")
        if question.numbers[1] == _SET_DEPENDENCIES:
            capture.last[stream] = ()
        capture.join(stream, _places(question.data))
        return Answer()

    def _number_of(self, nodes: list[Node]) -> int:
        """The graph that these nodes are, whose capture may still be under way."""
        for number, graph in self._graphs.items():
            if graph.nodes is nodes:
                return number
        return self._kept(_Graph(nodes))

    def _kept(self, graph: _Graph) -> int:
        number = next(self._numbers)
        self._graphs[number] = graph
        return number

    # Nodes

    def cudaGraphCreate(self, question: Question) -> Answer:
        return Answer((self._kept(_Graph()),))

    def cudaGraphClone(self, question: Question) -> Answer:
        graph = self._graph(question)
        return Answer((self._kept(_Graph(list(graph.nodes), list(graph.values))),))

    def cudaGraphAddKernelNode(self, question: Question) -> Answer:
        return self._added(question, self._kernel(question))

    def _kernel(self, question: Question) -> Operation:
        wanted = Wanted.read(question.data[8 * question.numbers[1] :])
        place = question.numbers[2], question.numbers[3]
        return self._launches.operation(place, wanted, question.numbers[4])

    def cudaGraphAddHostNode(self, question: Question) -> Answer:
        function, argument = question.numbers[2:4]

        def call() -> None:
            self._session.call_host(function, argument, None)

        return self._added(question, Operation("host", "host function", call=call))

    def cudaGraphAddMemsetNode(self, question: Question) -> Answer:
        head = 8 * question.numbers[1]
        to, pitch, value, size, width, height = _FILL.unpack_from(question.data, head)
        if size not in (1, 2, 4):
            raise InvalidValueError(f"elements of 1, 2 or 4 bytes are set, not of {size}")
        transfers = self._driver.transfers
        transfers.check(to, pitch * (height - 1) + width * size, "destination")
        row = (value & (1 << 8 * size) - 1).to_bytes(size, "little") * width

        def fill() -> None:
            for y in range(height):
                transfers.write(to + y * pitch, row)

        return self._added(question, Operation("host", "memset", call=fill))

    def cudaGraphAddEmptyNode(self, question: Question) -> Answer:
        return self._added(question, Operation("empty", "join"))

    def cudaGraphAddChildGraphNode(self, question: Question) -> Answer:
        child = self._graph(question, 2)
        nodes = self._driver.graph_instantiate(child.nodes)
        return self._added(question, Operation("host", "graph", call=lambda: self._run_body(nodes)))

    def cudaGraphAddMemAllocNode(self, question: Question) -> Answer:
        """The memory is there from now on: its address is known before the graph is launched."""
        address = self._driver.arena.malloc(question.numbers[2])
        self._session.graph_memory[address] = question.numbers[2]
        node = self._added(question, Operation("empty", "allocate"))
        return Answer((*node.values, address))

    def cudaGraphAddMemFreeNode(self, question: Question) -> Answer:
        if question.numbers[2] not in self._session.graph_memory:
            raise InvalidValueError(
                f"{question.numbers[2]:#x} is no memory that a node of a graph allocates"
            )
        return self._added(question, Operation("empty", "free"))

    def cudaGraphConditionalHandleCreate(self, question: Question) -> Answer:
        graph, value, flags = self._graph(question), question.numbers[1], question.numbers[2]
        address = self._driver.arena.malloc(_HANDLE_BYTES)
        self._session.graph_memory[address] = _HANDLE_BYTES
        self._driver.transfers.write(address, value.to_bytes(_HANDLE_BYTES, "little"))
        if flags & _ASSIGN_DEFAULT:
            graph.values.append((address, value))
        return Answer((address,))

    def cuemu_conditional_node(self, question: Question) -> Answer:
        handle, kind, size = question.numbers[2:5]
        if handle not in self._session.graph_memory:
            raise InvalidValueError(f"{handle:#x} is no handle of a condition")
        if not 1 <= size <= {_IF: 2, _WHILE: 1}.get(kind, 1 << 16):
            raise InvalidValueError(f"a condition of type {kind} has no {size} graphs")
        numbers = [self._kept(_Graph()) for _ in range(size)]
        bodies = [self._graphs[number] for number in numbers]

        def run() -> None:
            for _ in range(_MOST_ROUNDS):
                chosen = self._chosen(kind, self._value(handle), bodies)
                if chosen is not None:
                    self._run_body(chosen.nodes)
                if kind != _WHILE or chosen is None:
                    return
            raise InvalidValueError(f"a condition still held after {_MOST_ROUNDS:,} rounds")

        node = self._added(question, Operation("host", "condition", call=run))
        return Answer(node.values, _packed(numbers))

    def _value(self, handle: int) -> int:
        return int.from_bytes(self._driver.transfers.bytes_at(handle, _HANDLE_BYTES), "little")

    def _chosen(self, kind: int, value: int, bodies: Sequence[_Graph]) -> _Graph | None:
        place = value if kind == _SWITCH else 0 if value else 1
        return bodies[place] if place < len(bodies) else None

    def _run_body(self, nodes: Sequence[Node]) -> None:
        """All nodes have run, one after the other, on a stream that nothing else uses."""
        if self._bodies is None:
            self._bodies = self._driver.stream_create(non_blocking=True)
        for node in _in_order(nodes):
            self._launches.submit(node.operation, self._bodies, within=True)
        self._driver.stream_synchronize(self._bodies)

    def cudaGraphAddDependencies(self, question: Question) -> Answer:
        graph, count = self._graph(question), question.numbers[1]
        earlier, later = _places(question.data[: 8 * count]), _places(question.data[8 * count :])
        for before, after in zip(earlier, later, strict=True):
            node = graph.nodes[after]
            graph.nodes[after] = replace(node, after=(*node.after, before))
        return Answer()

    def cudaGraphGetNodes(self, question: Question) -> Answer:
        count = len(self._graph(question).nodes)
        return Answer(data=_packed(self._node(question.numbers[0], i) for i in range(count)))

    def _added(self, question: Question, operation: Operation) -> Answer:
        """The operation is the last node of the graph that the question names first."""
        nodes = self._graph(question).nodes
        after = _places(question.data[: 8 * question.numbers[1]])
        wrong = [place for place in after if not 0 <= place < len(nodes)]
        if wrong:
            raise InvalidValueError("a node comes after one that is not in its graph")
        nodes.append(Node(operation, after))
        return Answer((self._node(question.numbers[0], len(nodes) - 1),))

    def _node(self, graph: int, place: int) -> int:
        return (graph << _PLACE) + place + 1

    # Launches

    def cudaGraphInstantiate(self, question: Question) -> Answer:
        graph = self._graph(question)
        nodes = self._driver.graph_instantiate(_in_order(graph.nodes))
        number = next(self._numbers)
        self._ready[number] = _Graph(nodes, list(graph.values))
        return Answer((number,))

    def cudaGraphUpload(self, question: Question) -> Answer:
        self._executable(question)
        return Answer()

    def cudaGraphExecUpdate(self, question: Question) -> Answer:
        ready, graph = self._executable(question), self._graph(question, 1)
        nodes = self._driver.graph_instantiate(_in_order(graph.nodes))
        if [_shape(node) for node in nodes] != [_shape(node) for node in ready.nodes]:
            raise InvalidValueError(
                "the graph has other nodes or edges than the one it was made of",
                "cudaErrorGraphExecUpdateFailure",
            )
        ready.nodes = nodes
        return Answer()

    def cudaGraphExecKernelNodeSetParams(self, question: Question) -> Answer:
        ready, (place,) = self._executable(question), _places(question.data[:8])
        if not 0 <= place < len(ready.nodes) or ready.nodes[place].operation.kind != "kernel":
            raise InvalidValueError("that is no kernel of this graph")
        ready.nodes[place] = replace(ready.nodes[place], operation=self._kernel(question))
        return Answer()

    def cudaGraphLaunch(self, question: Question) -> Answer:
        ready, stream = self._executable(question), self._session.stream(question.numbers[1])
        for address, value in ready.values:
            self._driver.submit(stream, self._writing(address, value))
        if not self._launches.watches(ready.nodes):
            self._driver.graph_launch(ready.nodes, stream)
            return Answer()
        for node in ready.nodes:  # watched, one after the other
            self._launches.submit(node.operation, stream)
        return Answer()

    def _writing(self, address: int, value: int) -> Operation:
        data = value.to_bytes(_HANDLE_BYTES, "little")
        write: Callable[[], None] = lambda: self._driver.transfers.write(address, data)  # noqa: E731
        return Operation("host", "condition", call=write)

    def cudaGraphDestroy(self, question: Question) -> Answer:
        self._graphs.pop(question.numbers[0], None)
        return Answer()

    def cudaGraphExecDestroy(self, question: Question) -> Answer:
        self._executable(question)
        self._driver.synchronize()
        del self._ready[question.numbers[0]]
        return Answer()

    def cudaDeviceGetGraphMemAttribute(self, question: Question) -> Answer:
        return Answer((sum(self._session.graph_memory.values()),))

    def _graph(self, question: Question, position: int = 0) -> _Graph:
        return self._of(self._graphs, question, position)

    def _executable(self, question: Question) -> _Graph:
        return self._of(self._ready, question, 0)

    def _of(self, known: dict[int, _Graph], question: Question, position: int) -> _Graph:
        graph = known.get(question.numbers[position])
        if graph is None:
            raise InvalidValueError("there is no such graph", "cudaErrorInvalidResourceHandle")
        return graph


def _places(data: bytes) -> tuple[int, ...]:
    """Where in their graph the nodes stand."""
    nodes = struct.unpack(f"<{len(data) // 8}Q", data)
    return tuple((node & (1 << _PLACE) - 1) - 1 for node in nodes)


def _packed(numbers: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<Q", number) for number in numbers)


def _shape(node: Node) -> tuple[str, tuple[int, ...]]:
    return node.operation.kind, node.after


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes as they are, if none comes after a later one.

    Raises   InvalidValueError   one does
    """
    if any(place >= i for i, node in enumerate(nodes) for place in node.after):
        raise InvalidValueError("a node comes after one that was added later: not supported here")
    return list(nodes)
