"""A Python that is too old, or too new, gets a sentence and a command, never a SyntaxError."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = ROOT / "lab.py"


def other_pythons():
    """Interpreters on this machine that lab.py has to turn away."""
    folders = [Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/homebrew/bin")]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    found = {}
    for path in (path for folder in folders for path in folder.glob("python[23].*")):
        match = re.fullmatch(r"python(\d+)\.(\d+)", path.name)
        if match and not (3, 11) <= tuple(map(int, match.groups())) <= (3, 13):
            found[path.name] = path
    return sorted(found.items())


@pytest.mark.parametrize("version", ["(2, 7, 18)", "(3, 6, 15)", "(3, 10, 13)", "(3, 14, 0)"])
def test_a_pretended_version_is_refused(version):
    program = f"""
import sys
sys.version_info, sys.argv = {version}, ["lab.py", "test"]
exec(open({str(LAB)!r}).read())
"""
    result = run([sys.executable, "-c", program])
    dotted = ".".join(re.findall(r"\d+", version))
    assert result.returncode == 1
    assert f"this is Python {dotted} (" in result.stderr
    assert "needs Python 3.11, 3.12 or 3.13" in result.stderr


@pytest.mark.parametrize(
    "python",
    [pytest.param(path, id=name) for name, path in other_pythons()]
    or [pytest.param(None, marks=pytest.mark.skip(reason="no Python to refuse on this machine"))],
)
def test_a_real_other_python_is_refused(python):
    result = run([python, LAB, "setup"])
    assert result.returncode == 1
    assert "lab.py: this is Python " in result.stderr
    assert "What to do: " in result.stderr
    assert "Error" not in result.stderr


def test_a_usable_python_on_this_machine_is_named(tmp_path):
    """But not one that is only a stub: it has to start."""
    (tmp_path / "python3.13").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 0\n")
    for name in ("python3.13", "python3.12"):
        (tmp_path / name).chmod(0o755)
    program = f"""
import os, sys
os.environ["PATH"], sys.version_info, sys.argv = {str(tmp_path)!r}, (3, 9, 2), ["lab.py", "test"]
exec(open({str(LAB)!r}).read())
"""
    assert "    python3.12 lab.py test\n" in run([sys.executable, "-c", program]).stderr


def test_the_launcher_is_read_only_after_the_version_check():
    """An import above the check would meet newer syntax in an older Python."""
    check, imports = None, []
    for position, node in enumerate(ast.parse(LAB.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.If) and check is None:
            check = position
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("labkit"):
            imports.append(position)
    assert imports
    assert all(position > check for position in imports)


def test_the_oldest_grammar_reads_it():
    ast.parse(LAB.read_text(encoding="ascii"), feature_version=(3, 4))


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
