"""What a run of a whole program showed, as plain data, and as text and JSON."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from labkit.cuda.report import Report


@dataclass(frozen=True)
class ProgramFinding:
    """A defect of a program.

    kind      a word: race, out_of_bounds, host_access, api_error, ...
    launch    the number of the launch it was seen in, from 1; 0: in host code
    kernel    the kernel as launched, or nothing
    file      with `line`: where; line 0 is not known
    other_line  of the access it collides with, or 0
    called_at   FILE:LINE in the kernel, where the line is a function's that was inlined
    count     how often it was seen
    suppressed  the reason given for not minding it, or nothing
    """

    kind: str
    message: str
    file: str
    line: int
    launch: int = 0
    kernel: str = ""
    other_line: int = 0
    count: int = 1
    suppressed: str = ""
    called_at: str = ""

    @property
    def same(self) -> tuple[str, str, int, int, str]:
        """What two sightings of one defect have in common."""
        return self.kind, self.file, self.line, self.other_line, self.called_at

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        launched = f" [launch {self.launch}, {self.kernel}]" if self.launch else ""
        often = f" ({self.count} times)" if self.count > 1 else ""
        return f"{where}{self.kind.replace('_', ' ')}: {self.message}{launched}{often}"


@dataclass
class ProgramResult:
    """A finished run.

    status    the program's own exit status; 128 + n when signal n ended it
    launches  how many kernels it launched, of which `traced` were watched
    notes     what is worth a look and is no defect
    reports   of the launches watched, for `show.kernel`
    output    what the program wrote, when it was asked for
    """

    program: str
    status: int = 0
    launches: int = 0
    traced: int = 0
    findings: list[ProgramFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    output: str = ""

    @property
    def open_findings(self) -> list[ProgramFinding]:
        """The findings that nobody has given a reason for."""
        return [finding for finding in self.findings if not finding.suppressed]

    @property
    def exit_status(self) -> int:
        """The program's own, and 1 for one that ended well with open findings."""
        return self.status or int(bool(self.open_findings))

    def add(self, finding: ProgramFinding) -> None:
        """The finding is listed, once for all its sightings."""
        for position, known in enumerate(self.findings):
            if known.same == finding.same:
                self.findings[position] = dataclasses.replace(
                    known, count=known.count + finding.count
                )
                return
        self.findings.append(finding)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without the reports' counters."""
        return {
            "program": self.program, "status": self.status, "launches": self.launches,
            "traced": self.traced, "notes": list(self.notes),
            "findings": [dataclasses.asdict(one) for one in self.findings],
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self._rows())

    def __repr__(self) -> str:
        found = _plural(len(self.open_findings), "finding")
        return f"ProgramResult({self.program}, status {self.status}, {found})"

    def _rows(self) -> Iterable[str]:
        watched = f", {self.traced} of them watched" if self.traced else ""
        left = len(self.findings) - len(self.open_findings)
        hidden = f", {left} suppressed" if left else ""
        yield (
            f"{self.program}: {_plural(self.launches, 'launch', 'es')}{watched}, "
            f"{_plural(len(self.open_findings), 'finding')}{hidden}"
        )
        yield from (f"  {finding}" for finding in self.open_findings)
        yield from (f"  note: {note}" for note in self.notes)


def _plural(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{'' if count == 1 else ending}"
