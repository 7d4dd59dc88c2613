"""The picture of a traced kernel, for where no JavaScript runs: line table and one request."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from labkit.widgets.cuda.warp_request import LANES, ideal_sectors, lanes_of, passes, sectors
from labkit.widgets.picture import ALERT, INK, LINE, MUTED, PALETTE, PAPER, Picture, short

WIDTH, ROW, CELL = 920, 17, 20
CONTEXT = 2
"""Lines shown before and after one that has counters."""
MAX_LINES, MAX_PASSES = 40, 16
HEAT = ALERT
COUNTERS = (("sectors", "ideal_sectors"), ("wavefronts", "ideal_wavefronts"))

Data = Mapping[str, Any]


def ratio(accesses: Sequence[Data], counter: str, ideal: str) -> float | None:
    """A counter over its ideal; None where nothing counted."""
    best = sum(one[ideal] for one in accesses)
    return sum(one[counter] for one in accesses) / best if best else None


def heat(counter: float, ideal: float) -> float:
    """0 at the ideal, 1 at 32 times the ideal, even steps for each doubling."""
    return min(1.0, max(0.0, math.log2(counter / ideal) / 5)) if ideal and counter else 0.0


def places_of(accesses: Sequence[Data]) -> list[tuple[str, int]]:
    """The source lines that touch memory, (file, line), in order: what `place` counts."""
    return sorted({(one["file"], one["line"]) for one in accesses})


def worst_place(run: Data) -> tuple[int, int] | None:
    """(place, index of a request of it) where the counters are furthest from their ideal."""
    requests = run["requests"]

    def excess(number: int) -> float:
        one = run["accesses"][requests[number]["access"]]
        return max(heat(one[counter], one[ideal]) for counter, ideal in COUNTERS)

    if not requests:
        return None
    worst = max(range(len(requests)), key=lambda n: (excess(n), -n))
    access = run["accesses"][requests[worst]["access"]]
    return places_of(run["accesses"]).index((access["file"], access["line"])), worst


def kernel_picture(run: Data, frame: int, title: str, label: str) -> str:
    """Lines with counters, findings, and the request of the frame as lanes against memory."""
    rows = _rows(run)
    findings = run["findings"][:8]
    top = 62 + ROW * len(rows)
    below = top + 16 * len(findings)
    request = run["requests"][min(frame, len(run["requests"]) - 1)] if run["requests"] else None
    picture = Picture(WIDTH, below + (_request_height(run, request) if request else 4), label)
    grid, block = (", ".join(map(str, run[name])) for name in ("grid", "block"))
    picture.text(12, 20, title or f"{run['kernel']}<<<({grid}), ({block})>>>", bold=True)
    for x, words in ((52, "sectors"), (132, "wavefronts"), (212, "lanes")):
        picture.text(x, 40, words, 10, MUTED, mono=False)
    flagged = {line for one in run["findings"] for line in (one["line"], one["other_line"])}
    for row, number in enumerate(rows):
        _draw_line(picture, run, number, 56 + ROW * row, number in flagged)
    for row, finding in enumerate(findings):
        words = f"line {finding['line']}: {finding['kind']}: {finding['message']}"
        picture.text(12, top + 10 + 16 * row, short(words, 140), 11, ALERT, mono=False)
    if request:
        _draw_request(picture, run, request, below + 8)
    return picture.svg()


def _rows(run: Data) -> list[int | None]:
    """Line numbers around what has counters; None stands for lines left out."""
    here = {one["line"] for one in run["accesses"] if one["file"] == run["file"]}
    here |= {one["line"] for one in run["findings"]} - {0}
    last = len(run["source"])
    wanted = sorted(
        {n for line in here for n in range(line - CONTEXT, line + CONTEXT + 1) if 1 <= n <= last}
    )[:MAX_LINES]
    rows: list[int | None] = []
    for number in wanted:
        if rows and rows[-1] is not None and number > rows[-1] + 1:
            rows.append(None)
        rows.append(number)
    return rows


def _draw_line(picture: Picture, run: Data, number: int | None, y: float, flagged: bool) -> None:
    if number is None:
        picture.text(44, y + 12, "⋮", 11, MUTED, "end")
        return
    here = [one for one in run["accesses"] if (one["file"], one["line"]) == (run["file"], number)]
    for x, (counter, ideal) in zip((52, 132), COUNTERS, strict=True):
        counted = [one for one in here if one[ideal]]
        if counted:
            worst = max(heat(one[counter], one[ideal]) for one in counted)
            picture.rect(x, y, 74, ROW - 2, HEAT, LINE, opacity=0.55 * worst)
            words = f"{_each(counted, counter)} / {_each(counted, ideal)}"
            picture.text(x + 37, y + 12, words, 10, INK, "middle")
    active = next((one for one in run["lines"] if one["line"] == number), None)
    if active and active["runs"]:
        picture.rect(212, y, 40, ROW - 2, HEAT, LINE, opacity=0.55 * (1 - active["efficiency"]))
        picture.text(232, y + 12, f"{active['efficiency']:.0%}", 10, INK, "middle")
    picture.text(44, y + 12, str(number), 11, ALERT if flagged else MUTED, "end")
    picture.text(264, y + 12, short(run["source"][number - 1].expandtabs(4), 92), 11)


def _each(accesses: Sequence[Data], counter: str) -> str:
    """The counter per request of each access: one number where they agree."""
    per_request = (short_number(one[counter] / one["requests"]) for one in accesses)
    return ", ".join(dict.fromkeys(per_request))


def _request_height(run: Data, request: Data) -> float:
    if run["accesses"][request["access"]]["space"] != "shared":
        return 170
    count = len(passes(lanes_of(request), run["accesses"][request["access"]]["size"]))
    return 100 + 16 * min(count, MAX_PASSES + 1)


def _draw_request(picture: Picture, run: Data, request: Data, top: float) -> None:
    access, lanes = run["accesses"][request["access"]], lanes_of(request)
    size, shared = access["size"], access["space"] == "shared"
    block = ", ".join(map(str, request["block"]))
    verb = {"read": "read", "write": "write", "atomic": "update"}[access["access"]]
    cost = (
        f"{len(passes(lanes, size))} wavefronts"
        if shared
        else f"{len(sectors(lanes, size))} sectors, {ideal_sectors(lanes, size)} would do"
    )
    words = (
        f"line {access['line']}, block ({block}), warp {request['warp']}: {len(lanes)} lanes "
        f"{verb} {size} bytes each of {access['array'] or 'memory'}: {cost}"
    )
    picture.text(12, top + 12, words, 12, INK, mono=False, bold=True)
    left, y = 60.0, top + 24
    picture.text(52, y + 13, "lane", 10, MUTED, "end")
    for lane in range(LANES):
        picture.rect(left + lane * CELL, y, CELL - 2, 18,
                     PALETTE[4] if lane in lanes else "none", LINE, opacity=0.5)  # fmt: skip
        picture.text(left + lane * CELL + 9, y + 12, str(lane), 9, INK, "middle")
    draw = _draw_banks if shared else _draw_sectors
    draw(picture, lanes, size, request["start"], left, y + 18)


def _draw_sectors(
    picture: Picture, lanes: Mapping[int, int], size: int, start: int, left: float, top: float
) -> None:
    touched = sectors(lanes, size)
    at, y = sector_layout(touched, LANES * CELL), top + 56
    picture.text(52, y + 15, "sector", 10, MUTED, "end")
    for number in touched:
        x, width = at[number]
        used = {b for a in lanes.values() for b in range(a, a + size) if b // 32 == number}
        picture.rect(left + x, y, width, 22, PAPER, MUTED)
        for byte in used:
            picture.rect(left + x + (byte % 32) * width / 32, y + 1, width / 32, 20, PALETTE[4],
                         "none", radius=0, opacity=0.6)  # fmt: skip
        if width >= 34:
            picture.text(left + x, y + 34, f"{number * 32 - start:+}", 9, MUTED)
    for lane, address in lanes.items():
        x, width = at[address // 32]
        end = left + x + (address % 32 + size / 2) * width / 32
        picture.line([(left + lane * CELL + 9, top + 1), (end, y)], PALETTE[0])


def _draw_banks(
    picture: Picture, lanes: Mapping[int, int], size: int, start: int, left: float, top: float
) -> None:
    rows = passes(lanes, size)
    y = top + 14
    picture.text(52, y, "pass", 10, MUTED, "end")
    for number, row in enumerate(rows[:MAX_PASSES]):
        picture.text(52, y + 12, str(number + 1), 9, MUTED, "end")
        for bank in range(LANES):
            asking = row.get(bank, [])
            colour = PALETTE[4] if number == 0 else ALERT
            picture.rect(left + bank * CELL, y, CELL - 2, 14, colour if asking else "none", LINE,
                         opacity=0.45)  # fmt: skip
            if asking:
                words = str(asking[0]) if len(asking) == 1 else f"\u00d7{len(asking)}"
                picture.text(left + bank * CELL + 9, y + 11, words, 9, INK, "middle")
        y += 16
    if len(rows) > MAX_PASSES:
        picture.text(left, y + 12, f"and {len(rows) - MAX_PASSES} passes more", 10, MUTED)
        y += 16
    picture.text(52, y + 12, "bank", 10, MUTED, "end")
    for bank in range(0, LANES, 4):
        picture.text(left + bank * CELL + 9, y + 12, str(bank), 9, MUTED, "middle")


def sector_layout(touched: Sequence[int], room: float) -> dict[int, tuple[float, float]]:
    """Give each sector (x, width): one width for all, a gap where memory between is not touched."""
    gaps = sum(b != a + 1 for a, b in itertools.pairwise(touched))
    width = min(80.0, (room - 6 * gaps) / max(1, len(touched)))
    at, x = {}, 0.0
    for number, before in zip(touched, (None, *touched), strict=False):
        x += 6 if before is not None and number != before + 1 else 0
        at[number] = (x, width)
        x += width
    return at


def short_number(value: float) -> str:
    """2 decimals at most, none where there are none."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
