"""The files of a program: its sources, and what they include of the learner's own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.cuda.errors import InvalidValueError
from labkit.cuda.source import edited

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclass(frozen=True)
class SourceFile:
    """One file, and what its include lines lead to.

    name       as given, or relative to this folder: how the compiler reports it
    includes   place in the text of each include line that leads to a file of the program
    """

    path: Path
    name: str
    text: str
    is_source: bool
    includes: tuple[tuple[int, int, Path], ...]

    @property
    def is_c(self) -> bool:
        """Whether it is C, and no C++."""
        return self.path.suffix == ".c"

    def with_includes(self, text: str, places: Mapping[Path, Path]) -> str:
        """The text, whose include lines lead to where those files have been written to."""
        targets = [target for _, _, target in self.includes]
        edits, left = [], list(targets)
        for match in _INCLUDE.finditer(text):
            written = match[2] or match[3]
            if left and _same_name(written, left[0]):
                start = match.end(1)
                edits.append((start, match.end(), f'"{places[left.pop(0)]}"'))
        return edited(text, edits)


def _same_name(written: str, path: Path) -> bool:
    return Path(written).name == path.name


def read_files(
    sources: Sequence[Path], directories: Sequence[Path], first: str | None = None
) -> tuple[SourceFile, ...]:
    """The sources and every file of the learner's that they include, each once.

    first   the text of the first source, if it is no file

    Raises   InvalidValueError   a source cannot be read
    """
    found: dict[Path, SourceFile] = {}

    def visit(path: Path, name: str, is_source: bool) -> None:
        real = path.resolve()
        if real in found:
            return
        try:
            typed = first if not found else None
            text = path.read_text(encoding="utf-8", errors="replace") if typed is None else typed
        except OSError as error:
            raise InvalidValueError(f"{path} cannot be read: {error.strerror}") from None
        includes = []
        for match in _INCLUDE.finditer(text):
            near = [path.parent] if match[2] else []
            target = _found(match[2] or match[3], [*near, *directories])
            if target is not None:
                includes.append((*match.span(), target.resolve()))
        found[real] = SourceFile(real, name, text, is_source, tuple(includes))
        for _, _, target in includes:
            visit(target, _shown(target), False)

    for source in sources:
        if source.suffix not in SOURCES:
            raise InvalidValueError(f"{source}: a source file ends in one of {', '.join(SOURCES)}")
        visit(source, str(source), True)
    return tuple(found.values())


def _found(name: str, directories: Sequence[Path]) -> Path | None:
    return next((d / name for d in directories if (d / name).is_file()), None)


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
