"""Write constraints.txt: the exact version of every package, for each Python and system at once."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from labkit.launcher.environment import Environment
from labkit.launcher.installer import CONSTRAINTS, TORCH, run_installer
from labkit.launcher.problem import Problem, quoted

HEADER = """\
# The exact version of every package that lab.py installs, for Python 3.11 to 3.13 on Linux and
# macOS. `python3 lab.py lock` writes this file anew after a change of pyproject.toml, and keeps
# the versions that still fit; `python3 lab.py lock --all` takes the newest of every package.
"""
EXTRAS = ("test", "video", "gpu", "inspect", "workshop", "dev")


def refresh(environment: Environment, newest: bool, say: Callable[[str], None] = print) -> None:
    """constraints.txt fits pyproject.toml and the pinned torch.

    newest  also where the version that is there still fits

    Raises   Problem   there is no uv, the package index cannot be reached, or no versions fit
    """
    root, target = environment.root, environment.root / CONSTRAINTS
    uv = shutil.which("uv", path=environment.variables["PATH"])
    if uv is None:
        raise Problem(
            "uv is not installed; it alone resolves for every Python and system at once.",
            f"{quoted(environment.python)} -m pip install uv",
        )
    with tempfile.TemporaryDirectory() as folder:
        pinned, resolved = Path(folder, "torch.txt"), Path(folder, CONSTRAINTS)
        pinned.write_text(f"{TORCH}\n", encoding="utf-8")
        if not newest and target.is_file():
            shutil.copy(target, resolved)  # what uv finds in its output file, it keeps
        command = [
            uv, "pip", "compile", "pyproject.toml", str(pinned), "--universal", "--quiet",
            "--python-version", "3.11", "--no-annotate", "--no-header",
            *(f"--extra={extra}" for extra in EXTRAS), "--output-file", str(resolved),
        ]  # fmt: skip
        run_installer(command, CONSTRAINTS, root, environment.variables, stdout=subprocess.DEVNULL)
        lines = resolved.read_text(encoding="utf-8").splitlines(keepends=True)
    before = target.read_text(encoding="utf-8").splitlines() if target.is_file() else []
    target.write_text("".join([HEADER, *lines]), encoding="utf-8")
    changed = len(set(map(str.rstrip, lines)) - set(before))
    say(f"{CONSTRAINTS} has {len(lines)} packages, {changed} of them new or changed.")
