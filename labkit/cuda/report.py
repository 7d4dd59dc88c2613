"""What a traced launch did, as plain data: `dataclasses.asdict(report)` is JSON.

A *request* is one access of one warp: the lanes that were together. A *sector* is 32 bytes of
global memory, a *wavefront* one pass over the 32 banks of shared memory.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

Space = Literal["global", "shared", "variable", "local"]
Kind = Literal[
    "race", "out_of_bounds", "uninitialised", "misaligned", "barrier_divergence", "deadlock",
    "shuffle", "warp_mask", "undefined", "assert", "trap", "grid_sync",
]  # fmt: skip
Index = tuple[int, int, int]


def element(array: str, offset: int, size: int) -> str:
    """The word of an array at so many bytes: y[3] (byte 12), where words of 4 bytes are touched."""
    named = array or "memory"
    if size <= 0 or offset % size:
        return f"{named}[byte {offset}]"
    return f"{named}[{offset // size}] (byte {offset})"


@dataclass(frozen=True)
class AccessCounters:
    """One access in the source: what all warps' requests for it added up to.

    space          "global", "shared" or "variable" (__device__ and __constant__)
    access         "read", "write" or "atomic"
    size           bytes per lane
    ideal_sectors  the fewest that could hold the bytes the lanes asked for
    same_address   for atomics: the most lanes at one address, summed over requests
    """

    line: int
    file: str
    space: Space
    access: Literal["read", "write", "atomic"]
    array: str
    size: int
    requests: int
    lanes: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int
    same_address: int

    @property
    def sectors_per_request(self) -> float:
        """4 is ideal for 32 lanes of 4 bytes, 32 the worst."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        """1 is ideal for up to 4 bytes per lane; 32 is a 32-way bank conflict."""
        return self.wavefronts / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class LineCounters:
    """Everything one source line did."""

    line: int
    text: str
    requests: int
    lanes: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int
    runs: int
    """How often a warp ran a basic block of this line."""
    active_lanes: int
    """Lanes that took part in those runs, of 32 each."""

    @property
    def simd_efficiency(self) -> float:
        """Share of the 32 lanes that did the line's work; 1.0 without divergence."""
        return self.active_lanes / (32 * self.runs) if self.runs else 1.0


@dataclass(frozen=True)
class Request:
    """One request as it was, for drawing.

    mask       bit i: lane i took part
    addresses  32 of them, 0 where the lane did not
    start      address of the array's first byte
    """

    line: int
    space: Space
    access: Literal["read", "write", "atomic"]
    array: str
    size: int
    block: Index
    warp: int
    mask: int
    start: int
    addresses: tuple[int, ...]
    file: str = ""


@dataclass(frozen=True)
class Finding:
    """A defect, with where and who.

    line, other_line  of the access or barrier, and of the one it collides with (0: none)
    thread, block     who was caught; other_thread, other_block: the other party of a race
    array, offset     what was touched, and how many bytes from its start
    count             how often this was seen; the rest is the first time
    sites             offsets in the traced code, for the adversary
    called_at         FILE:LINE in the kernel, where the line is a function's that was inlined
    other_at          how the text names the other line: its file and caller, where they differ
    """

    kind: Kind
    message: str
    file: str
    line: int
    other_line: int
    block: Index
    thread: Index
    other_block: Index | None = None
    other_thread: Index | None = None
    space: Space = "global"
    access: str = ""
    other_access: str = ""
    array: str = ""
    address: int = 0
    offset: int = 0
    size: int = 0
    count: int = 1
    sites: tuple[int, ...] = ()
    waiting: tuple[dict[str, Any], ...] = ()
    called_at: str = ""
    other_at: str = ""

    @property
    def lines(self) -> tuple[int, ...]:
        """All lines involved."""
        return tuple(line for line in (self.line, self.other_line) if line)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind.replace('_', ' ')}: {self.message}"


@dataclass(frozen=True)
class Step:
    """One access of a schedule played back. `stale`: it saw what was there before another block."""

    line: int
    access: str
    block: Index
    thread: Index
    array: str
    offset: int
    size: int
    before: int
    after: int
    stale: bool


@dataclass(frozen=True, repr=False)
class Report:
    """A traced launch."""

    kernel: str
    file: str
    grid: Index
    block: Index
    source: str
    events: int
    blocks_traced: int
    truncated: bool
    """Tracing stopped at `Trace.max_events`; counters are of the part before."""
    races_unchecked: bool
    """The launch touched too much memory to look for races in all of it."""
    lines: tuple[LineCounters, ...]
    accesses: tuple[AccessCounters, ...]
    findings: tuple[Finding, ...]
    requests: tuple[Request, ...] = ()
    steps: tuple[Step, ...] = ()
    printed: str = ""
    arrays: dict[str, int] = field(default_factory=dict)
    """Name -> bytes of each array argument."""

    def select(
        self,
        *,
        space: str | None = None,
        access: str | None = None,
        array: str | None = None,
        line: int | None = None,
    ) -> Iterator[AccessCounters]:
        """The accesses that match everything given."""
        for one in self.accesses:
            if all(
                wanted is None or getattr(one, name) == wanted
                for name, wanted in (
                    ("space", space), ("access", access), ("array", array), ("line", line),
                )
            ):  # fmt: skip
                yield one

    def total(self, counter: str, **which: Any) -> int:
        """The sum of a counter over `select(**which)`."""
        return sum(getattr(one, counter) for one in self.select(**which))

    @property
    def simd_efficiency(self) -> float:
        """Share of lanes that did work, over the whole launch."""
        runs = sum(line.runs for line in self.lines)
        return sum(line.active_lanes for line in self.lines) / (32 * runs) if runs else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data: dicts, tuples, ints, strings."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._rows())

    def __repr__(self) -> str:
        return f"Report({self.kernel}, {len(self.accesses)} accesses, {self._found()})"

    def _repr_html_(self) -> str:
        """The short form for a page: what each access cost, and what was found."""
        return _html(self, self._found())

    def _found(self) -> str:
        return f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}"

    def _rows(self) -> Iterable[str]:
        yield (
            f"{self.kernel}, grid {self.grid}, block {self.block}: {self.events} events in "
            f"{self.blocks_traced} traced blocks, SIMD efficiency {self.simd_efficiency:.0%}"
        )
        if self.truncated:
            yield "tracing stopped at the event limit; trace fewer blocks"
        if self.accesses:
            yield (
                f"{'line':>5} {'access':<7}{'space':<9}{'array':<12}{'bytes':>5}{'requests':>10}"
                f"{'lanes':>10}{'sectors':>10}{'ideal':>8}{'wavefr.':>9}{'ideal':>8}"
            )
        for a in sorted(self.accesses, key=lambda one: (one.file != self.file, one.line)):
            sectors = f"{a.sectors:>10}{a.ideal_sectors:>8}" if a.space != "shared" else " " * 18
            waves = f"{a.wavefronts:>9}{a.ideal_wavefronts:>8}" if a.space == "shared" else ""
            row = f"{a.line:>5} {a.access:<7}{a.space:<9}{a.array:<12}{a.size:>5}{a.requests:>10}{a.lanes:>10}"  # noqa: E501
            yield (row + sectors + waves).rstrip()
        yield self._found()
        for finding in self.findings:
            yield f"  {finding}"


MOST_ROWS, MOST_FINDINGS = 12, 4
HEADINGS = ("line", "access", "array", "requests", "per request", "at best")


def _html(report: Report, found: str) -> str:
    """The accesses that cost most above their best first, and the first findings in words."""
    order = sorted(report.accesses, key=lambda one: (-_excess(one), one.file, one.line))
    rows = "".join(_row(one) for one in order[:MOST_ROWS])
    more = len(order) - MOST_ROWS
    rest = [f"<p>… and {more} accesses more</p>"] if more > 0 else []
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    findings = "".join(f"<li>✗ {escape(str(one))}</li>" for one in report.findings[:MOST_FINDINGS])
    shown = "show.kernel(report) steps through it"
    return "".join([
        f"<p><b>{escape(report.kernel)}</b> grid {report.grid}, block {report.block}: ",
        f"{report.simd_efficiency:.0%} of the lanes at work, {found}. <code>{shown}</code></p>",
        f"<table><tr>{head}</tr>{rows}</table>" if rows else "",
        *rest,
        f"<ul>{findings}</ul>" if findings else "",
    ])  # fmt: skip


def _excess(one: AccessCounters) -> float:
    cost, best, _ = _cost(one)
    return cost / best if best else 0.0


def _cost(one: AccessCounters) -> tuple[int, int, str]:
    """What was counted, the least possible, and the unit."""
    if one.space == "shared":
        return one.wavefronts, one.ideal_wavefronts, _plural(one.wavefronts, one, "wavefront")
    return one.sectors, one.ideal_sectors, _plural(one.sectors, one, "sector")


def _plural(count: int, one: AccessCounters, unit: str) -> str:
    return unit if count == one.requests else f"{unit}s"


def _row(one: AccessCounters) -> str:
    cost, best, unit = _cost(one)
    each = max(1, one.requests)
    cells = (
        one.line, f"{one.access} {one.space}", escape(one.array), one.requests,
        f"{'✗ ' if cost > best else ''}{cost / each:.4g} {unit}", f"{best / each:.4g}",
    )  # fmt: skip
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
