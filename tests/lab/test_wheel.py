"""What `pip install` of the wheel gives where there is no checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder of packages with what a wheel of this checkout holds, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "packages")
    return folder / "packages"


@pytest.fixture
def python(installed, tmp_path):
    """Run Python in an empty folder, where labkit is the wheel's."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(installed)}, check=False,
        )  # fmt: skip

    return run


def test_it_holds_whatever_is_not_python(installed):
    for name in ("kernels/lab.cuh", "conformance/fixtures/tutorial.json.gz", "widgets/base.js",
                 "widgets/base.css", "course/claims.yaml", "cuda/emulator/include/cuda.h",
                 "cuda/emulator/runtime/main.cpp"):  # fmt: skip
        assert (installed / "labkit" / name).is_file(), name
    files = {path.relative_to(ROOT) for path in (ROOT / "labkit").rglob("*") if path.is_file()}
    lacking = {path for path in files if "__pycache__" not in path.parts} - {
        path.relative_to(installed) for path in installed.rglob("*")
    }
    assert lacking == set()


def test_an_editable_install_copies_nothing(tmp_path, monkeypatch):
    """Else an edited kernel would lie there twice."""
    copied = []
    monkeypatch.setattr(
        WheelBuilder, "build_editable", lambda self, folder, **data: copied.append(data) or ""
    )
    list(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["editable"]))
    assert [data["force_include"] for data in copied] == [{}]


def test_a_kernel_of_the_shelf_is_traced(python, installed, tmp_path):
    (tmp_path / "mine.cu").write_text(
        '#include "lab.cuh"\n'
        'extern "C" __global__ void k(float* x) { x[threadIdx.x] = warp_reduce_sum(1.0f); }\n'
    )
    told = python("-m", "labkit", "trace", "mine.cu", "k", "--arg", "f32[32]")
    assert told.returncode == 0, told.stderr
    assert "0 findings" in told.stdout


def test_the_doctor_looks_round(python, installed):
    told = python("-m", "labkit", "doctor", "--json")
    assert told.returncode == 0, told.stderr
    found = {row["part"]: row for row in json.loads(told.stdout)["findings"]}
    assert found["packages"]["found"] == "installed as a wheel"


def test_conformance_finds_its_recordings(python):
    told = python(
        "-c",
        "from labkit.conformance import report\n"
        "first = next(report.run('allocator', seed=3, size='small'))\n"
        "print(first.passed, *(path.name for path in report.load('allocator').FIXTURES.iterdir()))",
    )
    assert told.stdout.startswith("True "), told.stdout + told.stderr
    assert "tutorial.json.gz" in told.stdout


def test_pictures_are_shown(python, installed):
    told = python(
        "-c",
        "import labkit, torch; from labkit import show; print(labkit.__file__)\n"
        "print(show.strides(torch.arange(6).view(2, 3)))",
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(str(installed))
    assert "StrideView(" in told.stdout
