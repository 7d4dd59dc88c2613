"""The rows of a trace read from a pickle's bytes all at once, without a dict for any of them.

Every entry of a trace is written with the same keys, so its bytes differ in the values alone. The
starts of all rows are found first; then one key or value of all rows is read per step, in NumPy.
A row that deviates in any byte is left to the machine that builds dicts.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.memory.snapshots import plain_machine as code
from labkit.memory.snapshots.plain_machine import NotRegular, Stretch

Array = NDArray[Any]
CHUNK = 1 << 14  # rows read together: their bytes then stay in the processor's cache
SEARCHED = 1 << 20
PADDING = bytes(640)  # a value read behind the end is nonsense, and judged so
ROW_START = bytes([code.EMPTY_DICT, code.MEMOIZE, code.MARK])
ONE_MORE_BATCH = b"e("  # Python's pickler closes a list's batch after each 1000 elements

LIST_START = bytes([code.EMPTY_LIST, code.MEMOIZE])
FRESH_LIST = re.compile(rb"\]\x94(?:(?:h.|j....)a|\((?:h.|j....)+e)?", re.DOTALL)
PLACE = re.compile(rb"h(.)|j(....)", re.DOTALL)

NUMBER, GET, TEXT, PAIR, LIST, NOTHING, WRONG = range(7)


def _table(default: int, values: dict[int, int]) -> Array:
    table = np.full(256, default, np.int8)
    for op, value in values.items():
        table[op] = value
    return table


KIND = _table(
    WRONG,
    {code.BININT1: NUMBER, code.BININT2: NUMBER, code.BININT: NUMBER, code.LONG1: NUMBER,
     code.BINGET: GET, code.LONG_BINGET: GET, code.SHORT_BINUNICODE: TEXT, code.NONE: NOTHING},
)  # fmt: skip
BYTES = _table(
    0, {code.BININT1: 1, code.BININT2: 2, code.BININT: 4, code.BINGET: 1, code.LONG_BINGET: 4}
)
COUNTED = _table(0, {code.LONG1: 1, code.SHORT_BINUNICODE: 1})  # a byte with the length comes first
SIGNED = _table(0, {code.BININT: 1, code.LONG1: 1})


class Cell(NamedTuple):
    """One value of each row.

    kind   NUMBER, GET, TEXT, PAIR, LIST or NOTHING
    value  the number; the place in the memo; the first byte of a text; which of the distinct
           lists; of a pair the first number
    more   the byte after a text; of a pair the second number
    """

    kind: Array
    value: Array
    more: Array


class Rows:
    """The rows that follow the pattern, in the order of the file.

    cells     {key: Cell}
    memoized  how many objects of each row enter the memo
    places    {key: what number of these its text, pair or list is, or -1}
    lists     the memo places in each distinct list of frames
    """

    def __init__(self, names: list[str], count: int) -> None:
        def column(dtype: type) -> Array:
            return np.zeros(count, dtype)

        self.cells = {
            name: Cell(column(np.int8), column(np.int64), column(np.int64)) for name in names
        }
        self.places = {name: column(np.int8) for name in names}
        self.memoized = column(np.int8)
        self.lists: list[list[int]] = []
        self.count = 0

    def add(self, found: list[tuple[Array, Array]], good: Array) -> None:
        """Keep the good ones of some more rows: (column, its values for each row or for all)."""
        into = slice(self.count, self.count + int(np.count_nonzero(good)))
        self.count = into.stop
        for column, values in found:
            if len(values) > 1:
                column[into] = values if good.all() else values[good]
            elif values[0]:  # what stays zero takes no memory
                column[into] = values


class _Lists(dict[bytes, int]):
    """Numbers for lists of frames by their bytes; equal bytes mean the same objects."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[list[int]] = []
        self.whole: list[bool] = []

    def __missing__(self, written: bytes) -> int:
        whole = FRESH_LIST.fullmatch(written) is not None
        found = PLACE.findall(written, len(LIST_START)) if whole else ()
        self.places.append([int.from_bytes(short or long, "little") for short, long in found])
        self.whole.append(whole)
        number = self[written] = len(self)
        return number


class RowReader:
    """Knows how one row's keys are written: each as the memo place of its name.

    data   the pickle without frames, padded by `PADDING`
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._keys: list[tuple[str, bytes]] = []
        self._lists = _Lists()
        self._raw = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((len(data) - 8,), "<u8", data, strides=(1,))

    def learn(self, position: int, names: list[str], memo: list[Any]) -> None:
        """Take the row at `position` as the pattern; its keys are these, in this order.

        Raises   NotRegular   it has others, or writes them as no pickler does
        """
        if "frames" in names[:-1]:
            raise NotRegular("frames are not the last of a row")
        position += len(ROW_START)
        for name in names:
            written, place = _key(self._data, position)
            if place >= len(memo) or memo[place] != name:
                raise NotRegular(f"byte {position}: not the key {name}")
            self._keys.append((name, written))
            value = np.array([position + len(written)])
            cell, after, _ = self._value(name, value, value)
            position = int(after[0])
            if cell.kind[0] == WRONG:
                raise NotRegular(f"byte {position}: not a {name}")

    def starts(self, begin: int) -> Array:
        """Where a row may begin, from byte `begin` on."""
        pattern = ROW_START + self._keys[0][1]
        found = []
        for at in range(begin, len(self._data) - len(PADDING), SEARCHED):
            part = self._raw[at : at + SEARCHED + len(pattern)]
            hits = np.flatnonzero(part[1 : SEARCHED + 1] == code.MEMOIZE)  # rarer than most bytes
            for offset in (2, 0, *range(3, len(pattern))):
                hits = hits[part[np.minimum(hits + offset, len(part) - 1)] == pattern[offset]]
            found.append(hits + at)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def read(
        self, starts: Array, told: Callable[[float], None] | None = None
    ) -> tuple[Rows, dict[int, Stretch]]:
        """The rows between these starts, and the stretches of those that follow the pattern.

        The last start has no end yet, so that row is left out.
        """
        count = max(0, len(starts) - 1)
        rows = Rows([name for name, _ in self._keys], count)
        ends, good = np.zeros(count, np.int64), np.zeros(count, bool)
        for at in range(0, count, CHUNK):
            part = slice(at, min(at + CHUNK, count))
            ends[part], good[part] = self._chunk(rows, part, starts)
            if told:
                told(part.stop / count)
        rows.lists = self._lists.places
        return rows, _stretches(starts[:-1][good], ends[good], rows.memoized)

    def _chunk(self, rows: Rows, part: slice, all_starts: Array) -> tuple[Array, Array]:
        """Add these rows; returns where each ends, and whether it follows the pattern."""
        raw, words = self._raw, self._words
        starts, following = all_starts[part], all_starts[part.start + 1 : part.stop + 1]
        good = np.ones(len(starts), bool)
        position = starts + len(ROW_START)
        memoized = np.ones(len(starts), np.int8)  # the dict itself
        # A row ends with SETITEMS; at each thousandth one the list's batch ends and another begins.
        batch = raw[following - 1] == code.MARK
        end = following - 2 * batch
        good &= raw[end - 1] == code.SETITEMS
        good[batch] &= raw[end[batch]] == ONE_MORE_BATCH[0]
        columns: list[tuple[Array, Array]] = []
        for name, written in self._keys:
            word = int.from_bytes(written, "little")
            mask = np.uint64((1 << 8 * len(written)) - 1)
            good &= (words[position] & mask) == word
            position = np.where(good, position + len(written), starts)
            cell, position, extra = self._value(name, position, end)
            good &= (cell.kind != WRONG) & (position < end)
            if name == "frames":
                good &= self._number_lists(cell, good)
            position = np.where(good, position, starts)
            columns += zip(rows.cells[name], cell, strict=True)
            columns.append((rows.places[name], np.where(extra > 0, memoized, -1)))
            memoized = memoized + extra
        good &= position == end - 1
        rows.add([*columns, (rows.memoized, memoized)], good)
        return end, good

    def _number_lists(self, frames: Cell, good: Array) -> Array:
        """Put the number of its list into each cell; True where the list holds only frames."""
        right = np.ones(len(good), bool)
        rows = np.flatnonzero(good & (frames.kind == LIST))
        cuts = map(slice, frames.value[rows].tolist(), frames.more[rows].tolist())
        pieces = map(self._data.__getitem__, cuts)
        number = np.fromiter(map(self._lists.__getitem__, pieces), np.int64, len(rows))
        frames.value[rows] = number
        right[rows] = np.array(self._lists.whole, bool)[number]
        return right

    def _value(self, name: str, position: Array, end: Array) -> tuple[Cell, Array, Array]:
        """The values at these positions: (cell, position behind it, objects memoized)."""
        op, counted, cell, after = self._scalar(position)
        extra = np.zeros(len(position), np.int8)
        text = cell.kind == TEXT
        if text.any():
            wrong = text & (self._raw[after] != code.MEMOIZE)
            start = position + 2
            cell = Cell(
                np.where(wrong, WRONG, cell.kind),
                np.where(text, start, cell.value),
                np.where(text, start + counted, cell.more),
            )
            extra += text
            after = after + text
        if name.endswith("pool_id"):
            return self._pair(cell, after, extra)
        if name == "frames":  # the last key: its list goes on to the row's end
            fresh = op == code.EMPTY_LIST
            stop = end - 1
            cell = Cell(
                np.where(fresh, LIST, cell.kind),
                np.where(fresh, position, cell.value),
                np.where(fresh, stop, cell.more),
            )
            return cell, np.where(fresh, stop, after), extra + fresh
        return cell, after, extra

    def _scalar(self, position: Array) -> tuple[Array, Array, Cell, Array]:
        """Opcode, length byte, cell and the position behind; of length 1 where all are equal."""
        op, counted = self._raw[position], self._raw[position + 1].astype(np.int64)
        if (op == op[0]).all() and (not COUNTED[op[0]] or (counted == counted[0]).all()):
            op, counted = op[:1], counted[:1]
        counts = COUNTED[op]
        long = op == code.LONG1
        size = np.where(long, counted, BYTES[op])
        shift = (64 - 8 * np.minimum(size, 8)).astype(np.uint64)
        shift = np.minimum(shift, np.uint64(63))  # of a value without bytes nothing is read
        word = self._words[position + 1 + counts] << shift
        if (SIGNED[op] > 0).all():
            value = word.view(np.int64) >> shift.astype(np.int64)
        else:
            value = (word >> shift).view(np.int64)
            signed = word.view(np.int64) >> shift.astype(np.int64)
            value = np.where(SIGNED[op] > 0, signed, value)
        value = np.where(size == 0, 0, value)
        kind = np.where(long & (counted > 8), WRONG, KIND[op])
        after = position + 1 + np.where(counts > 0, 1 + counted, BYTES[op])
        return op, counted, Cell(kind, value, np.zeros(1, np.int64)), after

    def _pair(self, first: Cell, after: Array, extra: Array) -> tuple[Cell, Array, Array]:
        """A tuple of two numbers is written as the numbers and code.TUPLE2."""
        pair = first.kind == NUMBER
        _, _, second, behind = self._scalar(np.where(pair, after, 0))
        closed = (self._raw[behind] == code.TUPLE2) & (self._raw[behind + 1] == code.MEMOIZE)
        right = pair & (second.kind == NUMBER) & closed
        kind = np.where(pair, np.where(right, PAIR, WRONG), first.kind)
        cell = Cell(kind, first.value, np.where(right, second.value, first.more))
        return cell, np.where(right, behind + 2, after), extra + right


def _stretches(start: Array, end: Array, memoized: Array) -> dict[int, Stretch]:
    """Rows that follow on each other without a byte in between, as one stretch each."""
    if not len(start):
        return {}
    cuts = [0, *(np.flatnonzero(end[:-1] != start[1:]) + 1).tolist(), len(start)]
    before = np.concatenate([[0], np.cumsum(memoized[: len(start)], dtype=np.int64)])
    return {
        int(start[first]): Stretch(
            first, last, int(end[last - 1]), int(before[last] - before[first])
        )
        for first, last in pairwise(cuts)
    }


def _key(data: bytes, position: int) -> tuple[bytes, int]:
    """How the key at `position` is written, and its place in the memo."""
    op = data[position]
    if op == code.BINGET:
        return data[position : position + 2], data[position + 1]
    if op == code.LONG_BINGET:
        written = data[position : position + 5]
        return written, int.from_bytes(written[1:], "little")
    raise NotRegular(f"byte {position}: a row whose keys are not in the memo")
