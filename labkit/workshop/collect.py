"""`labkit workshop release` and `collect`: notebooks handed out, and what became of them."""

import os
import stat
from pathlib import Path

from labkit.course.notebook_form import notebook_name, notebook_paths
from labkit.workshop.folders import Workshop
from labkit.workshop.roster import TEACHER, read_roster

LARGEST = 16 << 20


def collect(workshop: Workshop, out: Path) -> dict[str, list[str]]:
    """Each learner's notebooks lie in `out`/<name>; returns the chapters that are there, by name.

    A notebook that is a link, or that is reached through one, is nobody's work and stays behind.
    """
    course = workshop.course / "notebooks"
    chapters = [notebook_name(path, course) for path in notebook_paths(course)]
    found = {}
    for name in sorted(set(read_roster(workshop.roster)) - {TEACHER}):
        found[name] = [
            chapter
            for chapter in chapters
            if _copy(workshop.of(name) / "notebooks", f"{chapter}.ipynb", out / name)
        ]
    return found


def _copy(notebooks: Path, file: str, target: Path) -> bool:
    source = notebooks / file
    work = own_bytes(source)
    if work is None:
        return False
    copy = target / file
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(work)
    return True


def own_bytes(source: Path) -> bytes | None:
    """What a plain file holds; None for anything else, and for one that links lead to."""
    try:
        if source.parent.resolve(strict=True) != source.parent:
            return None
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        held = os.fstat(descriptor)
        if not stat.S_ISREG(held.st_mode) or held.st_nlink > 1 or held.st_size > LARGEST:
            return None
        return opened.read(LARGEST)
