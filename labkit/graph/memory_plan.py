"""`plan_memory`: when each value's memory is needed, and one arena with a place for each.

Source   torch/_inductor/codegen/memory_planning.py
"""

from dataclasses import dataclass

from torch.fx import GraphModule

from labkit.graph.storages import Storages
from labkit.memory.caching_allocator import CachingAllocator

MADE = ("call_function", "call_module")


@dataclass(frozen=True)
class Buffer:
    """The memory of one value and its views.

    born, dies   places in the graph's order: the node that makes it, and the last that reads it
    offset       its first byte in the arena
    """

    name: str
    size_bytes: int
    born: int
    dies: int
    offset: int = 0

    def meets(self, other: "Buffer") -> bool:
        """True when both are needed at one time."""
        return self.born <= other.dies and other.born <= self.dies

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.offset + self.size_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """Buffers with their places, in the order they are made. Inputs and attributes have none.

    steps   names of all nodes, so that a plan can be drawn
    """

    buffers: tuple[Buffer, ...]
    steps: tuple[str, ...]

    @property
    def total(self) -> int:
        """Bytes without any reuse."""
        return sum(one.size_bytes for one in self.buffers)

    @property
    def lower_bound(self) -> int:
        """Bytes needed at the worst step: no plan with this order of nodes takes fewer."""
        return max((sum(needed.values()) for needed in self.needed().values()), default=0)

    @property
    def peak(self) -> int:
        """Bytes of the arena."""
        return max((one.end for one in self.buffers), default=0)

    def needed(self) -> dict[str, dict[str, int]]:
        """Step -> name of each value that is needed while it runs -> its bytes."""
        return {
            name: {one.name: one.size_bytes for one in self.buffers if one.born <= step <= one.dies}
            for step, name in enumerate(self.steps)
        }

    def replay(self, allocator: CachingAllocator) -> int:
        """Bytes the allocator reserved to serve the buffers one by one, as they come and go.

        A step allocates its result before it frees what it was the last to read.
        """
        addresses: dict[Buffer, int] = {}
        for step in range(len(self.steps)):
            for one in self.buffers:
                if one.born == step:
                    addresses[one] = allocator.malloc(one.size_bytes)
            for one in [one for one in addresses if one.dies == step]:
                allocator.free(addresses.pop(one))
        return allocator.reserved_bytes


def plan_memory(graph: GraphModule) -> MemoryPlan:
    """A place for every value the graph makes, so that no two overlap while both are needed.

    Large buffers choose first; each takes the smallest gap between those it meets that holds it.
    """
    buffers = _buffers(graph)
    placed: list[Buffer] = []
    for one in sorted(buffers, key=lambda buffer: (-buffer.size_bytes, buffer.born)):
        offset = _smallest_gap(one, [other for other in placed if other.meets(one)])
        placed.append(Buffer(one.name, one.size_bytes, one.born, one.dies, offset))
    steps = tuple(node.name for node in graph.graph.nodes)
    return MemoryPlan(tuple(sorted(placed, key=lambda buffer: buffer.born)), steps)


def _buffers(graph: GraphModule) -> list[Buffer]:
    storages = Storages(graph)
    found, known = [], set()
    for node in storages.order:
        together = storages.of(node)
        if node in known or any(one.op not in MADE for one in together):
            continue
        known |= together
        reads = [storages.order[reader] for _, reader in storages.reads_of(node)]
        dies = max([storages.order[one] for one in together] + reads)
        size = node.meta["val"].numel() * node.meta["val"].element_size()
        found.append(Buffer(node.name, size, storages.order[node], dies))
    return found


def _smallest_gap(one: Buffer, others: list[Buffer]) -> int:
    """The offset of the smallest gap that holds it; above all of them where none does."""
    gaps, top = [], 0
    for other in sorted(others, key=lambda buffer: buffer.offset):
        if other.offset - top >= one.size_bytes:
            gaps.append((other.offset - top, top))
        top = max(top, other.end)
    return min(gaps, default=(0, top))[1]
