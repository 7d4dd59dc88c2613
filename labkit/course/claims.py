"""The claims of the five documents: what each says, the verdict on it, and whether a run agrees."""

import functools
from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import yaml

from labkit.course.notebook_form import ADDRESS

FILE = Path(__file__).with_name("claims.yaml")
DOCUMENTS = {
    "000": "000 PyTorch Computer Vision Low-Level Implementation",
    "001": "001 Pytorch Core Code Research",
    "002": "002 PyTorch Internals, Comprehensive Deep Dive",
    "003": "003 Optimization Techniques",
    "004": "004 PyTorch Fundamental",
}
ABOUT = {
    "000": "sketches of GPU runtime code for vision: pool, layout, convolution, streams, fusion",
    "001": "the source of PyTorch read from the release package down to storage and allocators",
    "002": "a course plan for PyTorch's internals: dispatcher, autograd engine, extensions",
    "003": "techniques that promise speed on GPU and CPU, in memory, pipelines and algorithms",
    "004": "the fundamentals: set-up, tensors, indexing, broadcasting, memory",
}
SUPPORTS = {"holds": True, "wrong": False, "outdated": False, "incomplete": False}
"""Verdict -> whether the statement, taken as written, comes out true."""
COLOURS = {
    "holds": "#009E73",
    "wrong": "#D55E00",
    "outdated": "#B8860B",
    "incomplete": "#0072B2",
    "unverifiable": "#767676",
}
NEVER_SHOWN = "not checkable here: an opinion, or a figure no run can give"


class ClaimFailed(AssertionError):
    """What a cell found out contradicts the verdict on the claim."""


@functools.cache
def all_claims() -> dict[str, dict[str, Any]]:
    """Claim id -> its entry."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where it is built
    entries = yaml.load(FILE.read_text(encoding="utf-8"), Loader=loader)
    return {entry["id"]: entry for entry in entries}


def known_claims() -> set[str]:
    """The ids of all claims."""
    return set(all_claims())


def entry_of(claim_id: str) -> dict[str, Any]:
    """The claim's entry in claims.yaml.

    Raises   KeyError   there is no such claim
    """
    entries = all_claims()
    if claim_id not in entries:
        near = [known for known in entries if known.startswith(str(claim_id)[:3])] or [*entries]
        raise KeyError(f"no claim {claim_id!r}; there are {', '.join(near[:6])}, ...")
    return entries[claim_id]


def support(entry: Mapping[str, Any], holds: bool, shown: Mapping[str, str]) -> None:
    """Return when a run's finding agrees with the verdict on a claim.

    Raises   ClaimFailed   it contradicts the verdict, or no run can settle the claim
             TypeError     `holds` is not a bool
    """
    if not isinstance(holds, bool):
        raise TypeError(f"{entry['id']}: holds must be True or False, got {holds!r}")
    verdict = entry["verdict"]
    if verdict not in SUPPORTS:
        raise ClaimFailed(f"{entry['id']} is {verdict} ({NEVER_SHOWN}); a run cannot settle it")
    if SUPPORTS[verdict] is not holds:
        found = "; ".join(f"{name}: {text}" for name, text in shown.items()) or "no evidence given"
        raise ClaimFailed(
            f"{entry['id']} is recorded as {verdict}, but in this run its statement "
            f"{'holds' if holds else 'does not hold'}: {entry['summary']} ({found})"
        )


def shown_evidence(evidence: Any) -> dict[str, str]:
    """Evidence as name -> text: a mapping of names to values, a sentence, or any value."""
    if evidence is None:
        return {}
    if isinstance(evidence, Mapping):
        return {str(name): _text(value) for name, value in evidence.items()}
    return {"": _text(evidence)}


def _text(value: Any) -> str:
    """Text without addresses: a box reads the same in every run."""
    text = value if isinstance(value, str) else repr(value)
    return ADDRESS.sub("0x0", text)


class Documents:
    """The five documents: what each is about, how its claims fared, where the lab corrects most."""

    def rows(self) -> list[dict[str, str]]:
        """One row per document."""
        rows = []
        for number, name in DOCUMENTS.items():
            entries = [e for e in all_claims().values() if e["document"] == number]
            corrected = [e for e in entries if SUPPORTS.get(e["verdict"]) is False]
            section, count = Counter(e["section"] for e in corrected).most_common(1)[0]
            rows.append(
                {
                    "document": f"{name}: {ABOUT[number]}",
                    "claims": str(len(entries)),
                    "hold": str(sum(e["verdict"] == "holds" for e in entries)),
                    "corrected": str(len(corrected)),
                    "not checkable": str(sum(e["verdict"] == "unverifiable" for e in entries)),
                    "corrected most": f"{section} ({count})",
                }
            )
        return rows

    def __repr__(self) -> str:
        return "\n".join(
            f"{row['document']}\n  {row['claims']} claims: {row['hold']} hold, {row['corrected']} "
            f"corrected, {row['not checkable']} not checkable; most in {row['corrected most']}"
            for row in self.rows()
        )

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in rows[0])
        body = "".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape(text)}</td>' for text in row.values())
            + "</tr>"
            for row in rows
        )
        return f"<table><tr>{head}</tr>{body}</table>"


def documents() -> Documents:
    """The five documents and how their claims fared."""
    return Documents()
