"""A layer of `labkit conformance`, asked from a notebook about a part of somebody else's."""

import textwrap
from collections.abc import Iterator
from typing import Any

from labkit.conformance import report

MOST = 6
"""How many red comparisons are named."""


class Conformed:
    """What a run of a layer found; shown are the counts, and the first comparison that is red.

    comparisons   one for each question of the layer
    """

    def __init__(self, title: str, comparisons: list[report.Comparison]) -> None:
        self.title = title
        self.comparisons = comparisons

    @property
    def red(self) -> list[str]:
        """The questions whose answers are not all PyTorch's, in a few words each."""
        return [_short(each) for each in self.comparisons if not each.passed]

    @property
    def passed(self) -> bool:
        """Whether something was compared, and everything was equal."""
        return bool(self.comparisons) and not self.red

    def __repr__(self) -> str:
        green = len(self.comparisons) - len(self.red)
        lines = [f"{self.title}: {green} of {len(self.comparisons)} comparisons equal"]
        shown = self.red if len(self.red) <= MOST else self.red[: MOST - 1]
        lines += [f"  red: {name}" for name in shown]
        if len(shown) < len(self.red):
            lines.append(f"  red: and {len(self.red) - len(shown)} more")
        first = next((each for each in self.comparisons if not each.passed), None)
        if first is not None and first.first_difference:
            lines += ["the first difference:", *_wrapped(first.first_difference)]
        return "\n".join(lines)


def conformance(layer: str, system: Any, seed: int = 0) -> Conformed:
    """The layer's small comparison with PyTorch, with `system` in the place of labkit's part.

    `labkit conformance LAYER --system FILE` does it in a terminal.

    layer    "allocator", "dispatcher", "autograd" or "kernels": one that has a `SYSTEM`
    """
    found = list(report.run(layer, seed, "small", system=system))
    return Conformed(f"{layer}, seed {seed}", found)


def _short(comparison: report.Comparison) -> str:
    return comparison.what.partition(" (")[0]


def _wrapped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from textwrap.wrap(line.strip(), 92, initial_indent="  ", subsequent_indent="      ")
