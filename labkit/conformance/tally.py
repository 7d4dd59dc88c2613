"""Counting comparisons, and keeping the first that differs."""

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


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 2_000 else f"{text[:1_990]}... ({len(text):,} characters)"
