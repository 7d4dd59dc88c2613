"""An activated environment is used when it satisfies pyproject.toml, all the way down."""

import sys
from pathlib import Path

import pytest

from labkit.launcher import environment, requirements, setup

ROOT = Path(__file__).parents[2]


@pytest.fixture
def activated(monkeypatch):
    """In a virtual environment other than the lab's own."""
    monkeypatch.setattr(setup, "in_venv", lambda venv: False)
    monkeypatch.setattr(setup, "is_activated", lambda: True)


@pytest.fixture
def project(tmp_path):
    """A folder whose pyproject.toml asks for what the test wants."""

    def make(*lines):
        (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = {list(lines)}\n")
        (tmp_path / "constraints.txt").touch()
        return tmp_path

    return make


def test_this_environment_satisfies_this_project():
    assert requirements.unmet(ROOT, ("test",)) == []


def test_an_activated_environment_that_satisfies_is_used(activated, monkeypatch):
    monkeypatch.setattr(setup, "make_venv", None)  # to call it would raise
    said = []
    found = setup.ready(ROOT, ("test",), said.append)
    assert found == environment.Environment(ROOT, Path(sys.executable))
    assert said == [f"Using the Python you are in: {sys.executable}"]


def test_an_activated_environment_that_does_not_is_named_with_its_lack(
    activated, monkeypatch, project
):
    root, said = project("numpy>=2", "no-such-package>=3"), []
    monkeypatch.setattr(setup, "make_venv", lambda *arguments: None)
    monkeypatch.setattr(setup, "install", lambda *arguments: (root / ".venv").mkdir())
    found = setup.ready(root, (), said.append)
    assert found.python == root / ".venv" / "bin" / "python"
    assert f"{sys.prefix}, which you are in, lacks 2 things the lab needs," in said
    assert "  no-such-package>=3: not installed" in said


def test_another_checkout_s_labkit_does_not_count(project):
    root = project("numpy")
    assert requirements.unmet(root, ()) == [f"labkit from {root}"]


def test_a_version_out_of_range_is_told_with_both(project):
    (_, line) = requirements.unmet(project("numpy<1"), ())
    assert line.startswith("numpy<1: ")
    assert line.endswith(" is installed")


def test_a_requirement_of_a_requirement_is_looked_at(project, tmp_path, monkeypatch):
    record = tmp_path / "packages" / "outer-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(
        "Name: outer\nVersion: 1.0\nProvides-Extra: fast\n"
        "Requires-Dist: inner>=2\n"
        'Requires-Dist: faster; extra == "fast"\n'
        'Requires-Dist: never; python_version < "3"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    lacking = requirements.unmet(project("outer"), ())
    assert "inner>=2 (for outer): not installed" in lacking
    assert not any("faster" in line or "never" in line for line in lacking)
    lacking = requirements.unmet(project("outer[fast]"), ())
    assert 'faster; extra == "fast" (for outer): not installed' in lacking
