"""What cannot be in a snapshot that PyTorch wrote whole: told, and everything is shown as it is."""

from collections.abc import Iterator

import numpy as np

from labkit.memory.history import ACTIONS
from labkit.memory.snapshots.columns import Array, Columns

CLOCK_SLACK_US = 1000
OF_AN_ADDRESS = ("another one", "its segment", "in use", "is free")


def findings(found: Columns) -> list[str]:
    """A sentence for each kind of contradiction, with the first place that has it."""
    return [*_of_segments(found), *_of_blocks(found), *_of_events(found)]


def _of_segments(found: Columns) -> Iterator[str]:
    address, size = found.segments["address"], found.segments["size"]
    yield from _told(size <= 0, "segment", "has no positive size", size)
    order, end = _by_address(address, size)
    overlaps = np.zeros(len(address), bool)
    overlaps[order[1:]] = address[order[1:]] < end[:-1]
    yield from _told(overlaps, "segment", "begins inside another one", address)


def _of_blocks(found: Columns) -> Iterator[str]:
    blocks = found.blocks
    address, size, owner = blocks["address"], blocks["size"], blocks["segment"]
    yield from _told(size <= 0, "block", "has no positive size", size)
    yield from _told(blocks["requested"] < 0, "block", "was asked for with a negative size", size)
    # As floats: what a hostile file adds up may not fit 64 bits.
    begin = found.segments["address"][owner].astype(float)
    end = begin + found.segments["size"][owner]
    outside = (address < begin) | (address + size.astype(float) > end)
    yield from _told(outside, "block", "lies outside its segment", address)
    order, furthest = _by_address(address, size)
    overlaps = np.zeros(len(address), bool)
    overlaps[order[1:]] = address[order[1:]] < furthest[:-1]
    yield from _told(overlaps, "block", "begins inside another one", address)


def _of_events(found: Columns) -> Iterator[str]:
    events = found.events
    yield from _told(events["size"] < 0, "entry", "has a negative size", events["size"])
    backwards = np.zeros(len(found), bool)
    backwards[1:] = np.diff(events["time_us"].astype(float)) < -CLOCK_SLACK_US
    yield from _told(backwards, "entry", "is older than the one before it", events["time_us"])
    alloc, completed = ACTIONS.index("alloc"), ACTIONS.index("free_completed")
    if not (events["action"] == completed).any():
        return  # a recording may leave frees out
    moves = np.flatnonzero(np.isin(events["action"], (alloc, completed)))
    moves = moves[np.argsort(events["address"][moves], kind="stable")]
    again = np.zeros(len(found), bool)
    same_address = np.diff(events["address"][moves]) == 0
    same_action = np.diff(events["action"][moves].astype(int)) == 0
    again[moves[1:][same_address & same_action]] = True
    twice = again & (events["action"] == alloc)
    yield from _told(twice, "entry", "allocates an address that is in use", events["address"])
    yield from _told(again & ~twice, "entry", "frees an address that is free", events["address"])


def _by_address(address: Array, size: Array) -> tuple[Array, Array]:
    """The order by address, and how far everything up to each place of that order reaches."""
    order = np.argsort(address, kind="stable")
    end = address[order].astype(float) + np.maximum(size[order], 0)
    return order, np.maximum.accumulate(end) if len(end) else end


def _told(wrong: Array, what: str, says: str, values: Array) -> Iterator[str]:
    places = np.flatnonzero(wrong)
    if len(places):
        first = int(places[0])
        more = f" (and {len(places) - 1:,} more like it)" if len(places) > 1 else ""
        value = int(values[first])
        shown = hex(value) if says.endswith(OF_AN_ADDRESS) else f"{value:,}"
        yield f"{what} {first} {says}: {shown}{more}"
