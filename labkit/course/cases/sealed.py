"""A traced launch as it is known without the kernel's source."""

from dataclasses import replace

from labkit.cuda.report import Report


def sealed(report: Report) -> Report:
    """The report with an empty line for each line of the source: findings keep their numbers."""
    return replace(
        report,
        source="\n" * report.source.count("\n"),
        lines=tuple(replace(line, text="") for line in report.lines),
    )
