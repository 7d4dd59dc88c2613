"""A queue in front of one worker: who waits, how long, and who finds no room.

A camera cannot wait: a frame for which there is no room is lost. How much room it takes to lose
few frames, and how late the others come then, is what queueing theory answers for one kind of
chance, and what `through` answers for any recorded one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """What became of the frames that arrived.

    entered, left  times at which each frame that found room joined the line, and began to be worked
                   on: it then has left the line
    dropped        how many found no room
    """

    entered: tuple[float, ...]
    left: tuple[float, ...]
    dropped: int

    @property
    def waits(self) -> list[float]:
        """How long each frame stood in line."""
        return [out - into for into, out in zip(self.entered, self.left, strict=True)]

    @property
    def drop_rate(self) -> float:
        """The share of the frames that found no room."""
        arrived = len(self.entered) + self.dropped
        return self.dropped / arrived if arrived else 0.0


def through(arrivals: Sequence[float], work: Sequence[float], room: int) -> Line:
    """The line of these frames in front of one worker, when `room` of them may wait.

    arrivals  times, in order; work  how long each frame keeps the worker
    """
    entered, left, waiting = list[float](), list[float](), deque[float]()
    dropped, free = 0, float("-inf")
    for now, needs in zip(arrivals, work, strict=True):
        while waiting and waiting[0] <= now:
            waiting.popleft()
        if free > now and len(waiting) >= room:
            dropped += 1
            continue
        begins = max(now, free)
        free = begins + needs
        entered.append(now)
        left.append(begins)
        if begins > now:
            waiting.append(begins)
    return Line(tuple(entered), tuple(left), dropped)


def smallest_room(
    arrivals: Sequence[float], work: Sequence[float], most_dropped: float, most: int
) -> int | None:
    """The least room, up to `most`, that drops at most this share of these frames; None: none does.

    More room never drops more of the same frames, so the gap is halved.
    """
    if through(arrivals, work, most).drop_rate > most_dropped:
        return None
    too_small, enough = -1, most
    while enough - too_small > 1:
        room = (too_small + enough) // 2
        if through(arrivals, work, room).drop_rate > most_dropped:
            too_small = room
        else:
            enough = room
    return enough


@dataclass(frozen=True)
class Little:
    """A line in three numbers, each measured by itself; Little's law says length = rate * wait.

    length  how many stood in it on average over time; rate  how many joined in a unit of time
    wait    how long one stood in it on average
    """

    length: float
    rate: float
    wait: float


def little(entered: Sequence[float], left: Sequence[float]) -> Little:
    """The three numbers, from the first that joins to the last that leaves.

    The length is added up from moment to moment, whoever it is that stands there.
    """
    changes = sorted([(time, 1) for time in entered] + [(time, -1) for time in left])
    begin, end = changes[0][0], changes[-1][0]
    area, standing, last = 0.0, 0, begin
    for time, change in changes:
        area += standing * (time - last)
        standing, last = standing + change, time
    span = end - begin
    return Little(area / span, len(entered) / span, (sum(left) - sum(entered)) / len(entered))


def drop_rate(load: float, room: int) -> float:
    """The share that finds no room, when arrivals and work are random without a memory (M/M/1/K).

    load  mean work / mean time between arrivals
    """
    places = room + 1  # the one being worked on has a place of its own
    chances = [load**standing for standing in range(places + 1)]
    return chances[-1] / sum(chances)
