"""The one form in which a notebook is committed, so that a diff shows what changed and no more.

A fixed kernel, no widget state, known metadata only, cell ids that stay, and outputs only in cells
tagged `keep_output`, which `pytest --nbval` then compares. `labkit notebooks clean` writes it.
The source of cells tagged `predict` or `backstage` is hidden.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.course.chapters.front_matter import front_matter_text

Notebook = dict[str, Any]
Cell = dict[str, Any]

ROOT = Path(__file__).parents[2]
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CELL_METADATA = ("tags", "nbgrader", "slideshow", "editable", "deletable", "solution")
HIDDEN = ("predict", "backstage")
"""Tags of code cells whose source is hidden."""
VIEW = "application/vnd.jupyter.widget-view+json"
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def notebook_paths(folder: Path = ROOT / "notebooks") -> list[Path]:
    """The committed notebooks, in course order: numbers count as numbers."""
    found = [path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts]
    return sorted(found, key=lambda path: natural(path.relative_to(folder).as_posix()))


def notebook_name(path: Path, folder: Path = ROOT / "notebooks") -> str:
    """The notebook's name in the course: "1_fundamentals/3_tensors"."""
    return path.resolve().relative_to(folder.resolve()).with_suffix("").as_posix()


def natural(name: str) -> list[Any]:
    """A sorting key in which 10 comes after 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def read_notebook(path: Path) -> Notebook:
    """Return the notebook as plain dictionaries, sources as one text.

    Raises   ValueError   the file is no notebook of format 4
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from error
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise ValueError(f"{path} is not a notebook of format 4")
    for cell in notebook["cells"]:
        cell["source"] = _joined(cell["source"])
    return notebook


def write_notebook(notebook: Notebook, path: Path) -> None:
    """Write it in canonical form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(canonical(notebook)), encoding="utf-8")


def text_of(notebook: Notebook) -> str:
    """The file's text."""
    cells = [
        {**cell, "source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]
    ]
    whole = {**notebook, "cells": cells}
    return json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def tags(cell: Cell) -> list[str]:
    """The cell's tags."""
    return list(cell.get("metadata", {}).get("tags", []))


def canonical(notebook: Notebook) -> Notebook:
    """A copy in canonical form; doing it twice changes nothing more."""
    about = notebook["metadata"].get("labkit")
    metadata = {**KERNEL, **({"labkit": about} if about else {})}
    cells = [cell for cell in notebook["cells"] if _source(cell)]
    if about and cells and cells[0]["cell_type"] == "markdown":
        cells[0] = {**cells[0], "source": front_matter_text(about)}
    taken: set[str] = set()
    ordinal = 0
    clean = []
    for cell in cells:
        ordinal += cell["cell_type"] == "code"
        clean.append(_canonical_cell(cell, ordinal, taken))
    return {"cells": clean, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _source(cell: Cell) -> str:
    lines = _joined(cell["source"]).strip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _joined(source: str | list[str]) -> str:
    return "".join(source) if isinstance(source, list) else source


def is_hidden(cell: Cell) -> bool:
    """Whether readers see only what this cell puts out."""
    return cell["cell_type"] == "code" and any(tag in HIDDEN for tag in tags(cell))


def _canonical_cell(cell: Cell, ordinal: int, taken: set[str]) -> Cell:
    source = _source(cell)
    kept = {key: cell["metadata"][key] for key in CELL_METADATA if cell["metadata"].get(key)}
    if is_hidden(cell):
        kept["jupyter"] = {"source_hidden": True}
    clean = {
        "cell_type": cell["cell_type"],
        "id": unused_id(str(cell.get("id", "")), source, taken),
        "metadata": kept,
        "source": source,
    }
    if cell["cell_type"] == "code":
        keep = "keep_output" in tags(cell)
        outputs = [_canonical_output(o, ordinal) for o in cell.get("outputs", [])] if keep else []
        clean["outputs"] = outputs
        clean["execution_count"] = ordinal if outputs else None
    return clean


def unused_id(wanted: str, source: str, taken: set[str]) -> str:
    """The wanted id when it is valid and free, else one made from the text."""
    attempt, salt = wanted, 0
    while not CELL_ID.fullmatch(attempt) or attempt in taken:
        attempt = hashlib.sha256(f"{source}{salt}".encode()).hexdigest()[:8]
        salt += 1
    taken.add(attempt)
    return attempt


def _canonical_output(output: dict[str, Any], ordinal: int) -> dict[str, Any]:
    clean: dict[str, Any] = _masked({k: v for k, v in output.items() if k != "metadata"})
    if "data" in clean:
        clean["data"].pop(VIEW, None)
        clean["metadata"] = {}
    if "execution_count" in clean:
        clean["execution_count"] = ordinal
    return clean


def _masked(value: Any) -> Any:
    """Addresses differ in every run."""
    if isinstance(value, str):
        return ADDRESS.sub("0x0", value)
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


def claim_tags(cell: Cell) -> Iterator[str]:
    """The claim ids this cell proves or corrects."""
    return (tag.removeprefix("claim:") for tag in tags(cell) if tag.startswith("claim:"))
