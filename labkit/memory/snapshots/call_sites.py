"""Whose bytes they are: memory by the line of the program that asked for it."""

import itertools
import re
from dataclasses import dataclass

import numpy as np

from labkit.memory.history import ACTIONS
from labkit.memory.snapshots.columns import Array, Columns
from labkit.memory.snapshots.settings_and_regions import Region
from labkit.memory.snapshots.stack_table import Frame

NO_STACK = "(no stack recorded)"
WINDOWS = 4
ALLOC, FREED = ACTIONS.index("alloc"), ACTIONS.index("free_completed")
_PYTHON = re.compile(r"\.py$|^<")  # the latter is generated code; C++ has neither
_LIBRARY = re.compile(
    r"(^|[\\/])(torch|torchvision|lib[\\/]python[^\\/]*|"
    r"labkit[\\/](nn|optim|autograd|amp|vision|graph))[\\/]"
)


@dataclass(frozen=True)
class SiteChange:
    """What one call site holds in two snapshots: bytes and blocks."""

    site: str
    bytes_before: int
    bytes_after: int
    blocks_before: int
    blocks_after: int

    @property
    def kind(self) -> str:
        """Whether the site is new, gone, has grown or shrunk, in one word."""
        if not self.blocks_before:
            return "added"
        if not self.blocks_after:
            return "removed"
        return "grown" if self.bytes_after > self.bytes_before else "shrunk"


def call_site(frames: list[Frame]) -> str:
    """`file:line function` of the innermost frame that is the user's own, else the innermost."""
    python = [frame for frame in frames if _PYTHON.search(frame[1])]
    own = [frame for frame in python if not _LIBRARY.search(frame[1])]
    for found in (own, python, frames):
        if found:
            name, file, line = found[0]
            return f"{file.rsplit('/', 1)[-1]}:{line} {name}"
    return NO_STACK


def live_by_site(found: Columns) -> dict[str, tuple[int, int]]:
    """{call site: (bytes, blocks)} of what is in use at the end, most bytes first."""
    sites, of_stack = _sites(found)
    used = found.blocks["state"] > 0
    site = of_stack[found.blocks["stack"][used]]
    total = np.zeros(len(sites), np.int64)
    np.add.at(total, site, found.blocks["size"][used])
    count = np.bincount(site, minlength=len(sites))
    order = np.argsort(-total, kind="stable").tolist()
    return {sites[i]: (int(total[i]), int(count[i])) for i in order if count[i]}


def changes_by_site(before: Columns, after: Columns) -> list[SiteChange]:
    """The call sites that hold other bytes or blocks in the second snapshot, most bytes first.

    Two moments of one program, or two ranks at one moment.
    """
    first, second = live_by_site(before), live_by_site(after)
    rows = []
    for site in {**first, **second}:
        (old_bytes, old_blocks), (new_bytes, new_blocks) = (
            held.get(site, (0, 0)) for held in (first, second)
        )
        if (old_bytes, old_blocks) != (new_bytes, new_blocks):
            rows.append(SiteChange(site, old_bytes, new_bytes, old_blocks, new_blocks))
    return sorted(rows, key=lambda row: -abs(row.bytes_after - row.bytes_before))


def growing_sites(found: Columns) -> dict[str, list[int]]:
    """{call site: the least bytes it held in each quarter of the trace}, where that always grew.

    The least, because what a training step takes and gives back again is no leak.
    """
    sites, of_stack = _sites(found)
    born, freed = _lives(found)
    site = of_stack[found.events["stack"][born]]
    size = found.events["size"][born]
    step = np.concatenate([born, freed])
    change = np.concatenate([size, -size])
    site = np.concatenate([site, site])
    inside = step < len(found)
    step, change, site = step[inside], change[inside], site[inside]
    order = np.lexsort((step, site))
    step, change, site = step[order], change[order], site[order]
    edges = np.linspace(0, len(found), WINDOWS + 1)[1:-1]
    grown = {}
    for begin, end in _runs(site):
        held = np.cumsum(change[begin:end])
        cuts = np.searchsorted(step[begin:end], edges)
        # What is held when a quarter begins counts in it, as well as each change inside.
        parts = [np.append(part, held[:cut][-1:] if cut else 0) for part, cut in zip(
            np.split(held, cuts), [0, *cuts.tolist()], strict=True)]  # fmt: skip
        least = [int(part.min()) for part in parts]
        if all(a < b for a, b in itertools.pairwise(least)):
            grown[sites[int(site[begin])]] = least
    return dict(sorted(grown.items(), key=lambda row: row[1][0] - row[1][-1]))


def regions(found: Columns) -> list[Region]:
    """The named parts of the program, by their first entry; one that never ends goes on."""
    times = found.events["time_us"]
    started: list[tuple[str, int]] = []
    closed: list[Region] = []
    for name, starts, time_us in found.annotations:
        entry = int(np.searchsorted(times, time_us))
        if starts:
            started.append((name, entry))
            continue
        for depth in reversed(range(len(started))):
            if started[depth][0] == name:
                closed.append(Region(name, started.pop(depth)[1], entry, depth))
                break
    for depth, (name, entry) in enumerate(started):
        closed.append(Region(name, entry, len(times), depth))
    return sorted(closed, key=lambda region: (region.first, region.depth))


def _sites(found: Columns) -> tuple[list[str], Array]:
    """The distinct call sites, and which of them each stack belongs to."""
    numbers: dict[str, int] = {}
    of_stack = [
        numbers.setdefault(call_site(found.stacks[i]), len(numbers))
        for i in range(len(found.stacks))
    ]
    return list(numbers), np.array(of_stack, np.int64)


def _lives(found: Columns) -> tuple[Array, Array]:
    """The entry of each alloc, and of the free_completed that ends it (else behind the last)."""
    action, address = found.events["action"], found.events["address"]
    moves = np.flatnonzero((action == ALLOC) | (action == FREED))
    moves = moves[np.argsort(address[moves], kind="stable")]
    if not len(moves):
        return moves, moves
    following = np.append(moves[1:], -1)
    ends = (following >= 0) & (address[following] == address[moves]) & (action[following] == FREED)
    born = action[moves] == ALLOC
    return moves[born], np.where(ends, following, len(found))[born]


def _runs(values: Array) -> list[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return list(itertools.pairwise(edges)) if len(values) else []
