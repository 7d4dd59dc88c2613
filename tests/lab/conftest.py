"""A project as small as can be, with lab.py's own launcher, set up from wheels made on the spot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.tiny_backend import make_wheel

ROOT = Path(__file__).parents[2]
PLAIN_PYTHON = getattr(sys, "_base_executable", sys.executable)  # not in a virtual environment
PYPROJECT = """
[build-system]
requires = []
build-backend = "tiny_backend"
backend-path = ["."]

[project]
name = "labkit"
version = "0.1.0"
dependencies = ["torch>=2.11,<2.14", "tinydep>=1"]

[project.optional-dependencies]
test = ["packaging"]
gpu = []
video = []
"""


class Project:
    """A folder with lab.py in it, and a way to run lab.py as a stranger would."""

    def __init__(self, root, wheels):
        self.root, self.wheels = root, wheels
        self.venv = root / ".venv"
        self.programs = root.parent / f"{root.name}-bin"
        self.programs.mkdir()
        (root / "labkit").mkdir(parents=True)
        shutil.copy(ROOT / "lab.py", root)
        shutil.copy(Path(__file__).with_name("tiny_backend.py"), root)
        shutil.copy(ROOT / "labkit" / "__init__.py", root / "labkit")
        shutil.copytree(ROOT / "labkit" / "launcher", root / "labkit" / "launcher")
        (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
        (root / "constraints.txt").write_text("tinydep==1.0\n", encoding="utf-8")

    def variables(self, **changes):
        """The process environment: nothing of this machine's pip settings gets through."""
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        return kept | {
            "PATH": str(self.programs),
            "HOME": str(self.root.parent),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_CACHE_DIR": "1",
            "PYTHONPATH": str(self.wheels),  # see `provide_pip`
            **changes,
        }

    def lab(self, *arguments, python=PLAIN_PYTHON, **changes):
        """Run lab.py; its exit status, stdout and stderr."""
        return subprocess.run(
            [python, str(self.root / "lab.py"), *arguments],
            env=self.variables(**changes),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def program(self, name, script):
        """Put a shell script on the project's PATH."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def imports(self, name):
        """True when the project's environment can import a module."""
        command = [self.venv / "bin" / "python", "-c", f"import {name}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "torch", "2.13.0")
    files = {
        "tinydep_data.bin": bytes(1000),
        "tinydep_parts/__init__.py": b"PARTS = 3\n",
        "tinydep_parts/fast.so": bytes(100),
    }
    make_wheel(folder, "tinydep", "1.0", files=files)
    make_wheel(folder, "tinydep", "2.0")
    make_wheel(folder, "packaging", "26.0")
    provide_pip(folder)
    return folder


def provide_pip(folder):
    """An `ensurepip` that copies what the real one, which takes 5 s of CPU, has made once."""
    subprocess.run(
        [PLAIN_PYTHON, "-m", "venv", folder / "with-pip"], check=True, capture_output=True
    )
    (record,) = (folder / "with-pip").glob("lib/*/site-packages/pip-*.dist-info/RECORD")
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    # The scripts in bin hold the address of this folder.
    record.write_text("".join(line for line in lines if "/bin/" not in line), encoding="utf-8")
    packages = [str(record.parent), str(record.parent.with_name("pip"))]
    (folder / "ensurepip.py").write_text(
        "import os, shutil, sysconfig\n"
        f"for package in {packages}:\n"
        "    target = os.path.join(sysconfig.get_path('purelib'), os.path.basename(package))\n"
        "    shutil.copytree(package, target, dirs_exist_ok=True)\n",
        encoding="utf-8",
    )


@pytest.fixture
def project(tmp_path, wheels):
    return Project(tmp_path / "lab", wheels)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, wheels):
    """A project that has been set up; a test that damages it must leave it set up again."""
    project = Project(tmp_path_factory.mktemp("finished") / "lab", wheels)
    result = project.lab("setup")
    assert result.returncode == 0, result.stdout + result.stderr
    return project
