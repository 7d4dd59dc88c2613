"""The short form of a report on a page: a table of what each access cost, then the findings."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.cuda.report import AccessCounters, Report

MOST_ROWS, MOST_FINDINGS = 12, 4
HEADINGS = ("line", "access", "array", "requests", "per request", "at best")


def report_html(report: "Report", found: str) -> str:
    """The accesses that cost most above their best first, and the first findings in words."""
    order = sorted(report.accesses, key=lambda one: (-_excess(one), one.file, one.line))
    rows = "".join(_row(one) for one in order[:MOST_ROWS])
    more = len(order) - MOST_ROWS
    rest = [f"<p>… and {more} accesses more</p>"] if more > 0 else []
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    findings = "".join(f"<li>✗ {escape(str(one))}</li>" for one in report.findings[:MOST_FINDINGS])
    shown = "show.kernel(report) steps through it"
    return "".join([
        f"<p><b>{escape(report.kernel)}</b> grid {report.grid}, block {report.block}: ",
        f"{report.simd_efficiency:.0%} of the lanes at work, {found}. <code>{shown}</code></p>",
        f"<table><tr>{head}</tr>{rows}</table>" if rows else "",
        *rest,
        f"<ul>{findings}</ul>" if findings else "",
    ])  # fmt: skip


def _excess(one: "AccessCounters") -> float:
    cost, best, _ = _cost(one)
    return cost / best if best else 0.0


def _cost(one: "AccessCounters") -> tuple[int, int, str]:
    """What was counted, the least possible, and the unit."""
    if one.space == "shared":
        return one.wavefronts, one.ideal_wavefronts, _plural(one.wavefronts, one, "wavefront")
    return one.sectors, one.ideal_sectors, _plural(one.sectors, one, "sector")


def _plural(count: int, one: "AccessCounters", unit: str) -> str:
    return unit if count == one.requests else f"{unit}s"


def _row(one: "AccessCounters") -> str:
    cost, best, unit = _cost(one)
    each = max(1, one.requests)
    cells = (
        one.line, f"{one.access} {one.space}", escape(one.array), one.requests,
        f"{'✗ ' if cost > best else ''}{cost / each:.4g} {unit}", f"{best / each:.4g}",
    )  # fmt: skip
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
