"""Interpreters: which one runs, which one is in .venv, and how to run a command with one."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """An interpreter that can run the lab, and where the lab lies."""

    root: Path
    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """The process environment in which `labkit` and `python` mean this interpreter's."""
        folder = str(self.python.parent)
        return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", "")}


def is_activated() -> bool:
    """True inside a virtual or conda environment, which the user then chose."""
    return sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir()


def in_venv(venv: Path) -> bool:
    """True when the running interpreter is .venv's own."""
    return Path(sys.prefix).resolve() == venv.resolve()


def python_version(python: Path) -> str | None:
    """The version of an interpreter, or None when it is not there or does not run."""
    ask = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        answer = subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
