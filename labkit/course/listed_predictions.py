"""Predictions whose reasons stand in the reveal: `predict(question, [choices])`.

    guess = course.predict("Does y have a grad_fn?", ["yes", "no"])
    guess.reveal("no", why={"yes": "no input requires a gradient, so nothing is recorded"})

Chapters of the older form ask so; those of form 2 keep every reason with its choice.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from labkit.widgets.lesson.prediction import PredictionView


class Revealed:
    """What became of a prediction, as text and as HTML."""

    def __init__(self, predicted: str, actual: str, reason: str) -> None:
        self.predicted, self.actual, self.reason = predicted, actual, reason

    @property
    def right(self) -> bool:
        """Whether the prediction was made and came true."""
        return self.predicted == self.actual

    def __repr__(self) -> str:
        if not self.predicted:
            start = f"no prediction; it is {self.actual}"
        elif self.right:
            start = f"right: {self.actual}"
        else:
            start = f"predicted {self.predicted}, it is {self.actual}"
        return f"{start}: {self.reason}" if self.reason else start

    def _repr_html_(self) -> str:
        colour = "#009E73" if self.right else "#D55E00" if self.predicted else "#767676"
        style = f"border-left:4px solid {colour};padding:2px 10px"
        return f'<div style="{style}">{escape(repr(self))}</div>'


class ListedPrediction(PredictionView):
    """A question whose reasons come with the reveal."""

    def choose(self, choice: Any) -> "ListedPrediction":
        """Pick a choice in code; the buttons do the same."""
        if str(choice) not in self.choices:
            raise ValueError(f"{choice!r} is not among the choices {list(self.choices)}")
        self.choice = str(choice)
        return self

    def reveal(self, actual: Any, why: Mapping[Any, str] | str = "") -> Revealed:
        """Compare with what the run showed.

        why  one text for everyone, or a text per choice

        Raises   ValueError   `actual`, or a key of `why`, is none of the choices
        """
        reasons = {str(key): text for key, text in why.items()} if isinstance(why, Mapping) else {}
        for value in (str(actual), *reasons):
            if value not in self.choices:
                raise ValueError(f"{value!r} is not among the choices {list(self.choices)}")
        reason = why if isinstance(why, str) else reasons.get(self.choice or str(actual), "")
        return Revealed(self.choice, str(actual), reason)


def listed(question: str, choices: Sequence[str]) -> ListedPrediction:
    """The question of the older form."""
    return ListedPrediction(question=question, choices=list(choices))
