"""One question with its choices, answered before the run and judged after it."""

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import INK, MUTED, Picture


class PredictionView(LabWidget):
    """Draws a question and its choices as buttons; `choice` is what the reader picked, or ""."""

    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    choice = traitlets.Unicode("").tag(sync=True)
    locked = traitlets.Bool(False, help="after the answer was shown").tag(sync=True)

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
