"""The host's own C and C++ compiler: found, named when missing, and asked only once per source."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from labkit.core import compile_cache

Language = Literal["c", "c++"]
NAMES: dict[Language, tuple[str, ...]] = {
    "c": ("gcc", "clang", "cc"),
    "c++": ("g++", "clang++", "c++"),
}
VARIABLES: dict[Language, str] = {"c": "CC", "c++": "CXX"}


class CompilerMissing(RuntimeError):
    """No host compiler: says which were looked for and how to get one."""


def installed(language: Language) -> list[str]:
    """Paths of the host compilers for C or C++, $CC's and $CXX's first."""
    names = (os.environ.get(VARIABLES[language]), *NAMES[language])
    return [path for path in (shutil.which(name) for name in names if name) if path]


def compiler(language: Language) -> str:
    """Path of the host compiler for C or C++: the first that is installed.

    Raises   CompilerMissing   none is
    """
    found = installed(language)
    if not found:
        wanted = ", ".join((f"${VARIABLES[language]}", *NAMES[language]))
        raise CompilerMissing(
            f"this needs a {language.upper()} compiler; none of {wanted} was found. Install one:\n"
            "  Debian, Ubuntu   sudo apt install g++\n"
            "  Fedora           sudo dnf install gcc-c++\n"
            "  macOS            xcode-select --install\n"
            "  conda            conda install -c conda-forge cxx-compiler\n"
            f"or set {VARIABLES[language]} to where yours is."
        )
    return found[0]


def shared_library(
    name: str,
    source: str,
    language: Language,
    flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> Path:
    """The shared library of a source text, built unless this very text was built before.

    flags, libraries  for the compiler; libraries come after the source

    Raises   CompilerMissing   no host compiler
             RuntimeError      the compiler refuses; its words are passed on
    """
    command = [compiler(language), "-O1", "-fPIC", "-shared", *flags, "-x", language, "-"]

    def build(target: Path) -> None:
        whole = [*command, "-x", "none", *libraries, "-o", str(target)]
        run(whole, source)

    return compile_cache.kept(name, [*command, *libraries, source], build)


def run(command: Sequence[str], source: str = "") -> None:
    """A compiler has done what it was asked to; `source` is its standard input.

    Raises   RuntimeError   it refuses; its words are passed on
    """
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def compiles(source: str, *flags: str, language: Language = "c++") -> bool:
    """Whether the compiler takes the text; nothing is built, and a refusal says nothing.

    Raises   CompilerMissing   no host compiler
    """
    command = [compiler(language), "-fsyntax-only", *flags, "-x", language, "-"]
    try:
        run(command, source)
    except RuntimeError:
        return False
    return True


def load_library(find: Callable[[], Path]) -> ctypes.CDLL:
    """The library that `find` builds or finds in the cache, loaded into this process."""
    return compile_cache.loaded(find, lambda path: ctypes.CDLL(str(path)))
