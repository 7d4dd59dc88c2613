"""A trace whose rows were mostly stepped over: each column from the rows' bytes and the dicts."""

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.memory.snapshots.plain_machine import InRun, NotRegular, PlainMachine, Run
from labkit.memory.snapshots.stack_table import Codes
from labkit.memory.snapshots.trace_rows import GET, LIST, NOTHING, NUMBER, PAIR, TEXT, Array, Rows


class SteppedRows:
    """What the machine and the row reader found out together, for the rows of every trace.

    Raises   NotRegular   from every method, where a row refers to what it cannot mean
    """

    def __init__(self, data: bytes, machine: PlainMachine, rows: Rows) -> None:
        self.data, self.memo, self.rows = data, machine.memo, rows
        self.starts = np.array([run.memo for run in machine.runs], np.int64)
        self.runs = machine.runs
        memoized = rows.memoized[: rows.count]
        self.base = np.zeros(rows.count, np.int64)  # the memo's length before each row
        before = np.cumsum(memoized, dtype=np.int64) - memoized
        for first, last, memo in machine.runs:
            self.base[first:last] = before[first:last] + (memo - before[first])
        self._lists: dict[int, list[Any]] = {}

    def value(self, key: str, row: int) -> Any:
        """What the row holds under this key, as unpickling would make it."""
        kind, value, more = (int(column[row]) for column in self.rows.cells[key])
        if kind == TEXT:
            return self.data[value:more].decode("utf-8", "surrogatepass")
        if kind == PAIR:
            return value, more
        if kind == LIST:
            return self._frames(value, int(self.base[row]))
        if kind == NUMBER:
            return value
        if kind == GET:
            return self.remembered(value, int(self.base[row]))
        return None

    def remembered(self, place: int, before: int) -> Any:
        """The object at a place of the memo, which had `before` objects when it was asked for."""
        if place >= before:
            raise NotRegular(f"memo place {place} of {before}")
        found = self.memo[place]
        if found is not None:
            return found
        run = self.runs[int(np.searchsorted(self.starts, place, "right")) - 1]
        row = int(np.searchsorted(self.base[run.first : run.last], place, "right")) - 1 + run.first
        for key, places in self.rows.places.items():
            if places[row] >= 0 and int(self.base[row]) + int(places[row]) == place:
                return self.value(key, row)
        raise NotRegular(f"memo place {place} is a row")

    def resolved(self, value: Any, known: dict[int, Any]) -> Any:
        """The value with what was memoized in rows put in; `known` is what was done already."""
        if type(value) is InRun:
            return self.remembered(value.place, len(self.memo))
        if type(value) not in (dict, list, tuple):
            return value
        if id(value) not in known:
            if type(value) is dict:
                new: Any = {
                    self.resolved(k, known): self.resolved(v, known) for k, v in value.items()
                }
            else:
                new = type(value)([self.resolved(item, known) for item in value])
            known[id(value)] = new
        return known[id(value)]

    def _frames(self, number: int, before: int) -> list[Any]:
        known = self._lists.get(number)
        if known is None:
            places = self.rows.lists[number]
            known = self._lists[number] = [self.remembered(at, before) for at in places]
        return known


class TraceTable:
    """One trace: dicts for the rows that deviate, runs of rows for the others."""

    def __init__(self, stepped: SteppedRows, trace: list[Any]) -> None:
        self._stepped = stepped
        lengths = np.array([r.last - r.first if type(r) is Run else 1 for r in trace], np.int64)
        starts = np.cumsum(lengths) - lengths
        self._length = int(lengths.sum())
        self.dicts: list[dict[str, Any]] = []
        places, spread = [], [np.zeros(0, np.int64)]
        runs: list[Run] = []
        for start, row in zip(starts.tolist(), trace, strict=True):
            if type(row) is Run:
                if runs and runs[-1].last != row.first:
                    raise NotRegular("rows between those of a trace")
                runs.append(row)
                spread.append(np.arange(start, start + row.last - row.first))
            elif type(row) is dict:
                places.append(start)
                self.dicts.append({key: self._plain(value) for key, value in row.items()})
            else:
                raise NotRegular(f"a row that is a {type(row).__name__}")
        self._at = np.array(places, np.int64)  # of the dicts
        self._spread = np.concatenate(spread)  # where each row of a run is in the trace
        self._first = runs[0].first if runs else 0
        self._rows = slice(self._first, self._first + len(self._spread))

    def __len__(self) -> int:
        return self._length

    def rows(self, places: Array) -> list[dict[str, Any]]:
        """The rows at these places, as unpickling would make them."""
        stepped = self._stepped
        of_dicts = np.searchsorted(self._at, places).tolist()
        of_runs = np.searchsorted(self._spread, places).tolist()
        return [
            stepped.resolved(self.dicts[in_dicts], {})
            if in_dicts < len(self._at) and self._at[in_dicts] == place
            else {key: stepped.value(key, self._first + in_runs) for key in stepped.rows.cells}
            for place, in_dicts, in_runs in zip(places.tolist(), of_dicts, of_runs, strict=True)
        ]

    def numbers(self, key: str, of_dicts: Array) -> Array:
        """A number per row; those of the dicts are given."""
        column = np.zeros(len(self), np.int64)
        column[self._at] = of_dicts
        if len(self._spread) and key in self._stepped.rows.cells:
            kind, value, _ = self._stepped.rows.cells[key]
            if (kind[self._rows] != NUMBER).any():
                raise NotRegular(f"a {key} that is no number")
            column[self._spread] = value[self._rows]
        return column

    def distinct(self, key: str, default: Any) -> tuple[list[Any], Array]:
        """(values by first appearance, the number of each row's value); a value may come twice."""
        values: list[Any] = [row.get(key, default) for row in self.dicts]
        column = np.zeros(len(self), np.int64)
        column[self._at] = np.arange(len(values))
        if len(self._spread):
            column[self._spread] = len(values)
            values.append(default)
            if key in self._stepped.rows.cells:
                leaders, group = self._groups(key)
                column[self._spread] = group + len(values)
                values.extend(self._stepped.value(key, row) for row in leaders.tolist())
        first = np.full(len(values), len(self), np.int64)
        first[column[::-1]] = np.arange(len(self))[::-1]
        order = np.argsort(first, kind="stable")
        number = np.empty(len(values), np.int64)
        number[order] = np.arange(len(values))
        used = int((first < len(self)).sum())
        return [values[i] for i in order[:used].tolist()], number[column]

    def _groups(self, key: str) -> tuple[Array, Array]:
        """Rows that hold the same bytes under a key: (one row of each group, group of each row)."""
        kind, value, more = (column[self._rows] for column in self._stepped.rows.cells[key])
        group = np.zeros(len(kind), np.int64)
        leaders = [np.zeros(0, np.int64)]
        count = 0
        for each, grouped in GROUPED.items():
            chosen = np.flatnonzero(kind == each)
            if len(chosen):
                first, inverse = grouped(self._stepped.data, value[chosen], more[chosen])
                group[chosen] = inverse + count
                leaders.append(chosen[first])
                count += len(first)
        if ((kind == GET) & (value >= self._stepped.base[self._rows])).any():
            raise NotRegular(f"a {key} before it was memoized")
        return self._first + np.concatenate(leaders), group

    def _plain(self, value: Any) -> Any:
        if type(value) is InRun:
            return self._stepped.remembered(value.place, len(self._stepped.memo))
        return value


Grouped = tuple[Array, Array]


def _by_number(_: bytes, value: Array, __: Array) -> Grouped:
    """Memo places and lists, of which there are few among many rows."""
    first = np.full(int(value.max()) + 1, -1, np.int64)
    first[value[::-1]] = np.arange(len(value))[::-1]
    used = np.flatnonzero(first >= 0)
    rank = np.zeros(len(first), np.int64)
    rank[used] = np.arange(len(used))
    return first[used], rank[value]


def _by_pair(_: bytes, value: Array, more: Array) -> Grouped:
    """Numbers, and pairs of them."""
    return _from_changes([value, more], lambda at: (int(value[at]), int(more[at])))


def _by_text(data: bytes, value: Array, more: Array) -> Grouped:
    """Texts such as a phase's name stay the same for many rows: their words are compared first."""
    length = more - value
    words = np.ndarray((len(data) - 8,), "<u8", data, strides=(1,))
    columns = [length]
    for at in range(0, int(length.max()), 8):
        left = np.clip(length - at, 0, 8)
        shift = np.minimum(8 * (8 - left), 63).astype(np.uint64)
        columns.append(np.where(left > 0, words[value + np.where(left > 0, at, 0)] << shift, 0))
    return _from_changes(columns, lambda at: data[value[at] : more[at]])


def _from_changes(columns: list[Array], name: Callable[[int], Any]) -> Grouped:
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    heads = np.flatnonzero(changed)
    return _numbered([name(at) for at in heads.tolist()], heads, np.cumsum(changed) - 1)


def _numbered(names: Any, at: Array, back: Array) -> Grouped:
    """Equal names share a number: (index of the first of each, number of each row)."""
    numbers = Codes()
    column = np.fromiter(map(numbers.__getitem__, names), np.int64, len(at))
    first = np.full(len(numbers), -1, np.int64)
    first[column[::-1]] = at[::-1]
    return first, column[back]


def _all_one(_: bytes, value: Array, __: Array) -> Grouped:
    return np.zeros(1, np.int64), np.zeros(len(value), np.int64)


GROUPED: dict[int, Callable[[bytes, Array, Array], Grouped]] = {
    GET: _by_number, PAIR: _by_pair, TEXT: _by_text, LIST: _by_number, NOTHING: _all_one,
    NUMBER: _by_pair,
}  # fmt: skip
