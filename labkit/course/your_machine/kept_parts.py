"""The answers that passed, kept as files beside the progress: one readable module for each.

They lie in the folder `parts` beside the progress file: `parts/strides.view_strides.py`. The first
lines say which exercise it answers, when it passed, and a digest of the text below. A file whose
text does not fit its digest is no part: it has been edited, or was damaged. Nothing is pickled, and
nothing of a file runs before its digest fits.
"""

import ast
import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from labkit.course import exercises, progress_file
from labkit.course.checking.reach import held
from labkit.course.exercise import Exercise
from labkit.course.your_machine.written_down import written_down

HEAD = re.compile(
    r"# part: (?P<exercise>\S+)\n# chapter: (?P<chapter>\S+)\n# passed: (?P<passed>\S+)\n"
    r"# labkit: (?P<version>\S+)\n# sha256: (?P<digest>[0-9a-f]{64})\n\n"
)
_in_memory: dict[tuple[str, str], str] = {}
"""(folder, exercise) -> text, where there is no file: progress is off, or the disk is full."""


class Refused(Exception):
    """A kept file is no part; the message says why."""


@dataclass(frozen=True)
class Part:
    """An answer that passed.

    text    the module, without the lines that say where it comes from
    passed  the day, as 2026-11-22
    file    where it is kept; None in memory
    """

    exercise: str
    chapter: str
    passed: str
    text: str
    file: Path | None = None

    def load(self) -> Any:
        """The answer itself: a function, a class, or a tuple of them.

        Raises   Refused   it imports or holds what its exercise forbids, or does not run
        """
        exercise = exercises.find(self.exercise)
        _check_imports(exercise, self.text)
        name = str(self.file or f"<{self.exercise}>")
        space: dict[str, Any] = {"__name__": f"part of {self.exercise}", "__file__": name}
        try:
            exec(compile(self.text, name, "exec"), space)
            answer = space["answer"]
        except Exception as error:
            raise Refused(f"it does not run: {type(error).__name__}: {error}") from error
        libraries = {root for root in _roots(exercise) if root in ("torch", "numpy")}
        if libraries and (found := held(answer, libraries)):
            raise Refused(f"it holds {found}, which its exercise forbids")
        return answer


def folder() -> Path | None:
    """Where parts are kept; None when they are only in memory."""
    file = progress_file.path()
    return None if file is None else file.parent / "parts"


def keep(exercise: Exercise, answer: Any) -> Part:
    """The answer is kept, in place of an earlier one; in memory where no file can be written.

    Raises   CannotBeKept   it cannot be written down
             Refused        it imports what its exercise forbids
    """
    text = written_down(answer)
    _check_imports(exercise, text)
    chapter = exercises.notebook_of(exercise.id.partition(".")[0])
    part = Part(exercise.id, chapter, date.today().isoformat(), text)
    where = folder()
    if where is None or not write(where / f"{exercise.id}.py", with_head(part)):
        _in_memory[str(where), exercise.id] = with_head(part)
    else:
        _in_memory.pop((str(where), exercise.id), None)
    return kept(exercise.id) or part


def kept(exercise_id: str) -> Part | None:
    """The part of an exercise; None where there is none.

    Raises   Refused   the file is damaged, or was edited since it passed
    """
    where = folder()
    text = _in_memory.get((str(where), exercise_id))
    file = None if text is not None or where is None else where / f"{exercise_id}.py"
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{file.name} cannot be read: {error}") from error
    return None if text is None else _understood(exercise_id, text, file)


def _understood(exercise_id: str, text: str, file: Path | None) -> Part:
    head = HEAD.match(text)
    if head is None:
        raise Refused("its first lines do not say what it is")
    if head["exercise"] != exercise_id:
        raise Refused(f"it is the part of {head['exercise']}")
    body = text[head.end() :]
    if _digest(body) != head["digest"]:
        raise Refused("its text is not the one that passed: it was edited or damaged")
    return Part(exercise_id, head["chapter"], head["passed"], body, file)


def forget(exercise_id: str | None) -> None:
    """The part of this exercise is gone, with the cases it failed on; or all of them."""
    where = folder()
    for key in [key for key in _in_memory if exercise_id in (None, key[1])]:
        del _in_memory[key]
    if where is not None:
        for ending in ("py", "cases"):
            for file in where.glob(f"{exercise_id or '*'}.{ending}"):
                with contextlib.suppress(OSError):
                    file.unlink()


def with_head(part: Part) -> str:
    return (
        f"# part: {part.exercise}\n# chapter: {part.chapter}\n# passed: {part.passed}\n"
        f"# labkit: {metadata.version('labkit')}\n# sha256: {_digest(part.text)}\n\n{part.text}"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def write(file: Path, text: str) -> bool:
    """All of the new file is there, or all of the old one; False where it cannot be written."""
    name = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=".part-", delete=False, encoding="utf-8",
            errors="backslashreplace", newline="\n",
        ) as temporary:  # fmt: skip
            name = Path(temporary.name)
            temporary.write(text)
            temporary.flush()
            os.fsync(temporary.fileno())
        name.replace(file)
    except OSError:
        if name is not None:
            with contextlib.suppress(OSError):
                name.unlink()
        return False
    return True


def _check_imports(exercise: Exercise, text: str) -> None:
    """Return when the text imports nothing that the exercise forbids.

    Raises   Refused   it does, or is no Python
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"it is no Python: {error}") from error
    forbidden = _roots(exercise) | {"importlib"}
    for name in _imported(tree):
        if name.partition(".")[0] in forbidden:
            raise Refused(f"it imports {name}, which its exercise forbids")


def _roots(exercise: Exercise) -> set[str]:
    """Libraries that are out of the answer's reach as a whole; labkit always is."""
    whole = {name.removesuffix(".*") for name in exercise.banned if name.endswith(".*")}
    return {"labkit"} | {name for name in whole if "." not in name}


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
        elif isinstance(node, ast.Name) and node.id == "__import__":
            yield "importlib"
