"""The host's own C and C++ compiler: found, named when missing, and asked only once per source."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

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


def cache_directory() -> Path:
    """Where compiled files are kept: $LABKIT_CACHE, else labkit's folder in the user's cache."""
    chosen = os.environ.get("LABKIT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "labkit"


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
    path = compiler(language)
    command = [path, "-O1", "-fPIC", "-shared", *flags, "-x", language, "-"]
    key = "\n".join([*command, *libraries, source])
    target = cache_directory() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        half_done = target.with_suffix(f".{os.getpid()}")
        whole = [*command, "-x", "none", *libraries, "-o", str(half_done)]
        done = subprocess.run(whole, input=source, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(whole)}\n{done.stderr}")
        half_done.replace(target)
    return target
