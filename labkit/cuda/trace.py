"""Watch a launch on the emulator: `kernel(grid, block, args, trace=Trace())` returns a `Report`."""

import json
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.cuda.arguments import Extent, as_operand
from labkit.cuda.driver import Dim3
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.emulator.lines import Location
from labkit.cuda.emulator.module import Function
from labkit.cuda.emulator.worker import Command, WorkerDied, WorkerRefused
from labkit.cuda.errors import CudaError, InvalidValueError
from labkit.cuda.operation import Operation
from labkit.cuda.report import (
    AccessCounters,
    Finding,
    Index,
    LineCounters,
    Report,
    Request,
    Space,
    Step,
)

_REQUEST = struct.Struct("<IIIIQQII")
_ALL = 0xFFFFFFFF
_SUMMED = ("requests", "lanes", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts")
_SPACES: tuple[Space, ...] = ("global", "shared", "variable")
_ACCESSES = ("block", "read", "write", "atomic")


@dataclass(frozen=True)
class Trace:
    """What to watch.

    blocks      None for every block, a count to spread evenly over the grid, or linear indices
    races       look for races; off makes a trace about twice as fast
    requests    raw requests to keep per access, for drawing
    max_events  then the rest runs unwatched, and the report says so
    also        arrays the kernel reaches through pointers in memory, not through an argument
    adversary   a seed: at each watched access, maybe let another thread go first
    watch       sites (from a finding) to interfere with; empty for all
    """

    blocks: int | Sequence[int] | None = None
    races: bool = True
    requests: int = 8
    max_events: int = 200_000_000
    also: Sequence[Any] = ()
    adversary: int | None = None
    watch: Sequence[int] = ()

    def sampled(self, grid: Dim3) -> list[int] | None:
        """Linear block indices to watch, None for all.

        Raises   InvalidValueError   a block is not in the grid
        """
        count = grid[0] * grid[1] * grid[2]
        if self.blocks is None:
            return None
        if isinstance(self.blocks, int):
            if self.blocks < 1:
                raise InvalidValueError(f"Trace.blocks is at least 1, not {self.blocks}")
            wanted = min(self.blocks, count)
            return sorted({i * count // wanted for i in range(wanted)})
        outside = [b for b in self.blocks if not 0 <= b < count]
        if outside:
            raise InvalidValueError(f"the grid has blocks 0 to {count - 1}, not {outside}")
        return list(self.blocks)

    def run(
        self,
        driver: Any,
        function: Function,
        grid: Dim3,
        block: Dim3,
        args: Sequence[bytes],
        shared_bytes: int,
        extents: Sequence[Extent],
        stream: int,
        order: str | int,
    ) -> Report:
        """The launch has run, after all work queued on its stream.

        Raises   KernelFailure   the worker did not survive it
        """
        if not isinstance(driver, EmulatorDriver):
            raise CudaError("only the emulator traces")
        driver.stream_synchronize(stream)
        known = self._extents(driver, extents)
        sampled = self.sampled(grid)
        adversary = self.adversary is not None
        tail = _REQUEST.pack(
            int(self.races), int(adversary), max(1, self.requests),
            _ALL if sampled is None else len(sampled), self.max_events, self.adversary or 0,
            len(known), len(self.watch),
        )  # fmt: skip
        ranges = (n for e in known for n in (e.address, e.size_bytes))
        numbers = [*(sampled or ()), *ranges, *self.watch]
        tail += struct.pack(f"<{len(numbers)}Q", *numbers)
        operation = Operation(
            "kernel", function.name, function=function, grid=grid, block=block, args=tuple(args),
            shared_bytes=shared_bytes,
        )  # fmt: skip
        body = driver.launch_message(operation, order, trace=True, tail=tail)
        try:
            answer = driver.worker.request(Command.TRACE, body, max(60.0, driver.timeout_s))
        except WorkerDied as death:
            raise driver.failure(operation, death.report, trace=True) from None
        except WorkerRefused as refusal:
            raise CudaError(str(refusal)) from None
        raw = json.loads(answer)
        return _Reader(function, grid, block, known, raw, keep=self.requests).report()

    def _extents(self, driver: EmulatorDriver, named: Sequence[Extent]) -> list[Extent]:
        """What the kernel may touch: its arrays, and allocations that none of them lies in."""
        known = {(e.address, e.size_bytes): e for e in reversed(named) if e.size_bytes}
        for array in self.also:
            operand = as_operand(array)
            if operand is None:
                raise InvalidValueError(f"Trace.also holds arrays, not {type(array).__name__}")
            known.setdefault(
                (operand.low, operand.high - operand.low),
                Extent("(also)", operand.low, operand.high - operand.low),
            )
        claimed = list(known.values())
        allocations = [*driver.arena.allocations.items()]
        allocations += [(start, size) for start, (size, _) in driver.arena.mapped.items()]
        for start, size in allocations:
            if not any(start <= e.address < start + size for e in claimed):
                known[start, size] = Extent(f"allocation {start:#x}", start, size)
        return list(known.values())


class _Reader:
    """Gives the worker's numbers names, lines and sentences."""

    def __init__(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        extents: Sequence[Extent],
        raw: dict[str, Any],
        keep: int,
    ) -> None:
        self.function, self.grid, self.block = function, grid, block
        self.extents, self.raw, self.keep = extents, raw, keep
        module = function.module
        self.text = module.code.splitlines()
        self.path = module.path
        offsets = {site[0] for site in raw["sites"]} | {run[0] for run in raw["runs"]}
        for finding in raw["findings"]:
            offsets |= {finding["pc"], finding["other_pc"]}
            offsets |= {waiting["site"] for waiting in finding.get("waiting", ())}
        offsets |= {entry[0] for entry in raw["log"]}
        offsets |= set((raw["failure"] or {}).get("sites", ()))
        ordered = sorted(offsets)
        self.places: dict[int, Location] = dict(
            zip(ordered, module.line_of(ordered, trace=True), strict=True)
        )

    def array(self, space: int, index: int) -> str:
        """The name of an array by its number in the request."""
        if index < 0:
            return ""
        if space == 0:
            return self.extents[index].name
        names: list[str] = self.raw["shared_names" if space == 1 else "variable_names"]
        return names[index]

    def report(self) -> Report:
        accesses, requests = self.accesses()
        return Report(
            kernel=self.function.name,
            file=self.path,
            grid=self.grid,
            block=self.block,
            source=self.function.module.code,
            events=self.raw["events"],
            blocks_traced=self.raw["blocks_traced"],
            truncated=bool(self.raw["truncated"]),
            races_unchecked=bool(self.raw["races_unchecked"]),
            lines=self.lines(accesses),
            accesses=accesses,
            findings=tuple(self.findings()),
            requests=requests,
            steps=tuple(self.steps()),
            printed=self.raw["printed"],
            arrays={
                e.name: e.size_bytes for e in self.extents if not e.name.startswith("allocation ")
            },
        )

    def accesses(self) -> tuple[tuple[AccessCounters, ...], tuple[Request, ...]]:
        """Counters per access, and the raw requests that were asked for."""
        names: dict[int, str] = {}
        requests, kept = [], Counter[int]()
        for one in self.raw["requests"]:
            site = self.raw["sites"][one["site"]]
            name = self.array(site[2], one["array"])
            names.setdefault(one["site"], name)
            kept[one["site"]] += 1
            if kept[one["site"]] > self.keep:
                continue
            requests.append(
                Request(
                    self.places[site[0]].line, _SPACES[site[2]], _access(site[1]), name, site[3],
                    _index(one["block"]), one["warp"], one["mask"], one["start"],
                    tuple(one["addresses"]),
                )
            )  # fmt: skip
        counters = []
        for number, site in enumerate(self.raw["sites"]):
            place = self.places[site[0]]
            counters.append(
                AccessCounters(
                    place.line, self.shown(place), _SPACES[site[2]], _access(site[1]),
                    names.get(number, ""), site[3], *site[4:],
                )
            )  # fmt: skip
        return tuple(counters), tuple(requests)

    def shown(self, place: Location) -> str:
        return place.file or self.path

    def lines(self, accesses: Sequence[AccessCounters]) -> tuple[LineCounters, ...]:
        """Counters per line of the learner's own file."""
        totals: dict[int, list[int]] = {}
        for one in accesses:
            if one.file == self.path:
                sums = totals.setdefault(one.line, [0] * 8)
                for i, name in enumerate(_SUMMED):
                    sums[i] += getattr(one, name)
        for offset, runs, lanes in self.raw["runs"]:
            place = self.places[offset]
            if self.shown(place) == self.path and place.line:
                sums = totals.setdefault(place.line, [0] * 8)
                sums[6] += runs
                sums[7] += lanes
        return tuple(
            LineCounters(line, self.text[line - 1] if line <= len(self.text) else "", *sums)
            for line, sums in sorted(totals.items())
        )

    def steps(self) -> list[Step]:
        """What the adversary's schedule did, access by access."""
        found = []
        x, y = self.block[0], self.block[1]
        gx, gy = self.grid[0], self.grid[1]
        for pc, access, block, thread, address, size, before, after, stale in self.raw["log"]:
            extent = next(
                (e for e in self.extents if e.address <= address < e.address + e.size_bytes), None
            )
            found.append(
                Step(
                    self.places[pc].line, _ACCESSES[access],
                    (block % gx, block // gx % gy, block // gx // gy),
                    (thread % x, thread // x % y, thread // x // y),
                    extent.name if extent else "", address - (extent.address if extent else 0),
                    size, before, after, bool(stale),
                )
            )  # fmt: skip
        return found

    def findings(self) -> list[Finding]:
        """Every defect with its sentence."""
        found = [self.finding(one) for one in self.raw["findings"]]
        failure = self.raw["failure"]
        if failure:
            place = self.places[failure["sites"][0]] if failure["sites"] else Location("", 0, "")
            found.append(
                Finding(
                    failure["kind"], failure["message"], self.shown(place), place.line, 0,
                    _index(failure["block"]), _index(failure["thread"]),
                )
            )  # fmt: skip
        return found

    def finding(self, one: dict[str, Any]) -> Finding:
        place = self.places[one["pc"]]
        other = self.places[one["other_pc"]] if one["other_pc"] else None
        waiting = [
            {**w, "line": self.places[w["site"]].line, "thread": tuple(w["thread"])}
            for w in one.get("waiting", ())
        ]
        finding = Finding(
            kind=one["kind"],
            message=one["message"],
            file=self.shown(place),
            line=place.line,
            other_line=other.line if other else 0,
            block=_index(one["block"]),
            thread=_index(one["thread"]),
            other_block=_index(one["other_block"]) if "other_block" in one else None,
            other_thread=_index(one["other_thread"]) if "other_thread" in one else None,
            space=_SPACES[one["space"]],
            access=_ACCESSES[one["access"]],
            other_access=_ACCESSES[one["other_access"]],
            array=self.array(one["space"], one["array"]),
            address=one["address"],
            offset=one["offset"],
            size=one["size"],
            count=one["count"],
            sites=tuple(pc for pc in (one["pc"], one["other_pc"]) if pc),
            waiting=tuple(waiting),
        )
        return _with_sentence(finding, one["array_size"])


def _with_sentence(finding: Finding, array_size: int) -> Finding:
    sentence = _SENTENCES.get(finding.kind)
    if sentence is None:
        return finding
    return Finding(**{**finding.__dict__, "message": sentence(finding, array_size)})


def _element(finding: Finding) -> str:
    return f"{finding.array or 'memory'}[byte {finding.offset}]"


def _race(finding: Finding, array_size: int) -> str:
    same_block = finding.block == finding.other_block
    who, other = f"thread {finding.thread}", f"thread {finding.other_thread}"
    cure = "a barrier must come between the two, or both must be atomic"
    if not same_block:
        who += f" of block {finding.block}"
        other += f" of block {finding.other_block}"
        cure = "blocks run in any order: use an atomic, or a second launch"
    return (
        f"{who} {_VERBS[finding.access]} {_element(finding)} in {finding.space} memory, "
        f"{other} {_VERBS[finding.other_access]} it at line {finding.other_line}, and nothing "
        f"orders them; {cure}"
    )


def _out_of_bounds(finding: Finding, array_size: int) -> str:
    start = f"thread {finding.thread} of block {finding.block} {_VERBS[finding.access]}"
    if not finding.array:
        return f"{start} {finding.size} bytes at {finding.address:#x}, which no array holds"
    past = finding.offset + finding.size - array_size
    if finding.offset < 0:
        where = f"{-finding.offset} bytes before the start of {finding.array}"
    elif past > 1 << 20:
        where = f"{finding.address:#x}, far from any array"
    else:
        where = (
            f"bytes {finding.offset} to {finding.offset + finding.size - 1} of {finding.array}, "
            f"which has {array_size}"
        )
    return f"{start} {where}"


def _uninitialised(finding: Finding, array_size: int) -> str:
    return (
        f"thread {finding.thread} reads {_element(finding)} in shared memory, which no thread of "
        "this block has written"
    )


def _misaligned(finding: Finding, array_size: int) -> str:
    return (
        f"thread {finding.thread} {_VERBS[finding.access]} {finding.size} bytes at "
        f"{_element(finding)}, address {finding.address:#x}, not a multiple of {finding.size}"
    )


_VERBS = {"read": "reads", "write": "writes", "atomic": "updates atomically", "block": "touches"}
_SENTENCES = {
    "race": _race,
    "out_of_bounds": _out_of_bounds,
    "uninitialised": _uninitialised,
    "misaligned": _misaligned,
}


def _index(values: Sequence[int]) -> Index:
    x, y, z = values
    return x, y, z


def _access(number: int) -> Any:
    return _ACCESSES[number]
