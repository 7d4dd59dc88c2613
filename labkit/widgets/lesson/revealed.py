"""The line under a run that says what became of the prediction made before it."""

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.lesson.prediction import PredictionView
from labkit.widgets.picture import Picture

FIRST = "Answer above first"


class RevealedView(LabWidget):
    """Draws the verdict on one prediction, or asks for a choice while there is none.

    prediction  the model id of the question's own widget, whose choice the line follows
    """

    parts = ("lesson/prose.js", "lesson/sealed.js")

    prediction = traitlets.Unicode().tag(sync=True)

    def __init__(self, asked: PredictionView) -> None:
        super().__init__(prediction=asked.model_id)
        self.asked = asked

    def __repr__(self) -> str:
        return FIRST

    def svg(self) -> str:
        """The words alone."""
        picture = Picture(24 + 7.5 * len(repr(self)), 36, label=repr(self))
        picture.text(12, 23, repr(self))
        return picture.svg()
