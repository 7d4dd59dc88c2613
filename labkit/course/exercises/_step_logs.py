"""Random logs of a training step, as `labkit.course.benches.step_log` writes them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labkit.course.benches.step_log import StepEvent
from labkit.course.exercise import Rng
from labkit.course.exercises._fewer import fewer

PROGRAM = 0
"""The thread on which the lines run; the engine has all others, with few lines on them."""
OPERATORS = ("mm", "tanh", "add", "mul", "sum", "t", "copy_")
KERNELS = ("gemm", "lab_add", "lab_mul", "copy", "fill")
GRAIN = 512
"""Blocks begin at multiples of it, the next one right behind a full one."""
OLDER = 8
"""Grains of memory that is older than the step."""
SIZES = (4, 24, 32, 192, GRAIN, GRAIN, 800, 2 * GRAIN)


def a_log(
    rng: Rng, size: int, *, again: bool = True, inside: bool = True, threads: int = 3
) -> list[StepEvent]:
    """A log in which everything that belongs together can be found.

    again   freed places are handed out again
    inside  kernels read and write in the middle of blocks too
    """
    log: list[StepEvent] = []
    lines = [f"{number} {rng.choice('abcdefgh')}" for number in range(2, 4 + size // 2)]
    memory = _Memory(rng, again, inside)
    open_calls: dict[int, int] = dict.fromkeys(range(threads), 0)
    recorded = 0

    def thread_of(at_least: int = 0) -> int:
        return rng.randrange(at_least, threads) if threads > at_least else PROGRAM

    for _ in range(4 + 6 * size):
        thread = thread_of()
        line = rng.choice(lines) if thread == PROGRAM or rng.chance(0.15) else ""
        kind = rng.choice(("enter", "enter", "leave", "node", "run", "memory", "queue", "queue"))
        if kind == "enter":
            open_calls[thread] += 1
            log.append(StepEvent("enter", thread, line, rng.choice(OPERATORS)))
        elif kind == "leave" and open_calls[thread]:
            open_calls[thread] -= 1
            log.append(StepEvent("leave", thread, line))
        elif kind == "node" and thread == PROGRAM:
            recorded += 1
            log.append(StepEvent("node", thread, line, "Backward", recorded))
        elif kind == "run" and thread != PROGRAM:
            leaf = not recorded or rng.chance(0.2)
            number = 0 if leaf else rng.randint(1, recorded)
            log.append(
                StepEvent("run", thread, "", "AccumulateGrad" if leaf else "Backward", number)
            )
        elif kind == "memory":
            log.append(memory.event(thread, line))
        elif kind == "queue":
            reads, writes = memory.some(), memory.some()[:1]
            name, stream = rng.choice(KERNELS), rng.choice((0, 0, 1))
            log.append(
                StepEvent("queue", thread, line, name, stream=stream, reads=reads, writes=writes)
            )
    return log


class _Memory:
    """Blocks in use, and places that are free again."""

    def __init__(self, rng: Rng, again: bool, inside: bool) -> None:
        self.rng, self.again, self.inside = rng, again, inside
        self.used: dict[int, int] = {}
        self.empty: list[int] = []
        self.room: dict[int, int] = {}
        self.gone: list[int] = []
        self.end = OLDER * GRAIN
        self.older = [GRAIN * rng.randrange(OLDER) for _ in range(3)]

    def event(self, thread: int, line: str) -> StepEvent:
        """A block is handed out, or goes back: perhaps one that is older than the step."""
        rng = self.rng
        if self.used and rng.chance(0.4):
            at = rng.choice(list(self.used))
            del self.used[at]
            if self.again:
                self.empty.append(at)
            self.gone = [place for place in [*self.gone, at] if place not in self.used][-3:]
            return StepEvent("free", thread, line, at=at)
        if self.older and rng.chance(0.1):
            return StepEvent("free", thread, line, at=self.older.pop())
        if self.empty and rng.chance(0.8):
            at = self.empty.pop(rng.randrange(len(self.empty)))
        else:
            at = self.end
            self.room[at] = rng.choice((GRAIN, 2 * GRAIN))
            self.end += self.room[at]
        nbytes = rng.choice([size for size in SIZES if size <= self.room[at]])
        self.used[at] = nbytes
        self.gone = [place for place in self.gone if place != at]
        return StepEvent("block", thread, line, at=at, nbytes=nbytes)

    def some(self) -> tuple[int, ...]:
        """Up to three addresses: in blocks of now, in older memory, or where a block has been."""
        rng, found = self.rng, []
        for _ in range(rng.randint(1, 3)):
            if self.gone and rng.chance(0.1):
                found.append(rng.choice(self.gone))
            elif self.used and rng.chance(0.85):
                at = rng.choice(list(self.used))
                last = self.used[at] - 4
                found.append(
                    at + rng.choice((0, 4 * rng.randint(0, last // 4), last)) * self.inside
                )
            else:
                found.append(GRAIN * rng.randrange(OLDER))
        return tuple(found)


def shown(log: list[StepEvent], *_: Any) -> str:
    """The log, a line for each event, with its addresses as `nbytes` is written: in tens."""
    return "\n".join(f"{place:3} {event.said(str)}" for place, event in enumerate(log))


def smaller_logs(log: list[StepEvent]) -> Iterator[tuple[list[StepEvent]]]:
    """The log with fewer events, or with fewer addresses in one of them."""
    for some in fewer(log, _can_be):
        yield (some,)
    for place, event in enumerate(log):
        with_less = [replace(event, reads=tuple(some)) for some in fewer([*event.reads])]
        with_less += [replace(event, writes=tuple(some)) for some in fewer([*event.writes])]
        for less in with_less:
            yield ([*log[:place], less, *log[place + 1 :]],)


def _can_be(log: list[StepEvent]) -> bool:
    """Whether what ends has begun, what runs was recorded, and no place is handed out twice."""
    open_calls: dict[int, int] = {}
    recorded, used = {0}, set[int]()
    for event in log:
        if event.kind == "enter":
            open_calls[event.thread] = open_calls.get(event.thread, 0) + 1
        elif event.kind == "leave":
            open_calls[event.thread] = open_calls.get(event.thread, 0) - 1
        elif event.kind == "node":
            recorded.add(event.number)
        elif event.kind == "free":
            used.discard(event.at)
        elif event.kind == "block" and event.at in used:
            return False
        elif event.kind == "block":
            used.add(event.at)
        if open_calls.get(event.thread, 0) < 0 or event.number not in recorded:
            return False
    return True
