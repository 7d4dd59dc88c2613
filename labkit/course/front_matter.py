"""What every notebook says of itself, once for readers (its first cell) and once for programs."""

from typing import Any

KEYS: dict[str, type | tuple[type, ...]] = {
    "title": str,
    "after": list,
    "minutes": int,
    "difficulty": int,
    "document": str,
    "sections": str,
    "needs": list,
    "claims": list,
    "anchors": list,
}
"""The keys of the notebook's metadata `labkit`, all of them required.

after        what the reader can do afterwards; the visible text puts "After this you can" before
minutes      for the whole notebook, exercises included; difficulty: 1 to 5
document     number and name of the document, or "none"; sections: its sections, in words
needs        notebooks to have done, as "folder/name"; claims: ids of the claims it owns
anchors      files of PyTorch, each with a symbol where one is meant: "torch/version.py"
"""


def front_matter_problems(about: Any) -> list[str]:
    """What is missing or of the wrong kind in the metadata."""
    if not isinstance(about, dict):
        return ["metadata.labkit is missing"]
    problems = [f"metadata.labkit has no {key!r}" for key in KEYS if key not in about]
    problems += [f"metadata.labkit has the unknown key {key!r}" for key in about if key not in KEYS]
    for key, kind in KEYS.items():
        if key in about and (not isinstance(about[key], kind) or isinstance(about[key], bool)):
            problems.append(f"metadata.labkit.{key} is {about[key]!r}")
    if not problems:
        if not 1 <= about["difficulty"] <= 5:
            problems.append(f"difficulty is {about['difficulty']}, not 1 to 5")
        if not 1 <= about["minutes"] <= 300:
            problems.append(f"minutes is {about['minutes']}")
        problems += [f"{key} is empty" for key in ("title", "after", "anchors") if not about[key]]
    return problems


def front_matter_text(about: dict[str, Any]) -> str:
    """The first cell of a notebook, written from its metadata."""
    if front_matter_problems(about):
        return f"# {about.get('title', '')}"
    after = "\n".join(f"- {line}" for line in about["after"])
    document = about["document"]
    if document != "none":
        document = f"{document}, sections: {about['sections']}"
    needs = ", ".join(f"`{name}`" for name in about["needs"]) or "nothing"
    anchors = ", ".join(_anchor_text(anchor) for anchor in about["anchors"])
    return (
        f"# {about['title']}\n\n"
        f"After this you can\n\n{after}\n\n"
        f"| | |\n|---|---|\n"
        f"| Time | about {about['minutes']} minutes |\n"
        f"| Difficulty | {about['difficulty']} of 5 |\n"
        f"| Document | {document} |\n"
        f"| Do first | {needs} |\n"
        f"| In PyTorch | {anchors} |"
    )


def _anchor_text(anchor: str) -> str:
    path, _, symbol = anchor.partition(" ")
    return f"`{path}`" + (f" (`{symbol}`)" if symbol else "")
