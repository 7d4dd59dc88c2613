"""Predictions: an answer given before the run, and after it precisely what was wrong with it.

    guess = course.predict("How many elements are copied?", {    # a cell tagged `predict`
        0: "no stride walks a transposed block in order, so it has to copy",
        12: "all of them: {copied} bytes move",
    })
    guess                                                        # the buttons
    ...                                                          # the run
    guess.reveal(moved, copied=moved * 4)                        # one visible line below it

The question's box judges a choice whenever it is made, before the reveal or after Run All. While
there is none, nothing on the page says what came out.
"""

import re
from collections.abc import Mapping
from typing import Any

from labkit.widgets.lesson.prediction import PredictionView, seal
from labkit.widgets.lesson.revealed import RevealedView

BLANK = re.compile(r"\{([A-Za-z_]\w*)(?::([^{}]*))?\}")
"""A measured value in an explanation: {copied}, or with a format, {copied:,}."""


class Revealed(RevealedView):
    """What became of a prediction, once for the page and once as text."""

    asked: "Prediction"

    def __repr__(self) -> str:
        asked = self.asked
        if not asked.choice:
            return super().__repr__()
        word = "right" if asked.right else "not right"
        return f"{word}: {asked.choice}: {asked.reasons[asked.choice]}"


class Prediction(PredictionView):
    """A question asked before the run, with a reason for each of its choices."""

    def __init__(self, question: str, reasons: Mapping[str, str]) -> None:
        super().__init__(question=question, choices=list(reasons))
        self.explanations = dict(reasons)
        self.reasons: dict[str, str] = {}
        self.actual = ""

    @property
    def right(self) -> bool:
        """Whether the choice made came true."""
        return bool(self.choice) and self.choice == self.actual

    def choose(self, choice: Any) -> "Prediction":
        """Pick a choice in code; the buttons do the same.

        Raises   ValueError   it is none of the choices
        """
        self.choice = self._found(choice)
        return self

    def reveal(self, actual: Any, **measured: Any) -> Revealed:
        """Judge the choice, or the one made later, by what the run showed.

        actual    the value that came out; its text is one of the choices, and True and False
                  also find "yes" and "no"
        measured  what fills the {names} in the explanations

        Raises   ValueError   `actual` is none of the choices, or names and values do not match
        """
        found = self._found(actual)
        named = {blank[1] for text in self.explanations.values() for blank in BLANK.finditer(text)}
        if named != set(measured):
            raise ValueError(
                f"the explanations name {sorted(named)}, reveal got {sorted(measured)}"
            )

        def fill(blank: re.Match[str]) -> str:
            return format(measured[blank[1]], blank[2] or "")

        self.actual = found
        self.reasons = {key: BLANK.sub(fill, text) for key, text in self.explanations.items()}
        self.sealed = seal(found, self.reasons)
        return Revealed(self)

    def _found(self, value: Any) -> str:
        text = str(value)
        if isinstance(value, bool) and text not in self.choices:
            text = "yes" if value else "no"
        if text not in self.choices:
            raise ValueError(
                f"{value!r} is not among the choices {list(self.choices)} of the last question, "
                f"{self.question!r}. Run the question right above this cell again"
            )
        return text


def predict(question: str, choices: Mapping[Any, str]) -> Prediction:
    """Ask a question before the run; display what this returns.

    choices  choice -> explanation: what is wrong with it, or why it is so; choices are compared
             as text

    Raises   ValueError   fewer than two choices, one twice, or one without an explanation
    """
    texts = [str(choice) for choice in choices]
    if len(texts) < 2 or len(set(texts)) < len(texts):
        raise ValueError(f"a prediction needs two or more different choices, got {texts}")
    reasons = {str(choice): reason.strip() for choice, reason in choices.items()}
    if silent := [choice for choice, reason in reasons.items() if not reason]:
        raise ValueError(f"no explanation for {silent}")
    return Prediction(question, reasons)
