"""One exercise: what is asked, what the last attempt got wrong, and the hints earned so far."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import ALERT, INK, MUTED, Picture

WIDTH = 720
COLUMN = 96
LETTERS = 76
"""Letters of the fixed-width face that fit beside the row names."""


class ExerciseCard(LabWidget):
    """Draws one exercise; attempts beyond the last one stay in the progress file.

    statement, rules   what is asked; the statement is markdown
    stages             [name, "done", "wrong" or "open"] of each stage of the last check
    status             "not tried", "tried", "passed" or "gave up"
    failures           the failing cases of the last attempt, smallest first: [name, text] rows
    hints              the hints earned, markdown; hints_left: how many are still locked
    solution           the solution's code once it is open, else ""; reason: why it is so
    on_ask             called with "give up" or "attempts" when the reader asks; it may set the
                       traits, and for "attempts" returns the list of all kept attempts

    Locked hints and solutions are never part of the state, so a saved notebook does not hold them.
    """

    exercise = traitlets.Unicode().tag(sync=True)
    statement = traitlets.Unicode().tag(sync=True)
    rules = traitlets.List(traitlets.Unicode()).tag(sync=True)
    stages = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    about = traitlets.Unicode().tag(sync=True)
    status = traitlets.Unicode("not tried").tag(sync=True)
    attempts = traitlets.Int(0).tag(sync=True)
    seed = traitlets.Int(0).tag(sync=True)
    failures = traitlets.List(traitlets.List()).tag(sync=True)
    hints = traitlets.List(traitlets.Unicode()).tag(sync=True)
    hints_left = traitlets.Int(0).tag(sync=True)
    solution = traitlets.Unicode("").tag(sync=True)
    reason = traitlets.Unicode("").tag(sync=True)

    parts = ("lesson/prose.js",)

    def __init__(
        self,
        on_ask: Callable[["ExerciseCard", str], Sequence[Mapping[str, Any]] | None] | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(**traits)
        self._on_ask = on_ask
        self.on_msg(self._answer)

    def _answer(self, _: Any, content: Mapping[str, Any], buffers: Any) -> None:
        question = content.get("ask")
        if self._on_ask is not None and question in ("give up", "attempts"):
            attempts = self._on_ask(self, question)
            if question == "attempts":
                self.send({"attempts": [dict(attempt) for attempt in attempts or ()]})

    def summary(self) -> str:
        """The exercise, its status and its attempts."""
        if self.status == "not tried":
            return f"{self.exercise}: your turn, {self.about}"
        tries = "1 failed attempt" if self.attempts == 1 else f"{self.attempts} failed attempts"
        return f"{self.exercise}: {self.status}, {tries}"

    def svg(self) -> str:
        """The smallest failing case and the last hint as a table; the task stands above it."""
        told = [*(self.failures[0] if self.failures else ())]
        told += [["hint", hint.replace("`", "")] for hint in self.hints[-1:]]
        rows = [
            ("" if at else name, line, ALERT if name == "got" else INK)
            for name, text in told
            for at, line in enumerate(wrapped(text))
        ]
        picture = Picture(WIDTH, 44 + 18 * len(rows), label=repr(self))
        picture.text(12, 24, self.summary(), bold=True)
        for number, (name, text, colour) in enumerate(rows):
            picture.text(12, 46 + 18 * number, name, fill=MUTED)
            picture.text(12 + COLUMN, 46 + 18 * number, text, fill=colour)
        return picture.svg()


def wrapped(text: str) -> list[str]:
    """The text in lines that fit, broken at spaces where there are any."""
    fit = textwrap.TextWrapper(LETTERS, expand_tabs=False, break_on_hyphens=False)
    return [line for paragraph in text.splitlines() or [""] for line in fit.wrap(paragraph) or [""]]
