"""A notebook as text that is pleasant to edit, and back, with cell ids and outputs kept.

    # ---
    # title: Tensors
    # minutes: 60
    # ---
    # %% [markdown]
    # Prose, each line after "# " (or the whole cell inside triple quotes).
    # %% tags=["keep_output"]
    print(1)

The header is the front matter (`labkit.course.chapters.front_matter`), the first cell. A cell
that calls `check(...)` is tagged so, unless it is tagged as meant to fail. One that calls
`course.predict(...)` is tagged `predict`, one that calls `course.checked({...})` is tagged
`backstage` and with every claim it names; the source of both is hidden. A cell tagged `solution`
goes into the metadata of the exercise above it, and comes back when the notebook is exported.
"""

import difflib
import json
import re
from typing import Any

import yaml

from labkit.course.chapters.front_matter import KEYS, front_matter_text
from labkit.course.notebook_form import Cell, Notebook, canonical, tags

MARKER = re.compile(r"^# %%(?: \[(?P<kind>markdown|raw)\])?(?P<rest>.*)$")
TAGS = re.compile(r"tags=(\[.*?\])")
ID = re.compile(r'\bid="([^"]*)"')
CHECK = re.compile(r"^(?:\w+\s*=\s*)?(?:course\.)?check\(", re.MULTILINE)
PREDICT = re.compile(r"\bcourse\.predict\(")
CHECKED = re.compile(r"\bcourse\.checked\(")
CLAIM_ID = re.compile(r"[\"'](D\d-[\w.-]+)[\"']")


def from_text(text: str, before: Notebook | None = None) -> Notebook:
    """The notebook a text describes; ids and kept outputs come from `before` where cells match.

    Raises   ValueError   a header that is not YAML, a marker that cannot be read
    """
    header, body = _split_header(text)
    cells = [_cell(kind, rest, lines) for kind, rest, lines in _chunks(body)]
    metadata: dict[str, Any] = {"labkit": header} if header else {}
    if header:
        first = {"cell_type": "markdown", "metadata": {}, "source": front_matter_text(header)}
        cells.insert(0, {**first, "id": "front-matter"})
    cells = _solutions_put_away([cell for cell in cells if cell["source"].strip()])
    if before is not None:
        _inherit(cells, before["cells"])
    return canonical({"cells": cells, "metadata": metadata})


def to_text(notebook: Notebook) -> str:
    """The text of a notebook; reading it back gives the same notebook, outputs aside."""
    about = notebook["metadata"].get("labkit")
    parts = []
    if about:
        ordered = {key: about[key] for key in (*KEYS, *about) if key in about}
        header = yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=90)
        parts.append("\n".join(["# ---", *(f"# {x}" for x in header.splitlines()), "# ---"]))
    for index, cell in enumerate(_solutions_taken_out(notebook["cells"])):
        if about and index == 0 and cell["cell_type"] == "markdown":
            continue
        kind = "" if cell["cell_type"] == "code" else f" [{cell['cell_type']}]"
        marks = f" tags={json.dumps(tags(cell))}" if tags(cell) else ""
        lines = cell["source"].splitlines()
        if kind:
            lines = [f"# {line}".rstrip() for line in lines]
        identity = f' id="{cell["id"]}"' if "id" in cell else ""
        parts.append("\n".join([f"# %%{kind}{marks}{identity}", *lines]))
    return "\n\n".join(parts) + "\n"


def _solutions_put_away(cells: list[Cell]) -> list[Cell]:
    """The cells without solutions; each has gone into the stub of its exercise."""
    kept: list[Cell] = []
    for cell in cells:
        if "solution" not in tags(cell):
            kept.append(cell)
            continue
        stubs = [stub for stub in kept if "exercise" in tags(stub)]
        if not stubs:
            raise ValueError("a solution stands above the first exercise")
        stubs[-1]["metadata"]["solution"] = cell["source"].splitlines(keepends=True)
    return kept


def _solutions_taken_out(cells: list[Cell]) -> list[Cell]:
    """The cells with every put-away solution after the check of its exercise."""
    shown: list[Cell] = []
    waiting: list[Cell] = []
    for cell in cells:
        if "check" not in tags(cell):
            shown += waiting
            waiting = []
        shown.append(cell)
        if solution := cell["metadata"].get("solution"):
            source = "".join(solution)
            waiting = [
                {"cell_type": "markdown", "metadata": {"tags": ["solution"]}, "source": source}
            ]
        elif "check" in tags(cell):
            shown += waiting
            waiting = []
    return [*shown, *waiting]


def _split_header(text: str) -> tuple[dict[str, Any], list[str]]:
    lines = text.splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines or lines[0].strip() != "# ---":
        return {}, lines
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "# ---"), None)
    if end is None:
        raise ValueError("the header starts with '# ---' and never ends")
    try:
        header = yaml.safe_load("\n".join(line[2:] for line in lines[1:end]))
    except yaml.YAMLError as error:
        raise ValueError(f"the header is not YAML: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"the header holds {header!r}, not keys and values")
    if strange := [key for key in header if key not in KEYS]:
        raise ValueError(f"the header has the unknown keys {strange}")
    for key in header:
        if KEYS.get(key) is str:
            header[key] = str(header[key])  # "sections: 1.1" is text, whatever YAML thinks
    return header, lines[end + 1 :]


def _chunks(lines: list[str]) -> list[tuple[str, str, list[str]]]:
    chunks: list[tuple[str, str, list[str]]] = []
    for line in lines:
        marker = MARKER.match(line)
        if marker:
            chunks.append((marker["kind"] or "code", marker["rest"], []))
        elif chunks:
            chunks[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"text before the first '# %%': {line!r}")
    return chunks


def _cell(kind: str, rest: str, lines: list[str]) -> Cell:
    source = "\n".join(lines).strip("\n")
    if kind != "code":
        source = _prose(source)
    found = TAGS.search(rest)
    try:
        marks = list(json.loads(found[1])) if found else []
    except ValueError as error:
        raise ValueError(f"tags in '# %%{rest}' must be a list of strings: {error}") from error
    if kind == "code":
        if CHECK.search(source) and not {"exercise", "raises-exception"} & set(marks):
            marks += ["check", "raises-exception"]
        if PREDICT.search(source):
            marks.append("predict")
        if CHECKED.search(source):
            marks += ["backstage", *(f"claim:{found}" for found in CLAIM_ID.findall(source))]
    cell: Cell = {"cell_type": kind, "metadata": {}, "source": source}
    if marks:
        cell["metadata"]["tags"] = list(dict.fromkeys(marks))
    if identity := ID.search(rest):
        cell["id"] = identity[1]
    return cell


def _prose(source: str) -> str:
    stripped = source.strip()
    for quotes in ('"""', "'''"):
        if stripped.startswith((quotes, f"r{quotes}")) and stripped.endswith(quotes):
            return stripped.removeprefix("r")[3:-3].strip("\n")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines())


def _inherit(cells: list[Cell], old: list[Cell]) -> None:
    """Give each cell the id (and, when its text is unchanged, the output) of its old self."""
    matcher = difflib.SequenceMatcher(
        None,
        [(cell["cell_type"], cell["source"]) for cell in old],
        [(cell["cell_type"], cell["source"]) for cell in cells],
        autojunk=False,
    )
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind in ("equal", "replace"):  # a replaced run keeps its ids in order
            pairs = zip(old[old_from:old_to], cells[new_from:new_to], strict=False)
            for before, after in pairs:
                if before["cell_type"] == after["cell_type"]:
                    after.setdefault("id", before["id"])
                if kind == "equal" and "outputs" in before:
                    after["outputs"] = before["outputs"]
    by_id = {cell["id"]: cell for cell in old}
    for cell in cells:  # a cell moved with its id keeps its output too
        past = by_id.get(cell.get("id", ""))
        if past and past["source"] == cell["source"] and "outputs" in past:
            cell["outputs"] = past["outputs"]
