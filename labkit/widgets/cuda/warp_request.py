"""What one request of a warp costs: sectors of global memory, passes over the shared banks.

`kernel_memory.js` is the same in the browser; the emulator counts in its own C++. Tests hold the
three together.
"""

from collections.abc import Iterable, Mapping
from typing import Any

SECTOR_BYTES, BANKS, BANK_BYTES, LANES = 32, 32, 4, 32

Lanes = Mapping[int, int]
"""lane -> address in bytes, for the lanes that take part"""


def units(lanes: Lanes, size: int, unit: int) -> list[int]:
    """The different values of address / unit that the lanes' `size` bytes lie in, ascending."""
    return sorted(
        {n for at in lanes.values() for n in range(at // unit, (at + max(size, 1) - 1) // unit + 1)}
    )


def sectors(lanes: Lanes, size: int) -> list[int]:
    """The sectors touched: address / 32."""
    return units(lanes, size, SECTOR_BYTES)


def ideal_sectors(lanes: Lanes, size: int) -> int:
    """The fewest sectors that could hold the bytes the lanes ask for."""
    asked = len({at // max(size, 1) for at in lanes.values()}) * size
    return -(-asked // SECTOR_BYTES)


def groups(lanes: Lanes, size: int) -> list[list[int]]:
    """Lanes that shared memory serves together: up to 4 bytes a lane the warp, else parts of it.

    Of 8-byte accesses half a warp, of 16-byte ones a quarter; two neighbouring parts become one
    where lanes ask in pairs for one address.
    """
    if size <= BANK_BYTES:
        return [sorted(lanes)] if lanes else []
    part = 8 if size > 8 else 16
    found = []
    for first in range(0, LANES, 2 * part):
        both = sorted(lane for lane in lanes if first <= lane < first + 2 * part)
        if _in_pairs(lanes, both, 1) or _in_pairs(lanes, both, 2):
            found.append(both)
        else:
            found += [[n for n in both if n < first + part], [n for n in both if n >= first + part]]
    return [group for group in found if group]


def _in_pairs(lanes: Lanes, group: Iterable[int], apart: int) -> bool:
    return all(lanes.get(lane ^ apart, lanes[lane]) == lanes[lane] for lane in group)


def passes(lanes: Lanes, size: int) -> list[dict[int, list[int]]]:
    """Per pass over the banks, bank -> the lanes it answers; one different word per bank a pass."""
    found = []
    for group in groups(lanes, size):
        words: list[dict[int, list[int]]] = [{} for _ in range(BANKS)]
        for lane in group:
            for word in units({lane: lanes[lane]}, size, BANK_BYTES):
                words[word % BANKS].setdefault(word, []).append(lane)
        asked = [list(by_word.values()) for by_word in words]
        found += [
            {bank: wanted[n] for bank, wanted in enumerate(asked) if n < len(wanted)}
            for n in range(max(map(len, asked)))
        ]
    return found


def lanes_of(request: Mapping[str, Any]) -> dict[int, int]:
    """The address per lane of a request given with `mask` and `addresses`."""
    return {
        lane: address
        for lane, address in enumerate(request["addresses"])
        if request["mask"] >> lane & 1
    }
