"""`show.kernel`: what each warp of a traced launch asked of memory, and its races played back."""

from collections.abc import Sequence
from typing import Any

from labkit.cuda.report import AccessCounters, Report, Request
from labkit.cuda.witness import Witness
from labkit.show.kernel_race import played
from labkit.widgets.cuda.kernel_view import KernelView

_SUMMED = (
    "requests", "lanes", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts",
)  # fmt: skip
_KEY = ("file", "line", "space", "access", "array", "size")

Access = tuple[Any, ...]


def kernel(
    *reports: Report | Witness,
    witness: Witness | Sequence[Witness] = (),
    title: str = "",
    at: int | str | None = None,
    simple: bool = False,
) -> KernelView:
    """Source with counters per line, requests of a warp lane by lane, findings and their races.

    reports  of traced launches, `kernel(grid, block, args, trace=Trace())`; several are compared.
             A `Witness` alone shows the schedule it found.
    witness  schedules that went wrong (`labkit.cuda.witness.find_witness`), to play back
    at       the request to open at: its number in the order kept, from 1, or words of what it is,
             such as "line 4: write out"
    simple   only the source and the race played back, for a first look

    Raises   TypeError    something else was given, such as the None of an untraced launch
             ValueError   no report, or no request `at`
    """
    witnesses = [witness] if isinstance(witness, Witness) else list(witness)
    runs = []
    for one in reports:
        if isinstance(one, Witness):
            runs.append(_run(one.report, [one]))
        elif isinstance(one, Report):
            runs.append(_run(one, witnesses))
        else:
            raise TypeError(
                f"show.kernel takes reports of launches made with trace=Trace(), not {one!r}"
            )
    return KernelView(runs, title=title, simple=simple).open_at(at)


def _run(report: Report, witnesses: Sequence[Witness]) -> dict[str, Any]:
    accesses = _accesses(report)
    index = {tuple(one[name] for name in _KEY): n for n, one in enumerate(accesses)}
    return {
        "kernel": report.kernel,
        "file": report.file,
        "grid": list(report.grid),
        "block": list(report.block),
        "source": report.source.splitlines(),
        "efficiency": report.simd_efficiency,
        "events": report.events,
        "blocks_traced": report.blocks_traced,
        "truncated": report.truncated,
        "races_unchecked": report.races_unchecked,
        "lines": [
            {"line": one.line, "runs": one.runs, "efficiency": one.simd_efficiency}
            for one in report.lines
        ],
        "accesses": accesses,
        "requests": [
            {
                "access": index[_key(one)],
                "block": list(one.block),
                "warp": one.warp,
                "mask": one.mask,
                **_memory(one),
            }
            for one in report.requests
        ],
        "findings": [
            {
                "kind": one.kind.replace("_", " "),
                "file": one.file,
                "line": one.line,
                "other_line": one.other_line,
                "message": one.message,
                "count": one.count,
            }
            for one in report.findings
        ],
        "plays": [played(one, report) for one in witnesses if one.report.kernel == report.kernel],
    }


def _memory(request: Request) -> dict[str, Any]:
    """Where the request went; shared arrays begin at bank 0, which changes no count of passes."""
    start, addresses = request.start, list(request.addresses)
    if request.space == "shared" and start % 4 == 0:
        inside = [(at - start) * (request.mask >> lane & 1) for lane, at in enumerate(addresses)]
        return {"start": 0, "addresses": inside}
    return {"start": start, "addresses": addresses}


def _accesses(report: Report) -> list[dict[str, Any]]:
    """One entry per access of a line: what the compiler unrolled or inlined is added up."""
    sums: dict[Access, dict[str, Any]] = {}
    for one in report.accesses:
        entry = sums.setdefault(
            _key(one),
            dict(zip(_KEY, _key(one), strict=True)) | dict.fromkeys(_SUMMED, 0),
        )
        for name in _SUMMED:
            entry[name] += getattr(one, name)
    return list(sums.values())


def _key(one: AccessCounters | Request) -> Access:
    return tuple(getattr(one, name) for name in _KEY)
