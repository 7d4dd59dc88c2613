"""The machine as a picture: PyTorch's stack from the Python call to the kernel, part by part.

Plain HTML without scripts: a click, or Enter on a box, opens the learner's code beside labkit's.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from html import escape

from labkit.course import exercises
from labkit.course.sources import installed_file
from labkit.course.your_machine.inventory import Sitting
from labkit.course.your_machine.last_run import LastRun
from labkit.course.your_machine.seat import LAYERS, Seat
from labkit.course.your_machine.seating import function_of

SHOWN = 40
"""Lines of PyTorch's file."""
YOURS, OUT, GREY = "#009E73", "#D55E00", "rgba(128,128,128,.9)"
SAYS = {
    "Python": "<code>loss = model(images); loss.backward(); optimizer.step()</code>",
    "dispatch": "which kernel runs this call?",
    "autograd": "what is recorded, and how do gradients come back?",
    "shapes": "which shape, dtype and strides does the result have?",
    "memory": "where do its bytes lie?",
    "kernels": "what computes them?",
}
PRE = (
    "margin:0;padding:8px;overflow:auto;max-height:320px;font-size:12px;line-height:1.4;"
    "border:1px solid rgba(128,128,128,.4);box-sizing:border-box"
)
CURVES = {"torch": ("#E69F00", "7 5", 5), "labkit": ("#56B4E9", "2 4", 4), "yours": (YOURS, "", 2)}
"""Whose curve -> colour, dashes, width: the first is drawn below the others."""


def picture(sittings: Sequence[Sitting], run: LastRun) -> str:
    """The whole stack; every seat is a box."""
    bands = '<div style="padding:0 10px;opacity:.8">▼</div>'.join(
        _band(layer, sittings, run) for layer in LAYERS
    )
    return (
        f'<div style="max-width:900px;font-family:sans-serif" role="group" '
        f'aria-label="{escape(_alternative(sittings, run))}">'
        f'<div style="font-size:1.25em"><b>Your machine: {_count(sittings)}</b></div>'
        '<div style="padding:4px 0">Each box is a part: one function of labkit, a small PyTorch. '
        "It runs your code once its exercise has passed, and labkit's until then. A call in Python "
        f"goes through the layers from top to bottom. {_last(run)} {_next(sittings)}</div>"
        f'<div style="line-height:1.9;padding-bottom:4px">{_legend(sittings, run)}</div>{bands}'
        '<div style="padding:0 10px;opacity:.8">▼ GPU, or its emulator</div></div>'
    )


def _count(sittings: Sequence[Sitting]) -> str:
    yours = sum(one.answer is not None for one in sittings)
    return f"{yours} of {len(sittings)} parts are yours"


def _last(run: LastRun) -> str:
    train = "<code>course.machine().train()</code>"
    if not run.calls:
        return f"{train} trains a small network with them, and counts how often each one ran."
    yours = run.losses.get("yours", [])
    loss = f"the loss went from {yours[0]:.2f} to {yours[-1]:.2f}, and " if len(yours) > 1 else ""
    return (
        f"In the training run of {escape(run.day)} {loss}{run.percent} of the calls of these parts "
        f"went through your code. {train} trains again."
    )


def _next(sittings: Sequence[Sitting]) -> str:
    """The part to get next: that of the earliest chapter."""
    missing = [sitting.seat for sitting in sittings if sitting.answer is None]
    if not missing:
        return "All parts are yours."
    seat = min(missing, key=lambda seat: [int(n) for n in re.findall(r"\d+", _chapter(seat))])
    return f"Next part: <b>{escape(seat.title)}</b>, exercise {_exercise(seat)}."


def _exercise(seat: Seat) -> str:
    name = seat.exercise.partition(".")[2]
    return f"<code>{escape(name)}</code> in {escape(_chapter(seat))}"


def _alternative(sittings: Sequence[Sitting], run: LastRun) -> str:
    yours = [sitting.seat.title for sitting in sittings if sitting.answer is not None]
    return f"{_count(sittings)}: {', '.join(yours) or 'none yet'}"


def _legend(sittings: Sequence[Sitting], run: LastRun) -> str:
    entry = (
        '<span style="white-space:nowrap;margin-right:14px">'
        '<span style="border:2px {};border-radius:4px;padding:0 6px">{}</span> {}</span> '
    )
    parts = [
        entry.format(f"solid {YOURS};background:{YOURS}33", "✓", "your code"),
        entry.format(f"dashed {GREY}", "○", "labkit's code"),
    ]
    if any(_state(one, run)[0] == "✗" for one in sittings):
        said = "switched off: labkit's code runs, and the box says why"
        parts.append(entry.format(f"solid {OUT}", "✗", said))
    return (
        f'{"".join(parts)}<span style="white-space:nowrap">Click a box to see its code and its '
        "exercise.</span>"
    )


def _band(layer: str, sittings: Sequence[Sitting], run: LastRun) -> str:
    boxes = "".join(_box(one, run) for one in sittings if one.seat.layer == layer)
    return (
        '<div style="border:1px solid rgba(128,128,128,.5);border-radius:6px;padding:6px 10px">'
        f'<b>{layer}</b> &ensp;<span style="opacity:.8">{SAYS[layer]}</span>'
        f'<div style="display:flex;flex-wrap:wrap;gap:6px;margin-top:4px">{boxes}</div></div>'
    )


def _state(sitting: Sitting, run: LastRun) -> tuple[str, str, str]:
    """(sign, frame, words) of a seat."""
    if sitting.refused:
        return (
            "✗",
            f"solid {OUT}",
            f"labkit's code: yours is refused, so the exercise is open: {sitting.refused}",
        )
    if sitting.answer is None:
        return "○", f"dashed {GREY}", "labkit's code"
    if why := run.troubles.get(sitting.seat.exercise):
        return "✗", f"solid {OUT}", f"labkit's code: yours was taken out in the last run, {why}"
    passed = sitting.part.passed if sitting.part else ""
    return "✓", f"solid {YOURS};background:{YOURS}33", f"your code, passed {passed}"


def calls_said(calls: Sequence[int] | None) -> str:
    """How often a part was called: `320`, or `309 of 320` if fewer were yours; "" for never."""
    if not calls or not calls[0]:
        return ""
    every, yours = calls
    return f"{every:,}" if yours in (0, every) else f"{yours:,} of {every:,}"


def _box(sitting: Sitting, run: LastRun) -> str:
    seat = sitting.seat
    sign, frame, words = _state(sitting, run)
    calls = calls_said(run.calls.get(seat.exercise))
    ran = f"{calls} calls ran yours" if " of " in calls else f"{calls} calls" if calls else ""
    rows = {
        "Runs": escape(words),
        "Exercise": _exercise(seat),
        "In PyTorch": f"<code>{escape(seat.pytorch)}</code>",
    }
    facts = "".join(f"<br><b>{name}:</b> {text}" for name, text in rows.items())
    return (
        f'<details style="border:2px {frame};border-radius:6px;padding:3px 8px;max-width:100%;'
        'box-sizing:border-box">'
        f'<summary style="cursor:pointer">{sign} <b>{escape(seat.title)}</b> '
        f'<span style="opacity:.8">{ran}</span></summary>'
        f'<div style="padding:4px 0">{escape(seat.contract)}{facts}</div>{_codes(sitting)}'
        "</details>"
    )


def _chapter(seat: Seat) -> str:
    return exercises.notebook_of(seat.exercise.partition(".")[0])


def _codes(sitting: Sitting) -> str:
    codes = {"labkit's": labkits_code(sitting.seat)}
    if sitting.part is not None:
        codes = {"yours": sitting.part.text, **codes}
    if code := pytorchs_code(sitting.seat):
        codes["PyTorch's"] = code
    panes = "".join(
        f'<div style="flex:1 1 320px;min-width:0"><b>{name}</b>'
        f'<pre style="{PRE}" tabindex="0">{escape(code)}</pre></div>'
        for name, code in codes.items()
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{panes}</div>'


def labkits_code(seat: Seat) -> str:
    """The functions of labkit that the seat replaces."""
    found = []
    for place in seat.places:
        found.append(f"# {place.function}\n{inspect.getsource(function_of(place.function))}")
    return "\n\n".join(found)


def pytorchs_code(seat: Seat) -> str:
    """The place in PyTorch's file; "" where the installed PyTorch comes without the file."""
    path, _, symbols = seat.pytorch.partition("  ")
    file = installed_file(path)
    if file is None:
        return ""
    lines = file.read_text(encoding="utf-8").splitlines()
    symbol = re.escape(symbols.partition(",")[0])
    definition = re.compile(rf"(class|def|name:) {symbol}\b|{symbol}\(")
    at = next((n for n, line in enumerate(lines) if definition.search(line)), len(lines))
    return "\n".join(lines[at : at + SHOWN])


def curves(losses: Mapping[str, Sequence[float]], width: int = 560, height: int = 220) -> str:
    """The losses of the three runs over the steps, as one SVG."""
    every = [loss for one in losses.values() for loss in one if loss == loss]
    steps = max((len(one) for one in losses.values()), default=0)
    if not every or steps < 2:
        return ""
    top, left, bottom = 10, 40, 30
    highest = max(every) or 1.0

    def point(step: int, loss: float) -> str:
        x = left + step * (width - left - 10) / (steps - 1)
        y = top + (1 - min(max(loss, 0.0), highest) / highest) * (height - top - bottom)
        return f"{x:.1f},{y:.1f}"

    lines = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="{thick}" '
        f'stroke-dasharray="{dashes}" '
        f'points="{" ".join(point(n, loss) for n, loss in enumerate(losses[name]))}"/>'
        for name, (colour, dashes, thick) in CURVES.items()
        if name in losses
    )
    names = "".join(
        f'<text x="{width - 200 + 70 * n}" y="{top + 12}" fill="{CURVES[name][0]}">{name}</text>'
        for n, name in enumerate(reversed(CURVES))
        if name in losses
    )
    last = {name: round(one[-1], 4) for name, one in losses.items() if one}
    floor = height - bottom
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12" '
        f'aria-label="Loss over {steps} steps; at the end {last}">'
        f'<path d="M{left},{top}V{floor}H{width - 10}" fill="none" stroke="gray"/>'
        f'<text x="{left - 4}" y="{top + 10}" text-anchor="end" fill="gray">{highest:.1f}</text>'
        f'<text x="{left - 4}" y="{floor}" text-anchor="end" fill="gray">0</text>'
        f'<text x="{width - 10}" y="{height - 10}" text-anchor="end" fill="gray">'
        f"step {steps}</text>{lines}{names}</svg>"
    )
