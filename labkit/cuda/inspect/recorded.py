"""What NVIDIA's compiler made of the few sources that lessons show, for where it is not installed.

`python -m labkit.cuda.inspect.recorded FILE.cu` adds a source of one's own; without a file every
recording is made anew by the NVRTC and nvdisasm that are installed.
"""

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from labkit.cuda.errors import CompileError
from labkit.cuda.inspect.compiled import AsmLine, Resources
from labkit.cuda.inspect.nvrtc import compile_source
from labkit.cuda.source import KERNELS

FOLDER = KERNELS / "recorded"
ARCH = "sm_90"


@dataclass(frozen=True)
class Recorded:
    """A source as it was compiled elsewhere: what `Compiled` says of it, as far as lessons ask."""

    compiler: str
    kernels: dict[str, Resources]
    ptx: tuple[AsmLine, ...]
    sass: tuple[AsmLine, ...]
    why_no_sass: str = ""

    def ptx_lines(self) -> list[AsmLine]:
        """The PTX of the kernels, each line with the source line it comes from."""
        return list(self.ptx)

    def sass_lines(self) -> list[AsmLine]:
        """The SASS of the kernels, each instruction with the source line it comes from."""
        return list(self.sass)


def place_of(source: str, arch: str) -> Path:
    """The file that holds the recording of a source, if there is one."""
    return FOLDER / f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.{arch}.json"


def find(source: str, arch: str, names: Sequence[str], options: Sequence[str]) -> Recorded | None:
    """The recording of this source, None where there is none.

    Raises   CompileError   the compiler refused the source when it was recorded
    """
    place = place_of(source, arch)
    if names or options or not place.is_file():
        return None
    held = json.loads(place.read_text(encoding="utf-8"))
    if "error" in held:
        raise CompileError(held["error"])
    kernels = {name: Resources(**used) for name, used in held["kernels"].items()}
    return Recorded(held["compiler"], kernels, _read(held["ptx"]), _read(held["sass"]))


def record(source: str, path: str, arch: str = ARCH) -> str:
    """The whole text of the recording of a source.

    Raises   NvrtcMissingError   there is no compiler to ask
             CompileError        there is no disassembler to ask
    """
    held: dict[str, Any] = {"source": source, "path": path}
    try:
        made = compile_source(source, arch, path=KERNELS / path)
    except CompileError as error:
        held["error"] = str(error).replace(f"{KERNELS}/", "")
        return _text(held)
    held["compiler"] = made.compiler
    held["kernels"] = {name: dataclasses.asdict(used) for name, used in made.kernels.items()}
    held["ptx"] = _written(made.ptx_lines())
    held["sass"] = _written(made.sass_lines())
    return _text(held)


def _text(held: dict[str, Any]) -> str:
    lines = [f"{json.dumps(name)}: {_rows(value)}" for name, value in held.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(value: Any) -> str:
    """A list with an item a line, anything else on one."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"


def _written(lines: Sequence[AsmLine]) -> list[list[Any]]:
    """[kernel, source line, what was made of it] in order; blanks that only align are left out."""
    runs = groupby(lines, key=lambda one: (one.kernel, one.line))
    return [[*key, "\n".join(re.sub(r" {2,}", " ", one.text) for one in run)] for key, run in runs]


def _read(runs: Sequence[Sequence[Any]]) -> tuple[AsmLine, ...]:
    return tuple(
        AsmLine(text, kernel, line) for kernel, line, texts in runs for text in texts.split("\n")
    )


def main(files: Sequence[str]) -> None:
    """Write the recordings of these files, or all of them again."""
    if files:
        for path in map(Path, files):
            inside = path.resolve().is_relative_to(KERNELS)
            name = str(path.resolve().relative_to(KERNELS)) if inside else "kernel.cu"
            _write(path.read_text(encoding="utf-8"), name, ARCH)
        return
    for place in FOLDER.glob("*.json"):
        held = json.loads(place.read_text(encoding="utf-8"))
        _write(held["source"], held["path"], place.suffixes[0][1:])


def _write(source: str, path: str, arch: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    place_of(source, arch).write_text(record(source, path, arch), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
