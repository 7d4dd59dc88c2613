"""A small machine for pickles of plain containers, which can step over rows it need not build.

`pickle.Unpickler` has no way to leave a part of a stream out. This machine knows the opcodes that
Python's own pickler writes for dict, list, tuple, str, int, float, bool and None, and no others:
for anything else it gives up, and `restricted_pickle` reads the file instead.
"""

import struct
from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

from labkit.memory.snapshots.restricted_pickle import is_simple


class NotRegular(Exception):
    """The fast reader cannot read this; the general one decides what it is."""


class InRun(NamedTuple):
    """Something that was memoized in rows which were stepped over: its place in the memo."""

    place: int


class Run(NamedTuple):
    """Rows stepped over: [first, last) in the table of rows, from `memo` on in the memo."""

    first: int
    last: int
    memo: int


class Stretch(NamedTuple):
    """Where a run ends: rows [first, last), the byte after them, and what they memoize."""

    first: int
    last: int
    end: int
    memoized: int


MARK, EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE, MEMOIZE, STOP = b"(}])\x94."
BINGET, LONG_BINGET, BININT1, BININT2, BININT, LONG1 = b"hjKMJ\x8a"
SHORT_BINUNICODE, BINUNICODE, BINFLOAT, NONE, NEWTRUE, NEWFALSE = b"\x8cXGN\x88\x89"
TUPLE, TUPLE1, TUPLE2, TUPLE3, APPEND, APPENDS, SETITEM, SETITEMS = b"t\x85\x86\x87aesu"
CONSTANTS = {NONE: None, NEWTRUE: True, NEWFALSE: False}
SHORT_TUPLES = {TUPLE1: 1, TUPLE2: 2, TUPLE3: 3}
MOST_OPCODES = 1_000_000
"""Outside of the rows that are stepped over; a million regular entries need under 30,000."""


class PlainMachine:
    """Reads `data`, a pickle without its FRAME opcodes, from `position` on.

    stretches  {byte at which a run of rows begins: Stretch}, filled in by whoever knows them
    """

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position
        self.memo: list[Any] = []
        self.stretches: Mapping[int, Stretch] = {}
        self.runs: list[Run] = []
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []

    def read(self, until_dict_with: str = "") -> Any:
        """The object of the whole pickle, or the first finished dict that has this key.

        Called again after such a dict, it goes on behind it.

        Raises   NotRegular   an opcode of another kind, or a stream that is cut short
        """
        try:
            return self._read(until_dict_with)
        except (IndexError, TypeError, AttributeError, ValueError, struct.error) as error:
            raise NotRegular(f"{type(error).__name__} before byte {self.position}") from None

    def _read(self, until_dict_with: str) -> Any:
        data, memo, stack, position = self.data, self.memo, self._stack, self.position
        for _ in range(MOST_OPCODES):
            self.position = position
            op = data[position]
            if op == BINGET:
                place = data[position + 1]
                found = memo[place]
                stack.append(InRun(place) if found is None else found)
                position += 2
            elif op == LONG_BINGET:
                place = int.from_bytes(data[position + 1 : position + 5], "little")
                found = memo[place]
                stack.append(InRun(place) if found is None else found)
                position += 5
            elif op == MEMOIZE:
                if stack[-1] is None:
                    raise NotRegular("a memoized None")
                memo.append(stack[-1])
                position += 1
            elif op == SHORT_BINUNICODE:
                end = position + 2 + data[position + 1]
                stack.append(_text(data, position + 2, end))
                position = end
            elif op == BININT1:
                stack.append(data[position + 1])
                position += 2
            elif op == EMPTY_DICT:
                stretch = self.stretches.get(position)
                if stretch is None:
                    stack.append({})
                    position += 1
                else:
                    position = self._step_over(stretch)
            elif op == MARK:
                self._below.append(stack)
                self._stack = stack = []
                position += 1
            elif op == SETITEMS:
                items, stack = stack, self._pop_mark()
                found = stack[-1]
                if type(found) is not dict:
                    raise NotRegular(f"byte {position}: items for a {type(found).__name__}")
                found.update(zip(_as_keys(items[::2]), items[1::2], strict=True))
                position += 1
                if until_dict_with and until_dict_with in found:
                    self.position = position
                    return found
            elif op in (APPEND, APPENDS):
                items, stack = ([stack.pop()], stack) if op == APPEND else (stack, self._pop_mark())
                if type(stack[-1]) is not list:
                    raise NotRegular(f"byte {position}: elements for a {type(stack[-1]).__name__}")
                stack[-1].extend(items)
                position += 1
            elif op == SETITEM:
                value, key = stack.pop(), stack.pop()
                if type(stack[-1]) is not dict:
                    raise NotRegular(f"byte {position}: an item for a {type(stack[-1]).__name__}")
                stack[-1].update(zip(_as_keys([key]), [value], strict=True))
                position += 1
            elif op == EMPTY_LIST:
                stack.append([])
                position += 1
            elif op == BININT2:
                stack.append(data[position + 1] | data[position + 2] << 8)
                position += 3
            elif op == BININT:
                stack.append(struct.unpack_from("<i", data, position + 1)[0])
                position += 5
            elif op == LONG1:
                end = position + 2 + data[position + 1]
                if end > len(data):
                    raise NotRegular("a number is cut short")
                stack.append(int.from_bytes(data[position + 2 : end], "little", signed=True))
                position = end
            elif op in CONSTANTS:
                stack.append(CONSTANTS[op])
                position += 1
            elif op in SHORT_TUPLES:
                count = SHORT_TUPLES[op]
                if len(stack) < count:
                    raise NotRegular(f"byte {position}: a tuple of more than there is")
                stack[-count:] = [_tuple(stack[-count:])]
                position += 1
            elif op == TUPLE:
                items, stack = stack, self._pop_mark()
                stack.append(_tuple(items))
                position += 1
            elif op == EMPTY_TUPLE:
                stack.append(())
                position += 1
            elif op == BINUNICODE:
                end = position + 5 + int.from_bytes(data[position + 1 : position + 5], "little")
                stack.append(_text(data, position + 5, end))
                position = end
            elif op == BINFLOAT:
                stack.append(struct.unpack_from(">d", data, position + 1)[0])
                position += 9
            elif op == STOP:
                return stack.pop()
            else:
                raise NotRegular(f"byte {position}: opcode {op:#x}")
        raise NotRegular(f"more than {MOST_OPCODES} opcodes outside of regular rows")

    def _pop_mark(self) -> list[Any]:
        self._stack = self._below.pop()
        return self._stack

    def _step_over(self, stretch: Stretch) -> int:
        run = Run(stretch.first, stretch.last, len(self.memo))
        self._stack.append(run)
        self.runs.append(run)
        self.memo.extend(repeat(None, stretch.memoized))  # a GET of these makes an InRun
        return stretch.end


def _tuple(items: list[Any]) -> tuple[Any, ...]:
    made = tuple(items)
    if not is_simple(made):
        raise NotRegular("a tuple in a tuple, or a long one")
    return made


def _as_keys(keys: list[Any]) -> list[Any]:
    """The keys, of which none is a tuple: hashing one may never end."""
    if any(type(key) is tuple for key in keys):
        raise NotRegular("a tuple as a key")
    return keys


def _text(data: bytes, start: int, end: int) -> str:
    if end > len(data):
        raise NotRegular("a text is cut short")
    return data[start:end].decode("utf-8", "surrogatepass")
