"""The doctor sees what is there, what is missing and what is broken, on machines made to order."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import cuda, doctor
from labkit.doctor import examine
from labkit.doctor.examine import EMULATES
from labkit.doctor.report import Finding, Report

ROOT = Path(__file__).parents[1]
WORKING_TORCH = """
__version__ = "2.13.0+cpu"
class version: cuda = None
class cuda: is_available = staticmethod(lambda: False)
"""

CUPY = """
__version__ = "14.2.0"
class cuda:
    class runtime: getDeviceCount = staticmethod(lambda: {devices})
"""
EMULATOR = "emulator" if EMULATES else None  # on other systems nothing stands in for a card


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def here():
    return doctor.report()


def packages_imported(source):
    """The names that a piece of code imports, packages before what is in them."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)]
    names = {alias.name for statement in statements for alias in statement.names}
    return sorted({name.partition(".")[0] for name in names} | names)


class Machine:
    """A PATH and a set of importable packages of our making, and the doctor run on them."""

    def __init__(self, folder):
        self.programs, self.packages = folder / "bin", folder / "packages"
        self.programs.mkdir()
        self.packages.mkdir()
        self.python = sys.executable
        self.package("torch", WORKING_TORCH)  # the real ones take seconds to import
        for name in packages_imported(examine.IMPORTS):
            self.package(name, "")

    def package(self, name, source, version=None):
        """A package of that source; "a.b" is a package in another one."""
        folder = self.packages.joinpath(*name.split("."))
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(source, encoding="utf-8")
        if version:
            record = self.packages / f"{name}-{version}.dist-info"
            record.mkdir()
            (record / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")

    def program(self, name, script):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def examine(self, **variables):
        """The doctor's exit status, driver and findings by part."""
        result = subprocess.run(
            [self.python, "-m", "labkit", "doctor", "--json"],
            env={"PATH": str(self.programs), "HOME": os.environ["HOME"], **variables}
            | {"PYTHONPATH": f"{self.packages}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.stdout, result.stderr
        answer = json.loads(result.stdout)
        findings = {row["part"]: Finding(**row) for row in answer["findings"]}
        return result.returncode, answer["driver"], findings


def test_this_machine_runs_the_lab(here):
    assert here.lab_runs
    assert here["PyTorch"].status == here["packages"].status == "ok"
    assert {finding.part for finding in here} >= {"Python", "GPU", "CuPy", "NVRTC", "Chromium"}
    assert "no sandbox" in here["others' files"].meaning
    assert here['device="lab"'].status == here['device="cuda"'].status


def test_a_python_without_torch_is_told(machine, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    machine.python = tmp_path / "bare" / "bin" / "python"
    (machine.packages / "torch" / "__init__.py").unlink()
    (machine.packages / "torch").rmdir()
    status, _, findings = machine.examine()
    assert status == 1
    assert (findings["PyTorch"].status, findings["packages"].status) == ("missing", "missing")
    assert findings["PyTorch"].remedy == "python3 lab.py setup"
    assert findings['device="lab"'].remedy == "python3 lab.py setup"


def test_a_torch_that_cannot_be_imported_is_broken(machine):
    machine.package("torch", "raise ImportError('libtorch_cpu.so: cannot open shared object')")
    status, _, findings = machine.examine()
    assert (status, findings["PyTorch"].status) == (1, "broken")
    assert "libtorch_cpu.so: cannot open" in findings["PyTorch"].found


def test_a_torch_that_crashes_is_survived(machine):
    machine.package("torch", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    status, _, findings = machine.examine()
    assert (status, findings["PyTorch"].status) == (1, "broken")
    assert "signal 11" in findings["PyTorch"].found


def test_a_package_that_is_installed_and_cannot_be_imported_is_broken(machine):
    machine.package("jupyterlab", "raise ImportError('no libzmq.so')")
    status, _, findings = machine.examine()
    assert (status, findings["packages"].status) == (1, "broken")
    assert "no libzmq.so" in findings["packages"].found
    assert findings["packages"].remedy == "python3 lab.py repair"


def test_an_import_that_does_not_end_is_given_up(machine, monkeypatch):
    monkeypatch.setattr(examine, "PATIENCE", 1)
    assert examine.ask("while True: pass") == (None, "the import did not end in 1 s")


def test_a_remedy_can_be_pasted_whatever_the_path(machine, tmp_path):
    folder = tmp_path / "two words"
    folder.mkdir()
    machine.program("g++", "exit 1")
    clang = machine.program("clang++", "echo clang version 19.1.7").rename(folder / "clang++")
    path = f"{machine.programs}{os.pathsep}{folder}"
    _, _, findings = machine.examine(PATH=path)
    assert findings["C++ compiler"].remedy == f"export CXX='{clang}'"


def test_without_a_compiler_kernels_cannot_run_and_the_lab_still_opens(machine):
    status, driver, findings = machine.examine()
    assert (status, driver) == (0, None)
    assert findings["C++ compiler"].status == findings['device="cuda"'].status == "missing"
    assert findings['device="lab"'].status == "missing"
    assert findings['device="lab"'].remedy == findings["C++ compiler"].remedy
    assert "g++" in findings["C++ compiler"].remedy or "xcode" in findings["C++ compiler"].remedy


def test_a_compiler_that_only_answers_version_is_broken(machine):
    machine.program(
        "g++", 'test "$1" = --version && exit; echo "x.cpp: error: no <vector>" >&2; exit 1'
    )
    _, driver, findings = machine.examine()
    assert driver is None
    assert findings["C++ compiler"].status == "broken"
    assert "error: no <vector>" in findings["C++ compiler"].found


def test_a_working_compiler_behind_a_broken_one_is_pointed_at(machine):
    """The emulator takes the first; CXX chooses."""
    machine.program("g++", "exit 1")
    clang = machine.program("clang++", "echo clang version 19.1.7")
    _, driver, findings = machine.examine()
    assert (driver, findings["C++ compiler"].remedy) == (None, f"export CXX={clang}")
    _, driver, findings = machine.examine(CXX=str(clang))
    assert driver == EMULATOR
    assert "clang version 19.1.7" in findings["C++ compiler"].found


def test_the_driver_is_the_one_that_labkit_takes(here):
    assert here.driver == cuda.device().kind


@pytest.mark.parametrize(("wish", "expected"), [("emulator", EMULATOR), ("gpu", "cupy")])
def test_a_wish_decides_between_the_two(machine, wish, expected):
    machine.program("nvidia-smi", "echo 'NVIDIA H200, 580.159.03, 143771 MiB'")
    machine.program("g++", "echo g++ 12.2.0")
    machine.package("cupy", CUPY.format(devices=1), version="14.2.0")
    assert machine.examine(LABKIT_CUDA=wish)[1] == expected


def test_a_wish_for_a_gpu_that_is_not_there_is_told(machine):
    machine.program("g++", "echo g++ 12.2.0")
    _, driver, findings = machine.examine(LABKIT_CUDA="gpu")
    assert driver is None
    assert "unset LABKIT_CUDA" in findings['device="cuda"'].remedy


def test_a_card_with_cupy_serves_cuda(machine):
    machine.program("nvidia-smi", "echo 'NVIDIA H200, 580.159.03, 143771 MiB'")
    machine.package("cupy", CUPY.format(devices=1), version="14.2.0")
    status, driver, findings = machine.examine()
    assert (status, driver) == (0, "cupy")
    assert findings["GPU"].found == "NVIDIA H200, driver 580.159.03, 143771 MiB"
    assert findings["CuPy"].found == "14.2.0, 1 device(s)"


def test_a_card_without_cupy_is_served_by_the_emulator(machine):
    machine.program("nvidia-smi", "echo 'NVIDIA H200, 580.159.03, 143771 MiB'")
    machine.program("g++", "echo g++ 12.2.0")
    _, driver, findings = machine.examine()
    assert driver == EMULATOR
    assert "'.[gpu]'" in findings["CuPy"].remedy


def test_a_cupy_that_cannot_be_imported_is_broken(machine):
    machine.program("nvidia-smi", "echo 'NVIDIA H200, 580.159.03, 143771 MiB'")
    machine.package("cupy", "raise ImportError('libcudart.so.13')", version="14.2.0")
    _, driver, findings = machine.examine()
    assert (driver, findings["CuPy"].status) == (None, "broken")
    assert "libcudart.so.13" in findings["CuPy"].found


def test_the_cache_is_named_with_its_state(machine, tmp_path):
    _, _, findings = machine.examine(LABKIT_CACHE=str(tmp_path / "mine"))
    assert findings["compile cache"].status == "ok"
    assert findings["compile cache"].found == f"{tmp_path / 'mine'}, 0 files, 0.0 MB"
    (tmp_path / "file").touch()
    status, _, findings = machine.examine(LABKIT_CACHE=str(tmp_path / "file"))
    assert (status, findings["compile cache"].status) == (0, "broken")
    assert findings["compile cache"].found == f"{tmp_path / 'file'} is not a folder"
    assert "LABKIT_CACHE" in findings["compile cache"].remedy


def test_chromium_missing_found_or_not_starting(machine):
    _, _, findings = machine.examine()
    assert findings["Chromium"].status in {"missing", "ok"}  # macOS keeps it outside PATH
    path = machine.program("my-chromium", "echo Chromium 156.0")
    _, _, findings = machine.examine(LABKIT_CHROMIUM=str(path))
    assert findings["Chromium"].found == f"Chromium 156.0 ({path})"
    _, _, findings = machine.examine(LABKIT_CHROMIUM=str(machine.programs / "nothing-here"))
    assert findings["Chromium"].status == "broken"


REPORT = Report(
    (
        Finding("PyTorch", "ok", "2.13.0 <cpu>", "The oracle.", required=True),
        Finding("NVRTC", "missing", "not installed", "No PTX & no SASS.", "pip install it"),
    ),
    "emulator",
)


def test_the_table_escapes_what_it_shows():
    table = REPORT._repr_html_()
    assert "2.13.0 &lt;cpu&gt;" in table
    assert "No PTX &amp; no SASS." in table
    assert table.count("<tr>") == 3


def test_the_text_names_cost_and_cure_of_what_is_missing():
    text = str(REPORT)
    assert "+ PyTorch  2.13.0 <cpu>" in text
    assert "- NVRTC    not installed" in text
    assert "No PTX & no SASS." in text
    assert "Get it: pip install it" in text


def test_one_line_says_what_to_get():
    assert repr(REPORT) == 'Report(2 parts, device="cuda" by emulator, to get: NVRTC)'


def test_an_unknown_part_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="no part 'numpy'; there are PyTorch, NVRTC"):
        REPORT["numpy"]
