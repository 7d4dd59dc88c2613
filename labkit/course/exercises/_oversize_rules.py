"""Which free block serves a request, and whether it is cut: PyTorch's rules of 2020, and others.

A rule pair (takes, cuts) is asked for requests above 1 MiB, in bytes:

    takes(size, block, limit)   may a free block of `block` bytes serve a request of `size`?
    cuts(size, block, limit)    is what the request leaves of it cut off, as a block of its own?

`limit` is max_split_size_mb as bytes, larger than any block where it is not set. A `takes` with a
fourth argument is given max_non_split_rounding_mb as bytes as well.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from labkit.conformance.allocator import FIXTURES
from labkit.course.exercise import Rng, handed_out
from labkit.memory.block import AllocParams, Block
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.release import CachedMemory
from labkit.memory.replay import recording
from labkit.memory.sizes import MIB

Rule = Callable[..., bool]

CONFIGURATIONS = ("max_split", "small_device_max_split")
"""Recordings of PyTorch's allocator under a max_split_size_mb, and nothing else."""


class _Whole(CachedMemory):
    """Gives single oversize blocks back as long as none of them was cut."""

    def release_available(self, params: AllocParams, max_split_size: int) -> bool:
        """As PyTorch does; a rule that cuts oversize blocks has nothing to give back here."""
        blocks = params.pool.from_largest(params.stream)
        if any(block.is_split for block in blocks if block.size >= max_split_size):
            return False
        return super().release_available(params, max_split_size)


class AllocatorByRules(CachingAllocator):
    """Labkit's allocator, but two rules of somebody else's decide about blocks above 1 MiB.

    Segments that grow keep labkit's rules.
    """

    takes: Rule
    cuts: Rule

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cached.__class__ = _Whole

    def _best_fit(self, params: AllocParams) -> Block | None:
        if params.pool.is_small or params.is_expandable_segments_active:
            return super()._best_fit(params)
        block = params.pool.first_at_least(params.stream, params.size)
        if block is None or not type(self).takes(params.size, block.size, *self._limits()):
            return None
        return block

    def _should_split(self, block: Block, params: AllocParams) -> bool:
        if params.pool.is_small or params.is_expandable_segments_active:
            return super()._should_split(block, params)
        rest = block.size - params.size
        return rest > 0 and type(self).cuts(params.size, block.size, self.settings.max_split_size)

    def _limits(self) -> tuple[int, ...]:
        """What `takes` is told beside the two sizes."""
        limits = self.settings.max_split_size, self.settings.max_non_split_rounding_size
        return limits[: len(inspect.signature(type(self).takes).parameters) - 2]


@handed_out
def allocator_by(takes: Rule, cuts: Rule) -> type[AllocatorByRules]:
    """The class of allocators that follow these two rules."""
    rules = {"takes": staticmethod(takes), "cuts": staticmethod(cuts)}
    return type("AllocatorByRules", (AllocatorByRules,), rules)


@functools.cache
@handed_out
def _recording(config: str) -> dict[str, Any]:
    return recording.load_recording(FIXTURES / f"{config}.json.gz")


@handed_out
def first_difference(takes: Rule, cuts: Rule, config: str, number: int) -> str:
    """Where an allocator by these rules and PyTorch's recording part; "" where nowhere."""
    head = _recording(config)
    found = recording.compare_program(head, head["programs"][number], allocator_by(takes, cuts))
    return found.difference or ""


def _uncut_if_oversize(size: int, block: int, limit: int) -> bool:
    return block < limit and block - size > MIB


def _takes(size: int, block: int, limit: int) -> bool:
    return right_pair(size, block, limit)[0]


def _cuts(size: int, block: int, limit: int) -> bool:
    return right_pair(size, block, limit)[1]


def _cuts_all(size: int, block: int, limit: int) -> bool:
    return block - size > MIB


TODAY = {"the rules of today": (_takes, _cuts)}
OF_2020: dict[str, tuple[Rule, Rule]] = {"the rules of 2020": (lambda *asked: True, _cuts_all)}
HALF: dict[str, tuple[Rule, Rule]] = {
    "a small request takes an oversize block whole": (
        lambda size, block, limit: size < limit or _takes(size, block, limit),
        _uncut_if_oversize,
    ),
    "an oversize request takes a block of any size": (
        lambda size, block, limit: size >= limit or block < limit,
        _cuts,
    ),
    "an oversize block is cut for an oversize request": (_takes, _cuts_all),
    "a new oversize segment is not cut": (_takes, _uncut_if_oversize),
    "no free block is taken": (lambda *asked: False, _cuts),
}
SIDES = {**TODAY, **OF_2020, **HALF}
"""Name -> (takes, cuts): those that a test passes, and those that it must not."""
LIMIT = "max_split_size_mb:20"


@handed_out
def finishes_by(side: str) -> Callable[[str, int], bool]:
    """Whether a program finishes on a device of so many MiB, by these rules and under LIMIT."""
    kind = allocator_by(*SIDES[side])

    def finishes(program: str, total: int) -> bool:
        try:
            for _ in serve(kind(SimulatedDevice(total * MIB), LIMIT), program):
                pass
        except OutOfMemoryError:
            return False
        return True

    return finishes


@handed_out
def serve(allocator: CachingAllocator, program: str) -> Iterator[str]:
    """Each word of a short program, once it is served: x=60 asks for 60 MiB, -x frees them.

    Raises   OutOfMemoryError   a request found no room
    """
    addresses: dict[str, int] = {}
    for word in program.split():
        found = re.fullmatch(r"-?(\w)(?:=(\d+))?", word)
        if found is None:
            raise ValueError(f"{word!r} is neither x=60 nor -x")
        name, size = found.groups()
        if allocator.history is not None:
            allocator.history.user_metadata = name
        if word.startswith("-"):
            allocator.free(addresses.pop(name))
        else:
            addresses[name] = allocator.malloc(int(size) * MIB)
        yield word


def drawn_request(rng: Rng, size: int) -> tuple[int, int, int]:
    """(size, block, limit), often near a border."""
    limit = rng.choice((20, 40, 200)) * MIB
    asked = rng.choice((limit, limit - MIB, limit + 2 * MIB, rng.randrange(2, 300) * MIB))
    more = rng.choice((0, MIB, MIB + 512, 20 * MIB, 20 * MIB - 512, rng.randrange(64) * MIB))
    block = rng.choice((asked + more, max(asked, limit), max(asked, limit - 512)))
    return asked, block, rng.choice((limit, limit, 2**62))


@handed_out
def right_pair(size: int, block: int, limit: int) -> tuple[bool, bool]:
    """What PyTorch's two rules say.

    Source   c10/cuda/CUDACachingAllocator.cpp  get_free_block, should_split
    """
    oversize = size >= limit
    takes = block < size + 20 * MIB if oversize else block < limit
    return takes, not oversize and block - size > MIB
