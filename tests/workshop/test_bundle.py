"""A bundle holds the lab and wheels, and a lab with wheels asks for packages nowhere else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import cli
from labkit.course.notebook_form import ROOT
from labkit.launcher import cli as launcher
from labkit.launcher import installer
from labkit.launcher.environment import Environment
from labkit.workshop import bundle

IN_GIT = subprocess.run(["git", "-C", str(ROOT), "rev-parse"], capture_output=True).returncode == 0
needs_git = pytest.mark.skipif(not IN_GIT, reason="only a checkout is bundled")


@pytest.fixture
def commands(monkeypatch):
    """What pip was asked for; it delivers one wheel, at once."""
    asked = []

    def run(command, what, root, variables):
        asked.append(command)
        if "--dest" in command:
            wheels = Path(command[command.index("--dest") + 1])
            wheels.mkdir(exist_ok=True)
            (wheels / "one.whl").write_bytes(b"wheel")

    monkeypatch.setattr(bundle, "run_installer", run)
    monkeypatch.setattr(bundle, "Pip", lambda environment: None)
    return asked


@needs_git
def test_a_bundle_is_the_lab_with_wheels_of_all_that_it_needs(commands, tmp_path, capsys):
    box = tmp_path / "a box"
    assert cli.main(["workshop", "bundle", "--no-pages", str(box)]) == 0
    copied = {path.relative_to(box).as_posix() for path in box.rglob("*") if path.is_file()}
    assert copied == {*bundle.committed_files(ROOT), "wheels/one.whl"}
    assert "'" in capsys.readouterr().out.splitlines()[-3]  # the path can be pasted
    download, *others, trial = commands
    assert all("--python-version" in other for other in others)
    assert "--no-index" in trial
    for word in ("jupyterlab", "jupyterhub", "nbgrader", "hatchling", "torch==", "av"):
        assert any(line.startswith(word) for line in download), word
        assert any(line.startswith(word) for line in trial), word


def test_a_room_whose_python_has_another_patch_level_finds_its_wheels(tmp_path):
    (tmp_path / "constraints.txt").write_text(
        "# a comment\nalways==1\n"
        "soup==2.10 ; python_full_version < '3.11.5'\n"
        "soup==4.1 ; python_full_version >= '3.11.5'\n"
        "old==3 ; python_full_version < '3.11'\n"
        "nowhere==5 ; sys_platform == 'none'\n",
        encoding="utf-8",
    )
    for_others = bundle.for_other_patches
    assert for_others(tmp_path, "3.11.7") == {"3.11.0": ["soup==2.10"]}
    assert for_others(tmp_path, "3.11.2") == {"3.11.99": ["soup==4.1"]}
    assert for_others(tmp_path, "3.12.1") == {}


@needs_git
def test_a_folder_that_holds_something_is_left_as_it_is(commands, tmp_path, capsys):
    (tmp_path / "mine").touch()
    assert cli.main(["workshop", "bundle", str(tmp_path)]) == 1
    assert "holds something already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(bundle.Problem, match="is no git checkout"):
        bundle.committed_files(tmp_path)


def test_a_lab_with_wheels_installs_from_them_alone(tmp_path, monkeypatch):
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "https://elsewhere")
    monkeypatch.setattr(launcher, "has_gpu", lambda: True)
    asked = {}

    def ready(root, extras):
        asked["extras"] = extras
        asked["installer"] = installer.choose_installer(Environment(root, sys.executable), print)
        asked["environment"] = {
            k: launcher.os.environ[k] for k in ("PIP_NO_INDEX", "PIP_FIND_LINKS")
        }

    monkeypatch.setattr(launcher, "ready", ready)
    monkeypatch.setattr(installer.shutil, "which", lambda name: "/usr/bin/uv")
    assert launcher.main(str(tmp_path), ["setup"]) == 0
    assert set(bundle.EXTRAS) == {*asked["extras"]} - {"inspect"}
    assert isinstance(asked["installer"], installer.Pip)
    assert asked["environment"] == {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (tmp_path / "wheels").as_uri(),
    }  # fmt: skip


LOOPBACK_ALONE = """
import socket, sys
assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    sys.exit(0 if error.errno == 101 else f"it failed with {error}, not: network is unreachable")
sys.exit("there is a network")
"""


@pytest.mark.full
@needs_git
def test_a_room_without_internet_is_set_up_and_taught(tmp_path):
    """The machine of the room is a network namespace with loopback only, and its variables."""
    if os.geteuid() or not all(map(shutil.which, ("unshare", "ip"))):
        pytest.skip("needs root, unshare and ip")
    box = tmp_path / "a box"
    bundle.bundle(box, pages=False, say=lambda line: None)
    home = tmp_path / "home"
    home.mkdir()
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    log = (tmp_path / "log.txt").open("a+")

    def in_the_room(*command):
        inner = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", *map(str, command)]
        done = subprocess.run(
            ["unshare", "--net", "--", *inner], cwd=box, stdout=log, stderr=subprocess.STDOUT,
            env={"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        log.seek(0)
        assert done.returncode == 0, log.read()[-3000:]

    in_the_room(python, "-c", LOOPBACK_ALONE)
    in_the_room(python, "lab.py", "setup")
    taught = ("-m", "pytest", "-p", "no:nbval", "tests/workshop/test_room.py")
    in_the_room(box / ".venv" / "bin" / "python", *taught)
    log.seek(0)
    assert "skipped" not in log.read().splitlines()[-1]
