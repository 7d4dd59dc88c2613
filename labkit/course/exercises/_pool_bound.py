"""How much a pool may hold: what one holds that grows by 2 MiB, cuts its blocks and merges them."""

from collections.abc import Sequence
from typing import Any

from labkit.memory.sizes import MIB

Block = list[int]
"""[size, 1 while it is free]"""
GRAIN = 512


def most_bytes_held(steps: Sequence[tuple[Any, ...]]) -> int:
    """The most bytes that such a pool holds while the program runs, a pool for each stream."""
    segments: dict[int, list[list[Block]]] = {}
    places: dict[str, tuple[list[Block], Block]] = {}
    most = 0
    for kind, *rest in steps:
        if kind == "allocate":
            name, nbytes, stream = rest
            places[name] = _take(segments.setdefault(stream, []), -(-nbytes // GRAIN) * GRAIN)
            most = max(most, _held(segments))
        elif kind == "free" and rest[0] in places:
            _give_back(*places.pop(rest[0]))
        elif kind == "clear":
            for stream, own in segments.items():
                segments[stream] = [blocks for blocks in own if blocks[0][0] != _size(blocks)]
    return most


def _take(segments: list[list[Block]], size: int) -> tuple[list[Block], Block]:
    """The smallest free block that fits, cut; of a new segment where none does."""
    fits = [(b[0], i, blocks) for blocks in segments for i, b in enumerate(blocks) if b[1]]
    fits = [found for found in fits if found[0] >= size]
    if not fits:
        segments.append([[-(-size // (2 * MIB)) * 2 * MIB, 1]])
        fits = [(segments[-1][0][0], 0, segments[-1])]
    held, place, blocks = min(fits, key=lambda found: found[0])
    blocks[place : place + 1] = [[size, 0], *([[held - size, 1]] if held > size else [])]
    return blocks, blocks[place]


def _give_back(blocks: list[Block], block: Block) -> None:
    """The block is free, and one with its free neighbours."""
    block[1] = 1
    place = next(i for i, other in enumerate(blocks) if other is block)
    for neighbour in (place + 1, place - 1):
        if 0 <= neighbour < len(blocks) and blocks[neighbour][1]:
            block[0] += blocks[neighbour][0]
            blocks[neighbour][0] = 0
    blocks[:] = [other for other in blocks if other[0]]


def _size(blocks: list[Block]) -> int:
    return sum(size for size, _ in blocks)


def _held(segments: dict[int, list[list[Block]]]) -> int:
    return sum(_size(blocks) for own in segments.values() for blocks in own)
