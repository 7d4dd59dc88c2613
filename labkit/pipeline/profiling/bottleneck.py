"""What a recorded run waited for: its critical path, and which kind of work it is made of.

A piece of work begins when the last of what it waits for has ended. From the last piece of a run,
this leads back to its beginning, and only what lies on this path made the run as long as it is.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.cuda.simulated_run import Span

NAMED = 0.3
"""The share of the path from which on a kind of work is named."""


@dataclass(frozen=True)
class Piece:
    """A part of the critical path: this kind of work in this lane, from start to end."""

    lane: str
    name: str
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Roof:
    """The most that a device can do in a µs.

    A kernel that needs longer for its bytes than for its operations is bound by memory.
    """

    bytes: float
    operations: float


@dataclass(frozen=True)
class Bottleneck:
    """What a run waited for.

    path    the critical path, in the order of time
    shares  kind of work -> its share of the path, the largest first
    busy    lane -> the share of the run in which it works
    """

    path: list[Piece]
    shares: dict[str, float]
    busy: dict[str, float]

    @property
    def kinds(self) -> list[str]:
        """The kinds that are named: they have a good part of the path."""
        return [kind for kind, share in self.shares.items() if share >= NAMED]

    @property
    def most(self) -> float:
        """How many times faster it would be if only the busiest lane's own work were left."""
        return 1 / max(self.busy.values())


def critical_path(spans: Sequence[Span], roof: Roof | None = None) -> list[Piece]:
    """The pieces of work that made this run as long as it is, in the order of time.

    spans  each with `after`, the indices of what it waited for; they stand before it

    Time on the path in which nothing runs is of the kind "idle", or "host" in a thread.

    Raises   ValueError   a span waits for one that does not stand before it
    """
    for at, span in enumerate(spans):
        if not all(0 <= cause < at for cause in span["after"]):
            raise ValueError(f"span {at} waits for {span['after']}: not all stand before it")
    at = max(range(len(spans)), key=lambda index: spans[index]["end"])
    until, path = spans[at]["end"], list[Piece]()
    while True:
        span = spans[at]
        begin = min(until, span["end"] if span["kind"] == "wait" else span["start"])
        if until > begin:
            path.append(Piece(span["lane"], span["name"], _kind(span, roof), begin, until))
        causes = [cause for cause in span["after"] if spans[cause]["start"] <= begin]
        if not causes:
            return path[::-1]
        at = max(causes, key=lambda cause: min(spans[cause]["end"], begin))
        until = min(spans[at]["end"], begin)
        if begin > until:
            kind = "host" if span["lane"].startswith("thread") else "idle"
            path.append(Piece(span["lane"], "between", kind, until, begin))


def bottleneck_of(spans: Sequence[Span], roof: Roof | None = None) -> Bottleneck:
    """What this run waited for.

    Raises   ValueError   nothing in it takes any time
    """
    path = critical_path(spans, roof)
    length = sum(piece.end - piece.start for piece in path)
    if not length:
        raise ValueError("nothing in this run takes any time")
    shares, busy = dict[str, float](), dict[str, float]()
    for piece in path:
        shares[piece.kind] = shares.get(piece.kind, 0.0) + (piece.end - piece.start) / length
    for span in spans:
        if span["kind"] != "wait":
            part = (span["end"] - span["start"]) / length
            busy[span["lane"]] = busy.get(span["lane"], 0.0) + part
    return Bottleneck(path, dict(sorted(shares.items(), key=lambda row: -row[1])), busy)


def with_causes(spans: Sequence[Span]) -> list[Span]:
    """The spans of a recording that does not say what waited for what, with `after`.

    In a lane, each waits for the one before it. A kernel or copy waits for the call that queued it,
    and what follows a wait of the host waits for what a device did last in that time.
    """
    pieces = [
        piece for lane in dict.fromkeys(s["lane"] for s in spans) for piece in _flat(spans, lane)
    ]
    pieces.sort(key=lambda p: (p["end"], 0) if p["kind"] == "wait" else (p["start"], 1))
    calls = {p["correlation"]: at for at, p in enumerate(pieces)
             if p["kind"] == "host" and "correlation" in p}  # fmt: skip
    device = sorted(
        (p["end"], at) for at, p in enumerate(pieces) if p["kind"] in ("kernel", "copy")
    )
    last: dict[str, int] = {}
    for at, piece in enumerate(pieces):
        piece["after"] = [last[piece["lane"]]] if piece["lane"] in last else []
        if piece["kind"] in ("kernel", "copy") and calls.get(piece.get("correlation"), at) < at:
            piece["after"].append(calls[piece["correlation"]])
        if piece["kind"] == "wait":
            ended = bisect.bisect(device, (piece["end"], len(pieces))) - 1
            if ended >= 0 and device[ended][0] > piece["start"]:
                piece["after"].append(device[ended][1])
        last[piece["lane"]] = at
    return pieces


def _flat(spans: Sequence[Span], lane: str) -> list[Span]:
    """The lane's innermost spans, cut where another one lies inside; input holds all inside it."""
    found, around = list[Span](), list[Span]()
    at = 0.0

    def cut(until: float) -> None:
        nonlocal at
        if around and until > at:
            inner = next((s for s in around if s["kind"] == "input"), around[-1])
            found.append({**inner, "start": at, "end": until})
        at = max(at, until)

    mine = [span for span in spans if span["lane"] == lane]
    for span in sorted(mine, key=lambda span: (span["start"], -span["end"])):
        while around and around[-1]["end"] <= span["start"]:
            cut(around[-1]["end"])
            around.pop()
        cut(span["start"])
        around.append(span)
    while around:
        cut(around[-1]["end"])
        around.pop()
    return found


def _kind(span: Span, roof: Roof | None) -> str:
    if span["kind"] == "kernel" and roof:
        needs = span.get("bytes", 0) / roof.bytes, span.get("operations", 0) / roof.operations
        return "memory" if needs[0] > needs[1] else "kernel"
    return str(span["kind"])
