"""The folder of a workshop: the course as it was when the workshop began, and each learner's part.

course/          labkit, the kernels and the notebooks without solutions: read, never written
compiled/        kernels that the teacher's own runs have compiled: learners need not
said/            where the teacher has called everybody to: read by all
learners/ana/    her notebooks, progress, settings and compiled kernels: hers alone
hub/             what the hub must remember, and its log: its owner's alone
"""

import contextlib
import json
import os
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.core import compile_cache
from labkit.course.chapters.editions import leaks, student
from labkit.course.notebook_form import ROOT, notebook_paths, read_notebook, text_of
from labkit.cuda.emulator.build import worker_program
from labkit.cuda.errors import CudaError
from labkit.workshop.cell.walls import Cell
from labkit.workshop.roster import Person

PARTS = ("labkit", "kernels", "tests/memory/fixtures")
"""What the notebooks read: the last are recorded snapshots."""
COMPILED_BYTES = 32 << 20


@dataclass(frozen=True)
class Workshop:
    """A workshop's folder and what was asked for when it was started."""

    root: Path

    @property
    def course(self) -> Path:
        """The frozen course."""
        return self.root / "course"

    @property
    def compiled(self) -> Path:
        """Kernels that are compiled already."""
        return self.root / "compiled"

    @property
    def called(self) -> Path:
        """Where the room goes on."""
        return self.root / "said" / "call.json"

    @property
    def hub(self) -> Path:
        """What the hub keeps."""
        return self.root / "hub"

    @property
    def roster(self) -> Path:
        """Who is in the room."""
        return self.hub / "roster.json"

    @property
    def warm(self) -> Path:
        """The socket of the warm process."""
        return self.hub / "warm"

    def of(self, name: str) -> Path:
        """One learner's part."""
        return self.root / "learners" / name

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for."""
        read: dict[str, Any] = json.loads((self.hub / "settings.json").read_text(encoding="utf-8"))
        return read


def prepare(workshop: Workshop, settings: dict[str, Any]) -> None:
    """The folder is there and the course frozen; one that is there stays as it is."""
    workshop.hub.mkdir(parents=True, exist_ok=True)
    workshop.hub.chmod(0o700)
    for folder in (workshop.root / "learners", workshop.called.parent):
        folder.mkdir(exist_ok=True)
    text = json.dumps(settings, indent=1)
    (workshop.hub / "settings.json").write_text(text, encoding="utf-8")
    if not workshop.course.exists():
        half_done = workshop.root / "course.new"
        shutil.rmtree(half_done, ignore_errors=True)
        release(half_done)
        for name in PARTS:
            shutil.copytree(ROOT / name, half_done / name, ignore=_no_caches)
        half_done.rename(workshop.course)
    if not workshop.compiled.exists():
        _copy_compiled(workshop.compiled)


def _copy_compiled(target: Path) -> None:
    """The emulator, built now, and what the teacher has compiled: the newest, as far as it fits."""
    target.mkdir()
    try:
        emulator = worker_program()
        cache = compile_cache.open_directory()
    except (CudaError, compile_cache.Unusable):
        return  # no compiler here, or nowhere to keep what it makes
    found: dict[Path, os.stat_result] = {}
    for entry in (emulator, *cache.iterdir()):
        with contextlib.suppress(FileNotFoundError):  # another process is at work there
            found[entry] = entry.stat()
    room = COMPILED_BYTES
    for entry in sorted(found, key=lambda path: (path != emulator, -found[path].st_mtime)):
        room -= found[entry].st_size
        if room > 0 and stat.S_ISREG(found[entry].st_mode):
            with contextlib.suppress(FileNotFoundError):
                Path(shutil.copy2(entry, target)).chmod(0o755)  # learners copy it


_no_caches = shutil.ignore_patterns("__pycache__", "*.pyc")


def release(target: Path) -> list[Path]:
    """The notebooks without a line of their solutions lie in `target`/notebooks.

    Raises   ValueError   an edition would show a line of a solution
    """
    written = []
    for path in notebook_paths():
        notebook = read_notebook(path)
        text = text_of(student(notebook))
        if found := leaks(notebook, text):
            raise ValueError(f"{path.name} would show a line of its solution: {found[0]!r}")
        out = target / path.relative_to(ROOT)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        written.append(out)
    return written


def provide(workshop: Workshop, person: Person) -> Path:
    """The person's folder is there with the notebooks; one that is there stays as it is."""
    home = workshop.of(person.name)
    if not home.exists():
        half_done = home.with_name(f".{person.name}.new")
        shutil.rmtree(half_done, ignore_errors=True)
        half_done.mkdir(parents=True)
        shutil.copytree(workshop.course / "notebooks", half_done / "notebooks")
        shutil.copytree(workshop.compiled, half_done / ".cache" / "labkit" / compile_cache.COMPILED)
        if own_users():
            for path in (half_done, *half_done.rglob("*")):
                os.chown(path, person.user, person.user)
        half_done.chmod(0o700)
        half_done.rename(home)
    return home


def own_users() -> bool:
    """Whether each learner is a user of the machine of their own: only root can arrange it."""
    return os.geteuid() == 0


def cell_of(workshop: Workshop, person: Person, memory: int) -> Cell:
    """What the person's programs see."""
    home = str(workshop.of(person.name))
    course = str(workshop.course)
    return Cell(
        user=person.user if own_users() else None,
        hidden=(str(workshop.root),),
        seen=(*dict.fromkeys((sys.base_prefix, sys.prefix)), course, str(workshop.called.parent)),
        own=(home,),
        notebooks=(f"{home}/notebooks", f"{course}/notebooks"),
        memory=memory,
    )
