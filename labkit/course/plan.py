"""The plan of the course: every chapter with what it needs, claims and asks."""

import functools
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("plan.yaml")


@functools.cache
def planned() -> dict[str, dict[str, Any]]:
    """Notebook name ("folder/name") -> its entry, in reading order."""
    entries: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return entries
