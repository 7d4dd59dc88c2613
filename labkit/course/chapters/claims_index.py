"""`notebooks/claims_index.json` maps every claim to the notebook and cells that settle it."""

import json
from pathlib import Path
from typing import Any

from labkit.course.notebook_form import (
    ROOT,
    claim_tags,
    natural,
    notebook_name,
    notebook_paths,
    read_notebook,
)

INDEX = ROOT / "notebooks" / "claims_index.json"


def build_index() -> dict[str, dict[str, Any]]:
    """Claim id -> its notebook ("folder/name") and the ids of the cells tagged with it.

    Raises   ValueError   two notebooks own one claim
    """
    index: dict[str, dict[str, Any]] = {}
    for path in notebook_paths():
        notebook, name = read_notebook(path), notebook_name(path)
        cells: dict[str, list[str]] = {}
        for cell in notebook["cells"]:
            for claim_id in claim_tags(cell):
                cells.setdefault(claim_id, []).append(cell["id"])
        for claim_id in notebook["metadata"].get("labkit", {}).get("claims", []):
            if claim_id in index:
                other = index[claim_id]["notebook"]
                raise ValueError(f"{name} and {other} both own the claim {claim_id}")
            index[claim_id] = {"notebook": name, "cells": cells.get(claim_id, [])}
    return {claim_id: index[claim_id] for claim_id in sorted(index, key=natural)}


def index_text() -> str:
    """The file's text: one claim a line."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in build_index().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_index() -> Path:
    """Write the index file and return where it is."""
    INDEX.write_text(index_text(), encoding="utf-8")
    return INDEX


def index_problems() -> list[str]:
    """What is wrong with the committed index."""
    committed = INDEX.read_text(encoding="utf-8") if INDEX.exists() else ""
    if committed != index_text():
        return ["notebooks/claims_index.json is not current: labkit notebooks index"]
    return [f"claim {key} has no cell" for key, at in build_index().items() if not at["cells"]]
