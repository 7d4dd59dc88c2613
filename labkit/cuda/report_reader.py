"""Turns the worker's numbers into a `Report`: names, lines and sentences."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.cuda.arguments import Extent
from labkit.cuda.emulator.lines import Location
from labkit.cuda.emulator.module import Function
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
from labkit.cuda.sentences import with_caller, with_sentence

_SUMMED = ("requests", "lanes", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts")
_SPACES: tuple[Space, ...] = ("global", "shared", "variable", "local")
_SHARED_LIMIT = 1 << 18  # bytes; no block has more shared memory
_ACCESSES: tuple[Any, ...] = ("block", "read", "write", "atomic")


class ReportReader:
    """Gives the worker's numbers names, lines and sentences."""

    def __init__(
        self,
        operation: Operation,
        extents: Sequence[Extent],
        raw: dict[str, Any],
        keep: int,
        freed_at: Callable[[int], tuple[int, int] | None],
    ) -> None:
        """Read the text's places.

        keep      requests of each access
        freed_at  (start, bytes) of the allocation an address was in before it was freed
        """
        self.freed_at = freed_at
        self.function: Function = operation.function
        self.grid, self.block = operation.grid, operation.block
        self.extents, self.raw, self.keep = extents, raw, keep
        module = self.function.module
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
            place = self.places[site[0]]
            requests.append(
                Request(
                    place.line, _SPACES[site[2]], _ACCESSES[site[1]], name, site[3],
                    _index(one["block"]), one["warp"], one["mask"], one["start"],
                    tuple(one["addresses"]), self.shown(place),
                )
            )  # fmt: skip
        counters = []
        for number, site in enumerate(self.raw["sites"]):
            place = self.places[site[0]]
            counters.append(
                AccessCounters(
                    place.line, self.shown(place), _SPACES[site[2]], _ACCESSES[site[1]],
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
        shared = self.shared_starts()
        for pc, access, block, thread, address, size, before, after, stale in self.raw["log"]:
            name, start = next(
                (
                    (e.name, e.address)
                    for e in self.extents
                    if e.address <= address < e.address + e.size_bytes
                ),
                _nearest_start(shared, address),
            )
            found.append(
                Step(
                    self.places[pc].line, _ACCESSES[access],
                    (block % gx, block // gx % gy, block // gx // gy),
                    (thread % x, thread // x % y, thread // x // y),
                    name, address - start, size, before, after, bool(stale),
                )
            )  # fmt: skip
        return found

    def shared_starts(self) -> set[tuple[str, int]]:
        """(name, address) of the shared and device arrays that the kept requests touched."""
        kept = ((self.raw["sites"][one["site"]][2], one) for one in self.raw["requests"])
        return {
            (self.array(space, one["array"]), one["start"])
            for space, one in kept
            if space and one["array"] >= 0
        }

    def findings(self) -> list[Finding]:
        """Every defect with its sentence."""
        found = [self.finding(one) for one in self.raw["findings"]]
        failure = self.raw["failure"]
        if failure:
            place = self.places[failure["sites"][0]] if failure["sites"] else Location("", 0, "")
            finding = Finding(
                failure["kind"], failure["message"], self.shown(place), place.line, 0,
                _index(failure["block"]), _index(failure["thread"]),
                called_at=self.called_at(place),
            )  # fmt: skip
            found.append(with_caller(finding))
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
            message=one["message"] or self.of_freed(one),
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
            called_at=self.called_at(place),
            other_at=self.other_at(other, place) if other else "",
        )
        return with_sentence(finding, one["array_size"])

    def of_freed(self, one: dict[str, Any]) -> str:
        """How memory is called that belongs to nothing any more, "" for other findings."""
        if one["kind"] != "out_of_bounds" or _SPACES[one["space"]] != "global":
            return ""
        found = self.freed_at(one["address"])
        if found is None:
            return ""
        start, size = found
        at = one["address"] - start
        return f"{one['size']} bytes at byte {at} of an allocation of {size} that was freed"

    def called_at(self, place: Location) -> str:
        return f"{self.shown(place.caller)}:{place.caller.line}" if place.caller else ""

    def other_at(self, other: Location, place: Location) -> str:
        """Such as `line 12`, or `line 3 of sum.h, called at blur.cu:12`."""
        file = f" of {self.shown(other)}" if self.shown(other) != self.shown(place) else ""
        called = f", called at {self.called_at(other)}" if other.caller else ""
        return f"line {other.line}{file}{called}"


def _nearest_start(starts: Iterable[tuple[str, int]], address: int) -> tuple[str, int]:
    """The array that begins last before the address, if it is near enough to hold it."""
    before = [one for one in starts if 0 <= address - one[1] < _SHARED_LIMIT]
    return max(before, key=lambda one: one[1], default=("", 0))


def _index(values: Sequence[int]) -> Index:
    x, y, z = values
    return x, y, z
