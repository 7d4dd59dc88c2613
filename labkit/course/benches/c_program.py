"""A learner's C text, compiled with a main of the checker's and run in a process of its own."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.core.host_compiler import compiler

COMPILE_SECONDS = 60
RUN_SECONDS = 10
"""Of CPU time; what waits for ever instead is ended by whoever runs the answer."""
MESSAGES = 3
FLAGS = (
    "-std=gnu11", "-O1", "-fwrapv", "-fmax-errors=5",
    "-fsigned-char", "-ffp-contract=off",  # the same answer on every processor
)  # fmt: skip

_folders: dict[tuple[tuple[str, str], ...], tempfile.TemporaryDirectory[str]] = {}


@dataclass(frozen=True)
class CRun:
    """What a program left: its output, and how it ended (0, or minus a signal's number)."""

    output: bytes
    status: int


class DoesNotCompile(Exception):
    """The compiler or the linker refuses; its first errors."""


def build(files: Mapping[str, str]) -> Path:
    """The program made of all the .c files; built once per process for the same texts.

    files   name -> text; headers are found beside the sources

    Raises   CompilerMissing   no C compiler
             DoesNotCompile    the compiler's words
             ValueError        a name that leaves the folder
    """
    key = tuple(sorted(files.items()))
    if key not in _folders:
        for name in files:
            if Path(name).name != name:
                raise ValueError(f"{name!r} is not a plain file name")
        command = [compiler("c"), *FLAGS]
        folder = tempfile.TemporaryDirectory(prefix="labkit-c-")
        for name, text in files.items():
            Path(folder.name, name).write_text(text, encoding="utf-8")
        sources = sorted(name for name in files if name.endswith(".c"))
        done = subprocess.run(
            limited(COMPILE_SECONDS, *command, "-o", "program", *sources, "-lm"),
            cwd=folder.name, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        if done.returncode != 0:
            folder.cleanup()
            raise DoesNotCompile(_first_errors(done.stderr))
        _folders[key] = folder
    return Path(_folders[key].name) / "program"


def run(program: Path, given: bytes) -> CRun:
    """The program, fed `given`; a crash or an endless loop ends that process only."""
    done = subprocess.run(limited(RUN_SECONDS, str(program)), input=given, capture_output=True)
    return CRun(done.stdout, done.returncode)


def limited(seconds: int, *command: str) -> list[str]:
    """The command with a limit on its CPU time: it ends with SIGXCPU."""
    return ["sh", "-c", 'ulimit -S -t "$0" && exec "$@"', str(seconds), *command]


def _first_errors(text: str) -> str:
    """The lines that say what is wrong; notes, carets and the linker's own path left out."""
    wanted = ("error:", "undefined reference", "multiple definition")
    lines = [line.strip() for line in text.splitlines() if any(word in line for word in wanted)]
    return "; ".join(lines[:MESSAGES]) or text[-300:]
