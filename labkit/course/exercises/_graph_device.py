"""Programs of streams as graphs on an emulated device, and what came of them."""

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

from labkit import cuda
from labkit.course.exercise import Case
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.widgets.graph.graph_view import GraphView

Program = list[tuple[Any, ...]]
CELLS = 6
ORDERS = "(earlier, later)"
"""What the learner reads above the pairs of nodes that are ordered."""
KERNELS = """
extern "C" __global__ void put(int* x, int v) { *x = v; }
extern "C" __global__ void add(int* x, const int* y) { *x += *y; }
extern "C" __global__ void mul(int* x, const int* y) { *x *= *y; }
"""
SEEDS = (None, 1, 2)


class Device:
    """One emulated device for all cases, its kernels, and a few numbers in its memory."""

    driver: EmulatorDriver | None = None
    kernels: dict[str, Any] = {}  # noqa: RUF012
    address = 0

    @classmethod
    def fresh(cls) -> EmulatorDriver:
        """The device, idle, all numbers 1."""
        if cls.driver is None:
            driver = EmulatorDriver(capacity=1 << 26, why="for graphs")
            module = cuda.RawModule(KERNELS, driver=driver)
            cls.kernels = {name: module.get_function(name) for name in ("put", "add", "mul")}
            cls.address = driver.malloc(4 * CELLS)
            cls.driver = driver  # last: an answer whose time ends meanwhile leaves nothing half
        cls.driver.synchronize()
        return cls.driver

    @classmethod
    def write(cls, numbers: Sequence[int]) -> None:
        """The memory holds these."""
        assert cls.driver is not None
        host = (ctypes.c_int * CELLS)(*numbers)
        cls.driver.memcpy(cls.address, ctypes.addressof(host), 4 * CELLS)

    @classmethod
    def numbers(cls) -> list[int]:
        """What the memory holds now."""
        assert cls.driver is not None
        return list((ctypes.c_int * CELLS).from_buffer_copy(cls.driver.peek(cls.address, 24)))

    @classmethod
    def pointer(cls, cell: int) -> Any:
        """The argument of a kernel that means this number."""
        return cuda.DevicePointer(cls.address + 4 * cell, 4)


def given(program: Program) -> Program:
    """The program with kernels and pointers in place of their names."""
    steps: Program = []
    for kind, stream, *rest in program:
        if kind == "launch":
            name, cell, other = rest
            second = other if name == "put" else Device.pointer(other)
            args = (Device.pointer(cell), second)
            steps.append((kind, stream, Device.kernels[name], args))
        else:
            steps.append((kind, stream, *rest))
    return steps


def orders(after: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Every pair of nodes whose first surely runs before its second."""
    before: list[set[int]] = []
    for own in after:
        before.append({*own, *itertools.chain.from_iterable(before[i] for i in own)})
    return [(i, j) for j, earlier in enumerate(before) for i in sorted(earlier)]


def drive_graph(answer: Any, program: Program) -> dict[str, Any]:
    """What the answer's graph is made of, and the numbers after two replays under each seed."""
    driver = Device.fresh()
    steps, graph = given(program), cuda.Graph(driver)
    executable = answer(graph, steps)
    steps.clear()
    after = [list(node.after) for node in graph.nodes]
    found: dict[str, Any] = {
        "nodes": [node.operation.name for node in graph.nodes],
        ORDERS: orders(after),
        "a node twice among its after": any(len(set(own)) < len(own) for own in after),
        "returned": type(executable).__name__,
    }
    if isinstance(executable, cuda.GraphExec):
        found["numbers"] = [_played(driver, executable, seed) for seed in SEEDS]
    return found


def _played(driver: EmulatorDriver, executable: Any, seed: int | None) -> list[int]:
    Device.write(range(1, CELLS + 1))
    driver.queue.reseed(seed)
    for _ in range(2):
        executable.replay(0)
    driver.synchronize()
    driver.queue.reseed(None)
    return Device.numbers()


def graph_drawn(case: Case, got: Any, right: Any) -> GraphView | None:
    """The right graph; the first node that the answer orders otherwise is marked."""
    if not isinstance(right, dict):
        return None
    names, pairs = right["nodes"], right[ORDERS]
    mine = set(got[ORDERS]) if isinstance(got, dict) else set()
    wrong = sorted(mine ^ set(pairs), key=lambda pair: (pair[1], pair[0]))
    direct = [
        {"source": i, "target": j}
        for i, j in pairs
        if not any((i, k) in pairs and (k, j) in pairs for k in range(i + 1, j))
    ]
    said = "the right graph"
    if wrong:
        i, j = wrong[0]
        said = f"node {j} {'has to' if (i, j) in pairs else 'need not'} wait for node {i}"
    return GraphView(
        [{"label": f"{place}: {name}"} for place, name in enumerate(names)],
        direct,
        [{"text": said, "marks": {wrong[0][1]: "error"} if wrong else {}}],
        title="what has to come after what",
        simple=True,
    )
