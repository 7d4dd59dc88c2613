"""Counting comparisons, and keeping the first that differs."""

from collections import Counter
from collections.abc import Iterator, Sequence

from labkit.conformance.report import Comparison


class Tally:
    """Counts of one question."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.compared = 0
        self.equal = 0
        self.first: str | None = None

    def add(self, mine: object, real: object, about: object) -> bool:
        """Count one pair; True when equal."""
        if mine == real:
            return self.note("")
        return self.note(f"{about}\n  labkit  {_short(mine)}\n  torch   {_short(real)}")

    def note(self, difference: str) -> bool:
        """Count one answer; True when there is no difference: the text is ""."""
        self.compared += 1
        self.equal += not difference
        self.first = self.first or difference or None
        return not difference

    def result(self) -> Comparison:
        """What the command prints."""
        return Comparison(self.what, self.compared, self.equal, self.first)


class Answers:
    """Counts of several questions about operators, and everything that differed.

    entries  the operators that were asked
    """

    def __init__(self) -> None:
        self.compared: Counter[str] = Counter()
        self.equal: Counter[str] = Counter()
        self.different: dict[str, list[str]] = {}
        self.entries: set[str] = set()

    def add(self, question: str, where: str, difference: str) -> None:
        """One answer of a question; the difference is "" when both sides agree."""
        self.compared[question] += 1
        self.equal[question] += not difference
        if difference:
            self.different.setdefault(question, []).append(f"  {where}\n  {difference}")

    def results(
        self, what: str, questions: Sequence[str], notes: tuple[str, ...]
    ) -> Iterator[Comparison]:
        """One for each question that was asked, which stands at the {} in `what`.

        notes  go with the first question
        """
        for question in questions:
            if self.compared[question]:
                yield Comparison(
                    f"{what.format(question)}, {len(self.entries)} entries of op_db",
                    self.compared[question],
                    self.equal[question],
                    next(iter(self.different.get(question, [])), None),
                    notes if question == questions[0] else (),
                )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 2_000 else f"{text[:1_990]}... ({len(text):,} characters)"
