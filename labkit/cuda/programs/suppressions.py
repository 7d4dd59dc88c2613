"""Findings that somebody has looked at and lets stand: by file and line, each with a reason."""

import dataclasses
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from labkit.cuda.errors import InvalidValueError
from labkit.cuda.programs.result import ProgramFinding, ProgramResult

_LINE = re.compile(r"(?P<file>\S+?):(?P<line>\d+|\*)\s+(?P<kind>[\w*]+)\s+(?P<reason>\S.*)")


@dataclass(frozen=True)
class Suppression:
    """One line of a suppressions file: `blur.cu:12 race the halo is written twice, equally`.

    file   the end of a path, with * and ? as in a shell
    line   None for any
    kind   of the finding, such as race; * for any
    """

    file: str
    line: int | None
    kind: str
    reason: str
    place: str

    def covers(self, finding: ProgramFinding) -> bool:
        """Whether the finding is the one meant."""
        named = fnmatch(finding.file, self.file) or fnmatch(finding.file, f"*/{self.file}")
        return (
            named
            and self.line in (None, finding.line, finding.other_line)
            and fnmatch(finding.kind, self.kind)
        )


def read_suppressions(path: Path) -> list[Suppression]:
    """The suppressions of a file; empty lines and lines that begin with # say nothing.

    Raises   InvalidValueError   a line has no reason, or is something else
    """
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise InvalidValueError(
                f"{path}:{number}: a suppression is FILE:LINE KIND REASON, such as "
                f"'blur.cu:12 race both write the same', not {text.strip()!r}"
            )
        line = None if match["line"] == "*" else int(match["line"])
        place = f"{path}:{number}"
        found.append(Suppression(match["file"], line, match["kind"], match["reason"], place))
    return found


def suppress(result: ProgramResult, suppressions: list[Suppression]) -> None:
    """What is covered carries its reason; a suppression that covers nothing is a note."""
    used = set()
    for position, finding in enumerate(result.findings):
        for one in suppressions:
            if one.covers(finding):
                result.findings[position] = dataclasses.replace(finding, suppressed=one.reason)
                used.add(one)
    for one in suppressions:
        if one not in used:
            result.notes.append(f"{one.place}: this suppression covers no finding")
