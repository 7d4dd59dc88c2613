"""Tracebacks of a snapshot, each distinct one stored once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.memory.snapshots.restricted_pickle import SnapshotError, short

LAST_LINE = 2**31 - 1
NO_LINE = 2**64 - 1
"""Python says -1 for code that stands in no line (from 3.11 on), and PyTorch writes it unsigned."""

Array = NDArray[Any]
Frame = tuple[str, str, int]


class Codes(dict[Any, Any]):
    """Small numbers for values, in the order in which they first appear."""

    def __init__(self, *known: Any) -> None:
        super().__init__((value, number) for number, value in enumerate(known))

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


@dataclass(frozen=True)
class StackTable:
    """Every distinct traceback once; stack 0 is the empty one.

    frames   (function, file, line) of each distinct frame
    starts   [stacks + 1] where each stack begins in `members`
    members  frame numbers, innermost first
    """

    frames: tuple[Frame, ...]
    starts: Array
    members: Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, stack: int) -> list[Frame]:
        return [self.frames[i] for i in self.members[self.starts[stack] : self.starts[stack + 1]]]


def stack_table(tracebacks: list[Any]) -> tuple[Array, StackTable]:
    """A stack number per traceback, and the table they point into."""
    group_of, leaders = _identical_lists(tracebacks)
    frames: dict[Frame, int] = {}
    frame_by_id: dict[int, int] = {}
    stacks: dict[tuple[int, ...], int] = {(): 0}
    number_of_group = np.zeros(len(leaders), np.int32)
    for position in np.argsort(leaders).tolist():  # by first appearance: the same in every run
        members = []
        for frame in tracebacks[leaders[position]] if position else ():
            number = frame_by_id.get(id(frame))
            if number is None:
                number = frames.setdefault(_frame(frame), len(frames))
                frame_by_id[id(frame)] = number
            members.append(number)
        number_of_group[position] = stacks.setdefault(tuple(members), len(stacks))
    lengths = np.fromiter(map(len, stacks), np.int64, len(stacks))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    members_array = np.fromiter((m for stack in stacks for m in stack), np.int32, int(starts[-1]))
    table = StackTable(tuple(frames), starts, members_array)
    return number_of_group[group_of].astype(np.int32), table


def _frame(frame: Any) -> Frame:
    if isinstance(frame, dict):
        name, filename, line = frame.get("name"), frame.get("filename"), frame.get("line")
        if isinstance(name, str) and isinstance(filename, str) and isinstance(line, int):
            if line == NO_LINE:
                return name, filename, 0
            if abs(line) <= LAST_LINE:
                return name, filename, line
            raise SnapshotError(f"frame {short(name)!r} is at line {short(line)}")
        shown = {short(key): short(value) for key, value in list(frame.items())[:4]}
        raise SnapshotError(f"frame {shown!r} needs name and filename (str) and line (int)")
    raise SnapshotError(f"a frame is a {type(frame).__name__}, not a dict")


def _identical_lists(lists: list[Any]) -> tuple[Array, list[int]]:
    """Group lists holding the same objects: (group of each list, index of one of each group)."""
    kinds = set(map(type, lists)) - {list, tuple}
    if kinds:
        raise SnapshotError(f"frames is a {kinds.pop().__name__}, not a list")
    groups: dict[tuple[int, ...], int] = {(): 0}
    leaders = [-1]  # of group 0, the empty lists
    group_of = np.zeros(len(lists), np.int64)
    for index, objects in enumerate(lists):
        group = groups.setdefault(tuple(map(id, objects)), len(leaders))
        if group == len(leaders):
            leaders.append(index)
        group_of[index] = group
    return group_of, leaders
