"""The hash table whose iteration order decides which stream PyTorch looks at first.

Any table would give the right memory. This one also gives the right order of trace entries, and
order is what two recordings are compared by.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")

GOLDEN_RATIO_64 = 11400714819323198485
"""2^64 divided by the golden ratio: multiplying by it spreads neighbouring keys over the table."""

CUDA_DEVICE_TYPE = 1


def stream_key(stream_id: int, device: int = 0) -> int:
    """What a stream hashes to: device type, device and the low 48 bits of its id in one word.

    Source   c10/core/Stream.h  std::hash<c10::Stream>
    """
    return CUDA_DEVICE_TYPE << 56 | device << 48 | stream_id & 0xFFFFFFFFFFFF


class RobinHoodTable(Generic[Value]):
    """Integer key -> value, kept in a row of slots and visited in slot order.

    A key wants one slot and sits there or a few places after it; who is farther from its wish
    takes the place of who is nearer ("robin hood"). Erasing moves followers back one place. The
    table doubles when it would be more than half full, and never shrinks.

    Source   c10/util/flat_hash_map.h  ska::flat_hash_map (sherwood_v3_table)
    """

    def __init__(self) -> None:
        self._slots = 0
        self._farthest = 0  # how far from its wish a key may sit before the table grows
        self._entries: list[tuple[int, Value] | None] = [None]
        self._distances = [-1]
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def find(self, key: int) -> int | None:
        """The place of the key, or None."""
        if not self._slots:
            return None
        place, distance = self._wish(key), 0
        while self._distances[place] >= distance:
            entry = self._entries[place]
            if entry is not None and entry[0] == key:
                return place
            place += 1
            distance += 1
        return None

    def insert(self, key: int, value: Value) -> Value:
        """The value stored under the key: the given one, or the one that was there before."""
        place = self.find(key)
        if place is not None:
            return self[place]
        if (self._length + 1) * 2 > self._slots or not self._place(key, value):
            self._grow(2 * self._slots)
            return self.insert(key, value)
        return value

    def __getitem__(self, place: int) -> Value:
        entry = self._entries[place]
        if entry is None:
            raise KeyError(f"place {place} is empty")
        return entry[1]

    def erase(self, place: int) -> None:
        """The place is taken by a follower or empty, so a visitor looks at it once more."""
        self._length -= 1
        while self._distances[place + 1] > 0:
            self._entries[place] = self._entries[place + 1]
            self._distances[place] = self._distances[place + 1] - 1
            place += 1
        self._entries[place] = None
        self._distances[place] = -1

    def next_place(self, place: int = 0) -> int | None:
        """The first occupied place from `place` on, or None."""
        for candidate in range(place, len(self._entries)):
            if self._entries[candidate] is not None:
                return candidate
        return None

    def values(self) -> Iterator[Value]:
        """The values in slot order."""
        return (entry[1] for entry in self._entries if entry is not None)

    def _wish(self, key: int) -> int:
        spread = (key * GOLDEN_RATIO_64) % 2**64
        return spread >> (64 - (self._slots.bit_length() - 1))

    def _place(self, key: int, value: Value) -> bool:
        """False when a key would end up too far from its wish; the new one is not stored then."""
        entry = (key, value)
        place, distance = self._wish(key), 0
        first: int | None = None
        while distance < self._farthest:
            resident = self._entries[place]
            if resident is None:
                self._entries[place] = entry
                self._distances[place] = distance
                self._length += 1
                return True
            if self._distances[place] < distance:
                self._entries[place], entry = entry, resident
                self._distances[place], distance = distance, self._distances[place]
                first = place if first is None else first
            place += 1
            distance += 1
        if first is not None:
            self._entries[first] = entry  # who was left over takes the new key's place
        return False

    def _grow(self, slots: int) -> None:
        entries = [entry for entry in self._entries if entry is not None]
        self._slots = max(4, slots)
        self._farthest = max(4, self._slots.bit_length() - 1)
        # the spare places at the end save a wrap-around; the last one stays empty for ever
        self._entries = [None] * (self._slots + self._farthest)
        self._distances = [-1] * (self._slots + self._farthest - 1) + [0]
        self._length = 0
        for key, value in entries:
            self.insert(key, value)
