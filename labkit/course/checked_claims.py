"""The folded table at the end of a chapter: what the document says, checked.

    course.checked(
        {
            "D1-2.3-c": address == computed,                           # whether it holds
            "D1-2.3-d": (copies == 0, {"bytes copied": copies}),       # with what was found
        },
        settles={"D4-1.1-l": "a study that times both debuggers on the same bugs"},
        dated={"D4-1.1-b": "true until torch 2.0, March 2023"},
    )

Every value comes from the run: it is computed in a cell above, or in this one, which is tagged
`backstage`. The call raises where a value contradicts the verdict on record.
"""

from collections.abc import Collection, Mapping
from html import escape
from typing import Any

from labkit.course.claims import COLOURS, DOCUMENTS, entry_of, shown_evidence, support
from labkit.course.notebook_form import natural

TITLE = "Read it elsewhere? Statements of {source}, run here: {holding} of {count} hold"
OPEN = "; {count} not checkable here"
HEADINGS = ("", "it says", "verdict", "better", "found here")


class CheckedClaims:
    """The claims a chapter owns, one row each, with what its run found out."""

    def __init__(
        self, rows: list[dict[str, str]], documents: list[str], undecided: Collection[str] = ()
    ) -> None:
        self.rows, self.documents, self.undecided = rows, documents, undecided

    def __repr__(self) -> str:
        lines = [
            f"{row['id']}  {row['verdict']}: {row['says']} [{row['found']}]" for row in self.rows
        ]
        return "\n".join([self.title, *lines])

    @property
    def title(self) -> str:
        """The line that stands for the folded table."""
        decided = [row["verdict"] for row in self.rows if row["id"] not in self.undecided]
        source = " and ".join(f"“{name}”" for name in self.documents)
        text = TITLE.format(count=len(decided), source=source, holding=decided.count("holds"))
        return text + (OPEN.format(count=len(self.undecided)) if self.undecided else "")

    def _repr_html_(self) -> str:
        style = "text-align:left;vertical-align:top"
        head = "".join(f'<th scope="col" style="{style}">{name}</th>' for name in HEADINGS)
        body = "".join(self._html_row(row, style) for row in self.rows)
        source = "; ".join(self.documents)
        return (
            f"<details><summary><b>{escape(self.title)}</b></summary>"
            f"<table><caption style='text-align:left'>{escape(source)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
        )

    @staticmethod
    def _html_row(row: Mapping[str, str], style: str) -> str:
        texts = "".join(
            f'<td style="{style}">{escape(row[name])}</td>' for name in ("better", "found")
        )
        badge = (
            f'<span style="background:{COLOURS[row["verdict"]]};color:#fff;border-radius:4px;'
            f'padding:1px 7px">{row["verdict"]}</span>'
        )
        when = f"<br><small>{escape(row['dated'])}</small>" if row["dated"] else ""
        return (
            f'<tr><th scope="row" style="{style};white-space:nowrap">{row["id"]}</th>'
            f'<td style="{style}">{escape(row["says"])}<br><small>{escape(row["section"])}</small>'
            f'</td><td style="{style}">{badge}{when}</td>{texts}</tr>'
        )


def checked(
    holds: Mapping[str, Any],
    *,
    settles: Mapping[str, str] | None = None,
    dated: Mapping[str, str] | None = None,
) -> CheckedClaims:
    """The folded table of a chapter's claims, each decided by a value of this run.

    holds    claim id -> whether the statement, taken as written, came out true; or a pair of
             that and the evidence: a mapping of names to values, a sentence, or any value
    settles  claim id -> what would settle a statement that no run here can check
    dated    claim id -> when a statement that was true once was true

    Raises   ClaimFailed   a value contradicts the verdict
             KeyError      there is no such claim
             TypeError     a value is neither a bool nor a pair of a bool and evidence
             ValueError    a claim is both decided and left open, or dated and not in the table
    """
    settles, dated = settles or {}, dated or {}
    if both := sorted(holds.keys() & settles.keys()):
        raise ValueError(f"{both} are decided by a value and said to be not checkable here")
    if stray := sorted(dated.keys() - holds.keys() - settles.keys()):
        raise ValueError(f"{stray} have a date and are not in the table")
    found = {claim_id: _found(claim_id, value) for claim_id, value in holds.items()}
    found |= {key: f"not checkable here; to settle it: {text}" for key, text in settles.items()}
    rows = [
        _row(claim_id, found[claim_id], dated.get(claim_id, ""))
        | ({"verdict": "unverifiable"} if claim_id in settles else {})
        for claim_id in sorted(found, key=natural)
    ]
    documents = sorted({DOCUMENTS[entry_of(claim_id)["document"]] for claim_id in found})
    return CheckedClaims(rows, documents, settles)


def _found(claim_id: str, value: Any) -> str:
    """The evidence as text, once the value agrees with the verdict."""
    truth, evidence = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    shown = shown_evidence(evidence)
    support(entry_of(claim_id), truth, shown)
    texts = [f"{name}: {text}" if name else text for name, text in shown.items()]
    partly = entry_of(claim_id)["verdict"] == "incomplete"
    fails = "as written it leaves something out" if partly else "it does not hold"
    return "; ".join(["it holds" if truth else fails, *texts])


def _row(claim_id: str, found: str, dated: str) -> dict[str, str]:
    entry = entry_of(claim_id)
    correction = entry["correction"] if entry["verdict"] != "holds" else entry.get("note") or ""
    return {
        "id": claim_id,
        "section": entry["section"],
        "says": entry["summary"],
        "verdict": entry["verdict"],
        "better": correction,
        "found": found,
        "dated": dated,
    }
