"""constraints.txt holds an exact version of everything that is installed, wherever the lab runs."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from labkit.launcher import requirements
from labkit.launcher.installer import CONSTRAINTS, TORCH
from tests.test_environment import CONDA_NAMES, ENVIRONMENT, admits, conda_ranges

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
LOCK = (ROOT / CONSTRAINTS).read_text(encoding="utf-8")
EXACT = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^@#]+)?")
MACHINES = [
    {
        "python_version": version,
        "python_full_version": f"{version}.{patch}",
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
        "platform_machine": machine,
    }
    for version, patch in (("3.11", 0), ("3.11", 9), ("3.12", 0), ("3.13", 0))
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lock, machine):
    """Name -> version of what the constraints say for one machine."""
    lines = [Requirement(line) for line in lock.splitlines() if not line.startswith("#")]
    return {
        line.name: Version(next(iter(line.specifier)).version)
        for line in lines
        if line.marker is None or line.marker.evaluate(machine)
    }


def drift(pyproject, lock):
    """Every requirement of the project that the constraints leave open or cannot meet."""
    project = tomllib.loads(pyproject)["project"]
    lines = {*project["dependencies"], *chain(*project["optional-dependencies"].values())}
    found = set()
    for machine in MACHINES:
        versions = pinned(lock, machine)
        for needed in map(Requirement, lines - {"labkit[test]"}):
            applies = needed.marker is None or needed.marker.evaluate(machine)
            version = versions.get(normal(needed.name))
            if applies and (version is None or not needed.specifier.contains(version)):
                found.add(f"{needed.name}: {version}")
    return sorted(found)


def test_every_line_is_a_name_and_an_exact_version():
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not EXACT.fullmatch(line)] == []


def test_what_the_project_asks_for_is_pinned_everywhere():
    assert drift(PYPROJECT, LOCK) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("\nnbval==0.11.0\n", "\n", "nbval: None"),
        ("\nnbval==0.11.0\n", "\nnbval==0.10.0\n", "nbval: 0.10.0"),
        ("\ncupy-cuda13x==14.2.0 ; sys_platform == 'linux'\n", "\n", "cupy-cuda13x: None"),
    ],
)
def test_injected_drift_is_found(before, after, expected):
    assert before in LOCK
    assert drift(PYPROJECT, LOCK.replace(before, after)) == [expected]


def test_a_requirement_that_is_raised_is_found():
    raised = PYPROJECT.replace('"numpy>=2.0"', '"numpy>=99"')
    assert [line.partition(":")[0] for line in drift(raised, LOCK)] == ["numpy"]


def test_torch_is_the_one_that_lab_py_installs():
    """Without a local version: `+cpu` or a CUDA build is the installer's choice, not the lock's."""
    assert {f"torch=={pinned(LOCK, machine)['torch']}" for machine in MACHINES} == {TORCH}
    assert f"\n{TORCH}\n" in LOCK


def test_what_is_needed_in_turn_is_pinned():
    """Down to the last requirement of a requirement, of the environment these tests run in."""
    names = set(pinned(LOCK, None)) | {"labkit"}
    waiting = [Requirement(line) for line in requirements.declared(ROOT, ("test",))]
    seen = set()
    while waiting:
        needed = waiting.pop()
        if normal(needed.name) in seen:
            continue
        seen.add(normal(needed.name))
        found = requirements.installed(needed.name)
        waiting += requirements.needs(found, needed) if found else []
    assert len(seen) > 80
    assert seen - names == set()


def test_conda_s_ranges_admit_the_same_versions():
    ranges = conda_ranges(ENVIRONMENT)
    versions = pinned(LOCK, MACHINES[0])
    shared = {CONDA_NAMES.get(name, name): version for name, version in versions.items()}
    apart = [
        f"{name}: {shared[name]}"
        for name in ranges.keys() & shared.keys()
        if not admits(ranges[name], str(shared[name]))
    ]
    assert len(ranges.keys() & shared.keys()) > 15
    assert apart == []
