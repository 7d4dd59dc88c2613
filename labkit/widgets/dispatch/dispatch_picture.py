"""Pictures of a dispatched call and of a dispatch table, for where no JavaScript runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from labkit.widgets.picture import ALERT, INK, LINE, MUTED, PALETTE, Picture, short

COLUMNS = (("#", 12), ("how", 36), ("slot", 118), ("why", 366), ("kernel", 620))
WIDTH, ROW, CELL = 960, 40, 17
FILLING_RULES = (1, 2, 3, 5, 6, 7, 8, 9)
"""Rules that can put a kernel into a cell: one colour each."""


def hops_picture(call: Mapping[str, Any], label: str) -> str:
    """One row per hop: how it was reached, its slot, the reason, the kernel and what it does."""
    hops = call["hops"]
    picture = Picture(WIDTH, 76 + ROW * len(hops), label)
    picture.text(12, 20, label, bold=True)
    for name, x in COLUMNS:
        picture.text(x, 42, name, 11, MUTED, mono=False)
    for row, hop in enumerate(hops):
        y = 62 + ROW * row
        picture.line([(10, y - 15), (WIDTH - 10, y - 15)], LINE)
        origin = hop["source"] not in (None, hop["slot"])
        why = hop["reason"] + (f", {hop['source']}" if origin else "")
        mark = "?" if hop["assumed"] else str(row + 1)
        texts = (mark, hop["via"], hop["slot"], why, hop["kernel"])
        rooms = (2, 11, 33, 34, 45)
        for (name, x), text, room in zip(COLUMNS, texts, rooms, strict=True):
            picture.text(x, y, short(text, room), 12, INK, bold=name == "slot")
        picture.text(118, y + 16, short(hop["then_text"], 130), 11, MUTED, mono=False)
    picture.text(12, 64 + ROW * len(hops), short(verdict(call), 130), 11, MUTED, mono=False)
    return picture.svg()


def verdict(call: Mapping[str, Any]) -> str:
    """What really ran, in a sentence."""
    if call["recorded"] is None:
        return f"not run here: this is a prediction. {call['note']}".strip()
    ran = " -> ".join(run["slot"] for run in call["recorded"]) or "nothing"
    agrees = "as predicted" if call["agrees"] else "NOT as predicted"
    raised = f"; raised {call['raised'].partition(chr(10))[0]}" if call["raised"] else ""
    return f"really ran: {ran} ({agrees}){raised}"


def table_picture(
    table: Mapping[str, Any],
    keys: Mapping[str, Sequence[str]],
    label: str,
    shown: Sequence[int] = (),
) -> str:
    """Every slot with the number of the rule that filled it; strongest functionality on top."""
    rows = [
        (name, [slot for slot in slots if not shown or slot in shown])
        for name, slots in slot_rows(keys)
    ]
    rows = [(name, slots) for name, slots in rows if slots]
    top = 40 + CELL * len(rows)
    picture = Picture(740, top + 24 + 16 * len(table["rules"]), label)
    picture.text(12, 20, label, bold=True)
    for row, (name, slots) in enumerate(rows):
        y = 34 + CELL * row
        picture.text(218, y + 12, name, 11, INK, "end")
        for column, slot in enumerate(slots):
            _draw_cell(picture, table, slot, 226 + CELL * column, y)
        if len(slots) == 1:
            picture.text(250, y + 12, _said(table, slots[0]), 10, MUTED)
    for row, (number, question) in enumerate(table["rules"].items()):
        y = top + 18 + 16 * row
        picture.rect(206, y - 10, 12, 12, fill=_colour(int(number)), opacity=0.4)
        picture.text(200, y, number, 10, MUTED, "end")
        picture.text(226, y, question, 10, MUTED)
    return picture.svg()


def _draw_cell(picture: Picture, table: Mapping[str, Any], slot: int, x: float, y: float) -> None:
    cell = table["cells"][slot]
    stale, empty = cell["stale"], not table["texts"][cell["kernel"]]
    picture.rect(
        x, y, CELL - 2, CELL - 2,
        fill="none" if empty else _colour(cell["rule"]),
        stroke=ALERT if stale else LINE,
        stroke_width=2 if stale else 1,
        opacity=0.12 if cell["fallthrough"] else 0.4,
    )  # fmt: skip
    if stale or not empty:
        words = f"{'' if empty else cell['rule']}{'!' if stale else ''}"
        picture.text(x + 7, y + 12, words, 10, ALERT if stale else INK, "middle")


def _colour(rule: int) -> str:
    return PALETTE[FILLING_RULES.index(rule)] if rule in FILLING_RULES else "none"


def _said(table: Mapping[str, Any], slot: int) -> str:
    cell = table["cells"][slot]
    reason, kernel = table["texts"][cell["reason"]], table["texts"][cell["kernel"]]
    words = [reason, "falls through" if cell["fallthrough"] else "", kernel.rpartition("/")[2]]
    return short(" · ".join(word for word in words if word), 78)


def slot_rows(keys: Mapping[str, Sequence[str]]) -> list[tuple[str, list[int]]]:
    """(functionality, its slots), strongest first; Undefined is last."""
    rows, slot = [("Undefined", [0])], 1
    for name in keys["functionalities"]:
        count = len(keys["backends"]) if name in keys["per_backend"] else 1
        rows.append((name, list(range(slot, slot + count))))
        slot += count
    return rows[::-1]
