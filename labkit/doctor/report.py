"""Plain rows about a machine, and how they look as text and as a table in a notebook."""

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "missing", "broken", "not needed"]
SIGNS: dict[Status, str] = {"ok": "+", "missing": "-", "broken": "!", "not needed": "."}


@dataclass(frozen=True)
class Finding:
    """One part of the machine.

    part      its name
    status    ok, missing (you may want it), broken (it is there and does not work), not needed
    found     what is there, with version and place; of a missing part, where was looked
    meaning   of a part that works: what it gives you; of one that does not: what that costs you
    remedy    how to get it; empty when there is nothing to do
    required  True when the lab cannot run without it
    """

    part: str
    status: Status
    found: str
    meaning: str
    remedy: str = ""
    required: bool = False


@dataclass(frozen=True)
class Report:
    """All findings about this machine, and the driver that serves device="cuda".

    driver   "cupy" (a real GPU), "emulator" (the host compiler), or None: kernels cannot run
    """

    findings: tuple[Finding, ...]
    driver: str | None

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, part: str) -> Finding:
        """The finding about one part.

        Raises   KeyError   no such part
        """
        for finding in self.findings:
            if finding.part == part:
                return finding
        parts = ", ".join(finding.part for finding in self.findings)
        raise KeyError(f"no part {part!r}; there are {parts}")

    @property
    def lab_runs(self) -> bool:
        """True when nothing the lab cannot do without is missing or broken."""
        return all(finding.status == "ok" for finding in self.findings if finding.required)

    def __repr__(self) -> str:
        lacking = [finding.part for finding in self.findings if finding.remedy]
        rest = f"to get: {', '.join(lacking)}" if lacking else "nothing is missing"
        return f'Report({len(self.findings)} parts, device="cuda" by {self.driver}, {rest})'

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        width = max(len(finding.part) for finding in self.findings)
        for finding in self.findings:
            yield f"{SIGNS[finding.status]} {finding.part:<{width}}  {finding.found}"
            yield from indented(finding.meaning, width + 4)
            if finding.remedy:
                yield from indented(f"Get it: {finding.remedy}", width + 4)
        yield ""
        yield "+ works   - missing   ! broken   . not needed on this machine"

    def _repr_html_(self) -> str:
        rows = "".join(map(html_row, self.findings))
        titles = "".join(
            f"<th style='{CELL};min-width:{width}'>{title}</th>" for title, width in TITLES
        )
        return (
            f"<table style='border-collapse:collapse'><thead><tr>{titles}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


CELL = "text-align:left;vertical-align:top;padding:4px 12px 4px 0"
TITLES = (
    ("", "0"), ("part", "0"), ("here", "9em"), ("what that means", "14em"), ("how to get it", "8em")
)  # fmt: skip
"""Title and least width of each column: the text of a narrow page breaks where it can bear it."""


def html_row(finding: Finding) -> str:
    """One row of the table; the state is a word, so that no colour carries it alone."""
    weight = "font-weight:600;" if finding.status in ("missing", "broken") else ""
    cells = (finding.status, finding.part, finding.found, finding.meaning, finding.remedy)
    styles = (CELL + ";white-space:nowrap;" + weight, CELL + ";white-space:nowrap", *[CELL] * 3)
    return (
        "<tr>"
        + "".join(
            f"<td style='{style}'>{html.escape(cell)}</td>"
            for style, cell in zip(styles, cells, strict=True)
        )
        + "</tr>"
    )


def indented(text: str, columns: int) -> list[str]:
    """Lines of at most 100 columns that start under the second column."""
    margin = " " * columns
    return textwrap.wrap(text, 100, initial_indent=margin, subsequent_indent=margin)
