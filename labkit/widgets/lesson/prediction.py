"""One question with its choices, answered before the run and judged in its own box after it."""

import base64
import json
from collections.abc import Mapping

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import INK, MUTED, Picture


class PredictionView(LabWidget):
    """Draws a question and its choices as buttons, and the verdict once there is one.

    choice  what the reader picked, or ""
    sealed  what `seal` packed: what came out, and a reason per choice; "" before the run
    shown   the reader asked for the answer instead of choosing

    The page judges by itself, so a choice made after the run, in a reopened notebook or on a
    static page is judged too.
    """

    parts = ("lesson/prose.js", "lesson/sealed.js")

    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    choice = traitlets.Unicode("").tag(sync=True)
    sealed = traitlets.Unicode("").tag(sync=True)
    shown = traitlets.Bool(False).tag(sync=True)

    def summary(self) -> str:
        """The question and what was picked."""
        return f"{self.question!r}, {self.choice!r}" if self.choice else repr(self.question)

    def svg(self) -> str:
        """The question over its choices."""
        longest = max(len(text) for text in (self.question, *self.choices))
        picture = Picture(40 + 7.5 * longest, 36 + 20 * len(self.choices), label=repr(self))
        picture.text(12, 24, self.question, bold=True)
        for number, text in enumerate(self.choices):
            picked = text == self.choice
            mark = "●" if picked else "○"
            picture.text(16, 46 + 20 * number, f"{mark} {text}", fill=INK if picked else MUTED)
        return picture.svg()


def seal(actual: str, reasons: Mapping[str, str]) -> str:
    """The answer packed so that nobody reads it by accident in a page's source."""
    text = json.dumps({"actual": actual, "reasons": dict(reasons)}, ensure_ascii=False)
    return base64.b64encode(text.encode()).decode()
