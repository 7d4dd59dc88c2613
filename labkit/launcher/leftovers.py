"""A killed installer leaves packages that look installed and are not; find and forget them."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path


def forget_half_installed(venv: Path, say: Callable[[str], None]) -> None:
    """No half-written package passes for an installed one: the installer will write it again.

    An installer copies a package's files first and INSTALLER and RECORD last. After a kill in
    between, the package's metadata is there, and "already satisfied" would be all it gets.
    """
    for record_folder in sorted(venv.glob("lib/python*/site-packages/*.dist-info")):
        if not is_whole(record_folder):
            say(f"  {record_folder.name.removesuffix('.dist-info')} was left half installed")
            shutil.rmtree(record_folder)


def is_whole(record_folder: Path) -> bool:
    """True when every file in a package's RECORD is there, in its recorded size."""
    record = record_folder / "RECORD"
    if not record.is_file() or not (record_folder / "INSTALLER").is_file():
        return False
    with record.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].endswith(".pyc")]
    return all(is_as_recorded(record_folder.parent / name, size) for name, _hash, size in rows)


def is_as_recorded(path: Path, size: str) -> bool:
    """True when the file is there; RECORD leaves the size of a few files empty."""
    try:
        return not size or path.stat().st_size == int(size)
    except OSError:
        return False
