"""The memory map as a picture: the timeline of bytes, the map at the end and at the peak."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from labkit.widgets.memory.memory_trace import (
    SEGMENT_ACTIONS,
    Trace,
    blocks_at,
    live_bytes,
    reserved_bytes,
)
from labkit.widgets.picture import INK, LINE, MUTED, PALETTE, Picture

WIDTH, LEFT = 760, 16
TALL, ROW, GAP = 96, 16, 5
LEAST = 6
POINTS = 360
MAX_RECTANGLES = 1500
PEAK_MAP_ENTRIES = 200_000
"""Finding the blocks at the peak of a longer trace would delay opening it."""


def draw(trace: Trace, title: str, label: str) -> str:
    """An SVG of the trace: live bytes below the line of reserved bytes, then one or two maps."""
    live, reserved = live_bytes(trace), reserved_bytes(trace)
    peak = int(np.argmax(live))
    end_rows = _rows(_final_blocks(trace))
    maps = [(f"after the last entry ({len(live) - 1:,})", end_rows)]
    if 0 < peak < len(live) - 1 and len(live) <= PEAK_MAP_ENTRIES:
        maps.insert(0, (f"at the peak, after entry {peak:,}", _rows(_blocks_after(trace, peak))))
    height = 62 + TALL + sum(30 + (ROW + GAP) * len(rows) for _, rows in maps)
    picture = Picture(WIDTH, height, label=label)
    picture.text(LEFT, 24, title[:90], 13, INK, bold=True, mono=False)
    _timeline(picture, live, reserved, 40)
    y: float = 40 + TALL + 16
    for name, rows in maps:
        y = _bars(picture, f"segments and blocks {name}", rows, y)
    return picture.svg()


def draw_bars(trace: Trace, entries: int, title: str, label: str) -> str:
    """An SVG of the segments and blocks after so many entries; every live block can be seen."""
    rows = _rows(_blocks_after(trace, entries), least=LEAST, per_row=_bytes_per_row(trace))
    picture = Picture(WIDTH, 62 + (ROW + GAP) * len(rows), label=label)
    picture.text(LEFT, 24, title[:90], 13, INK, bold=True, mono=False)
    _bars(picture, f"segments and blocks after entry {entries:,}", rows, 36)
    return picture.svg()


def _bars(picture: Picture, name: str, rows: list[list[Any]], y: float) -> float:
    """Draw the rows of one map under its name; returns where the next thing may stand."""
    picture.text(LEFT, y + 10, name, 11, MUTED, mono=False)
    y += 18
    for row in rows:
        for x, width, fill, stroke in row:
            picture.rect(LEFT + x, y, width, ROW, fill=fill, stroke=stroke, radius=0)
        y += ROW + GAP
    return y + 12


def _timeline(picture: Picture, live: Any, reserved: Any, y: float) -> None:
    top = max(int(live.max()), int(reserved.max()), 1)
    edges = np.unique(np.linspace(0, len(live), min(POINTS, len(live)) + 1).astype(int))[:-1]
    wide = (WIDTH - 2 * LEFT) / len(edges)

    def points(values: Any) -> Iterable[tuple[float, float]]:
        for index, value in enumerate(np.maximum.reduceat(values, edges).tolist()):
            height = y + TALL * (1 - value / top)
            yield LEFT + index * wide, height
            yield LEFT + (index + 1) * wide, height

    outline = " ".join(f"{x:.1f},{at:.1f}" for x, at in points(live))
    picture.parts.append(
        f'<polygon points="{LEFT},{y + TALL} {outline} {WIDTH - LEFT},{y + TALL}" '
        f'fill="{PALETTE[0]}" fill-opacity="0.8"/>'
    )
    picture.line(list(points(reserved)), stroke=INK)
    picture.text(LEFT, y - 3, f"reserved {_size(int(reserved.max()))} at most", 11, INK, mono=False)
    picture.text(WIDTH - LEFT, y - 3, f"live {_size(int(live.max()))} at most", 11, PALETTE[0],
                 "end", mono=False)  # fmt: skip


def _final_blocks(trace: Trace) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    """Per segment (address, size, blocks), a block being (address, size, state)."""
    segments, blocks = trace["segments"], trace["blocks"]
    found: list[tuple[int, int, list[tuple[int, int, int]]]] = [
        (address, size, [])
        for address, size in zip(
            segments["address"].tolist(), segments["size"].tolist(), strict=True
        )
    ]
    for owner, address, size, state in zip(
        *(blocks[name].tolist() for name in ("segment", "address", "size", "state")), strict=True
    ):
        if state:
            found[owner][2].append((address, size, state))
    return found


def _blocks_after(trace: Trace, step: int) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    """The same after `step` entries: the final segments with the later changes undone."""
    ranges = dict(
        zip(trace["segments"]["address"].tolist(), trace["segments"]["size"].tolist(), strict=True)
    )
    events, actions = trace["events"], list(trace["actions"])
    kinds = {actions.index(name): name for name in actions if name.startswith("segment_")}
    later = step + np.flatnonzero(np.isin(events["action"][step:], list(kinds)))
    for index in later[::-1].tolist():
        address, size = int(events["address"][index]), int(events["size"][index])
        if kinds[int(events["action"][index])] in ("segment_free", "segment_unmap"):
            ranges[address] = size
        else:
            _remove(ranges, address, size)
    blocks = blocks_at(trace, step)
    least = trace["sizes"]["min_block"]
    sizes = -(-blocks["requested"] // least) * least
    found = []
    for address, size in sorted(ranges.items()):
        low, high = np.searchsorted(blocks["address"], [address, address + size])
        inside = zip(
            blocks["address"][low:high].tolist(),
            sizes[low:high].tolist(),
            (1 + blocks["pending"][low:high]).tolist(),
            strict=True,
        )
        found.append((address, size, list(inside)))
    return found


def _remove(ranges: dict[int, int], address: int, size: int) -> None:
    """Take [address, address + size) out of the range that holds it."""
    for start, length in list(ranges.items()):
        if start <= address and address + size <= start + length:
            del ranges[start]
            if address > start:
                ranges[start] = address - start
            if start + length > address + size:
                ranges[address + size] = start + length - address - size
            return


def _rows(
    segments: list[tuple[int, int, list[tuple[int, int, int]]]],
    least: float = 0,
    per_row: float = 0,
) -> list[list[Any]]:
    """Rectangles (x, width, fill, stroke) per row of the map, at most MAX_RECTANGLES in all.

    least    the width that a block has at least; without it the shortest are left out
    per_row  bytes that a row is long; 0: as these segments need it
    """
    total = sum(size for _, size, _ in segments)
    if not total:
        return []
    room = WIDTH - 2 * LEFT
    per_row = per_row or max(total / 6, max(size for _, size, _ in segments) / 2)
    rows: list[list[Any]] = [[]]
    x, count = 0.0, 0
    for address, size, blocks in segments:
        begin = 0
        while begin < size and count < MAX_RECTANGLES:
            if x >= room - 1:
                rows.append([])
                x = 0.0
            taken = min(size - begin, max(1, int((room - x) / room * per_row)))
            wide = max(1.5, taken / per_row * room)
            rows[-1].append((x, wide, "#f1f3f5", MUTED))
            low, high = address + begin, address + begin + taken
            for at, length, state in blocks:
                left, right = max(at, low), min(at + length, high)
                if right <= left:
                    continue
                pixels = max(least, (right - left) / taken * wide)
                if pixels < 0.4 or count >= MAX_RECTANGLES:
                    continue
                fill = PALETTE[0] if state == 1 else PALETTE[1]
                rows[-1].append((x + (left - low) / taken * wide, pixels, fill, LINE))
                count += 1
            begin += taken
            x += wide + (3 if begin >= size else 0)
            count += 1
    return rows


def _bytes_per_row(trace: Trace) -> float:
    """One scale for every entry: the longest segment of the recording fills at most two rows."""
    events, actions = trace["events"], list(trace["actions"])
    changes = np.isin(events["action"], [actions.index(name) for name in SEGMENT_ACTIONS])
    sizes = np.concatenate([[0], events["size"][changes], trace["segments"]["size"]])
    return max(int(reserved_bytes(trace).max()) / 6, int(sizes.max()) / 2)


def _size(count: int) -> str:
    """1024.5 KiB is not "1 MiB": said in the smaller unit, as in the script of the map."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        larger = value / 1024
        if larger < 10 and not larger.is_integer() and f"{larger:.2f}".endswith("00"):
            return f"{value:.6g} {units[0]}"
        value = larger
        units.pop(0)
    return f"{value:.4g} {units[0]}"
