"""Counting comparisons, and keeping the first that differs."""

from labkit.conformance.report import Comparison


class Tally:
    """Counts of one question."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.compared = 0
        self.equal = 0
        self.first: str | None = None

    def add(self, mine: object, real: object, about: str) -> bool:
        """Count one pair; True when equal."""
        self.compared += 1
        if mine == real:
            self.equal += 1
            return True
        if self.first is None:
            self.first = f"{about}\n  labkit   {_short(mine)}\n  PyTorch  {_short(real)}"
        return False

    def result(self) -> Comparison:
        """What the command prints."""
        return Comparison(self.what, self.compared, self.equal, self.first)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 2_000 else f"{text[:1_990]}... ({len(text):,} characters)"
