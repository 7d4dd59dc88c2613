"""Which free block serves a request, and whether it is cut: PyTorch's rules of 2020, and others.

A rule pair (takes, cuts) is asked for requests above 1 MiB, in bytes:

    takes(size, block, limit)   may a free block of `block` bytes serve a request of `size`?
    cuts(size, block, limit)    is what the request leaves of it cut off, as a block of its own?

`limit` is max_split_size_mb as bytes, larger than any block where it is not set.
"""

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

from labkit.conformance.allocator import FIXTURES
from labkit.conformance.report import Comparison
from labkit.course.exercise import Rng, handed_out
from labkit.memory.block import AllocParams, Block
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.release import CachedMemory
from labkit.memory.replay import recording
from labkit.memory.sizes import MIB

Rule = Callable[[int, int, int], bool]

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

    Differs  segments do not grow, and nothing is collected by age
    """

    takes: Rule
    cuts: Rule

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cached.__class__ = _Whole

    def _get_free_block(self, params: AllocParams) -> Block | None:
        if params.pool.is_small:
            return super()._get_free_block(params)
        block = params.pool.first_at_least(params.stream, params.size)
        if block is None or not type(self).takes(params.size, block.size, self._limit):
            return None
        params.pool.remove(block)
        return block

    def _should_split(self, block: Block, params: AllocParams) -> bool:
        if params.pool.is_small:
            return super()._should_split(block, params)
        rest = block.size - params.size
        return rest > 0 and type(self).cuts(params.size, block.size, self._limit)

    @property
    def _limit(self) -> int:
        return self.settings.max_split_size


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
    with mock.patch.object(recording, "CachingAllocator", allocator_by(takes, cuts)):
        found = recording.compare_program(head, head["programs"][number])
    return found.difference or ""


@handed_out
def against_recordings(takes: Rule, cuts: Rule, programs: int = 20) -> Comparison:
    """How many recorded programs an allocator by these rules follows to their end."""
    cases = [(config, number) for config in CONFIGURATIONS for number in range(programs)]
    found = [first_difference(takes, cuts, *case) for case in cases]
    first = next((difference for difference in found if difference), None)
    return Comparison("programs PyTorch recorded", len(cases), found.count(""), first)


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
