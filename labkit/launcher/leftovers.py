"""Packages that look installed and are not: what a killed installer or a stray `rm` left behind."""

import base64
import csv
import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

VITAL = re.compile(r'(__init__\.py|\.so|\.dylib|\.so(\.\d+)+)"?,')
"""Lines of RECORD that name what a package cannot be imported without: few, so soon looked at."""
ANY = re.compile("")


def forget_half_installed(venv: Path, say: Callable[[str], None], thoroughly: bool = False) -> None:
    """No half-written package passes for an installed one: the installer will write it again.

    An installer copies a package's files first and INSTALLER and RECORD last. After a kill in
    between, the package's metadata is there, and "already satisfied" would be all it gets.

    thoroughly  every file is read, and its content compared with what was installed
    """
    for record_folder in record_folders(venv):
        if not is_whole(record_folder, thoroughly):
            say(f"  {record_folder.name.removesuffix('.dist-info')} was left half installed")
            shutil.rmtree(record_folder)


def record_folders(venv: Path) -> list[Path]:
    """Where each installed package says what was installed."""
    return sorted(venv.glob("lib/python*/site-packages/*.dist-info"))


def package_names(venv: Path) -> set[str]:
    """The installed packages, as their folders spell them."""
    return {folder.name.partition("-")[0] for folder in record_folders(venv)}


def missing_or_broken(venv: Path, names: set[str]) -> list[str]:
    """Those of the named packages that are gone or cannot be imported, from a look at few files."""
    whole = {
        folder.name.partition("-")[0] for folder in record_folders(venv) if is_importable(folder)
    }
    return sorted(names - whole)


def is_importable(record_folder: Path) -> bool:
    """True when the files a package cannot be imported without are there, in their sizes."""
    return all(
        is_as_recorded(record_folder.parent / name, size)
        for name, _, size in recorded(record_folder, VITAL)
    )


def is_whole(record_folder: Path, thoroughly: bool = False) -> bool:
    """True when every file in a package's RECORD is there, in its recorded size.

    thoroughly  and with its recorded content
    """
    if not (record_folder / "RECORD").is_file() or not (record_folder / "INSTALLER").is_file():
        return False
    return all(
        is_as_recorded(record_folder.parent / name, size, digest if thoroughly else "")
        for name, digest, size in recorded(record_folder)
    )


def recorded(record_folder: Path, wanted: re.Pattern[str] = ANY) -> list[list[str]]:
    """Name, digest and size of each installed file with a `wanted` line; none without RECORD."""
    try:
        with (record_folder / "RECORD").open(newline="", encoding="utf-8") as file:
            rows = csv.reader(line for line in file if wanted.search(line))
            return [row for row in rows if row and not row[0].endswith(".pyc")]
    except FileNotFoundError:
        return []


def is_as_recorded(path: Path, size: str, digest: str = "") -> bool:
    """True when the file is there; RECORD leaves the size and digest of a few files empty."""
    try:
        if size and path.stat().st_size != int(size):
            return False
        return not digest or digest == digest_of(path)
    except OSError:
        return False


def digest_of(path: Path) -> str:
    """The digest of a file in the words of RECORD."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").digest()
    return "sha256=" + base64.urlsafe_b64encode(found).rstrip(b"=").decode()
