"""A result as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from typing import Any

from labkit.cuda.programs.result import ProgramFinding, ProgramResult

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(result: ProgramResult) -> dict[str, Any]:
    """The findings of one run, suppressed ones marked as such."""
    kinds = sorted({finding.kind for finding in result.findings})
    rules = [{"id": kind, "shortDescription": {"text": kind.replace("_", " ")}} for kind in kinds]
    run = {
        "tool": {"driver": {"name": "labkit", "rules": rules}},
        "results": [_result(finding) for finding in result.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: ProgramFinding) -> dict[str, Any]:
    one: dict[str, Any] = {
        "ruleId": finding.kind,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [_location(finding.file, finding.line)],
        "properties": {"launch": finding.launch, "kernel": finding.kernel, "count": finding.count},
    }
    if finding.other_line:
        one["relatedLocations"] = [_location(finding.file, finding.other_line)]
    if finding.suppressed:
        one["suppressions"] = [{"kind": "external", "justification": finding.suppressed}]
    return one


def _location(file: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": file}}
    if line:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}
