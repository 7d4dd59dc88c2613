"""Every failure a stranger may meet is provoked for real, and told with what to do about it."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from labkit.launcher import setup
from labkit.launcher.problem import Problem, install_failure
from tests.lab.tiny_backend import make_wheel

CAN_MOUNT = sys.platform == "linux" and os.geteuid() == 0


def told(result):
    """The last thing lab.py said, of a run that failed."""
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr[result.stderr.rindex("\nlab.py: ") :]


def test_no_network(project):
    with contextlib.closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        index = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        changes = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": index, "PIP_FIND_LINKS": ""}
        message = told(project.lab("setup", **changes, PIP_RETRIES="1"))
        silent = told(project.lab("setup", **changes, PIP_RETRIES="0"))  # pip gives no reason then
    assert "offers no version of torch==2.13.0 at all: it cannot be reached" in silent
    assert "No network: torch==2.13.0 could not be fetched" in message
    assert "What has arrived is kept." in message

    result = project.lab("setup")  # and with a network it goes on from there
    assert result.returncode == 0, result.stderr


def test_a_version_the_index_does_not_have(project, tmp_path):
    make_wheel(tmp_path, "torch", "2.14.0")
    message = told(project.lab("setup", PIP_FIND_LINKS=str(tmp_path)))
    assert "has no torch==2.13.0 that fits this Python and this machine" in message


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 40 MB."""
    if not CAN_MOUNT:
        pytest.skip("mounting a small disk needs root on Linux")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", disk], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("this container may not mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_fills_up(small_disk, wheels, tmp_path):
    from tests.lab.conftest import Project

    own = tmp_path / "wheels"
    own.mkdir()
    make_wheel(own, "torch", "2.13.0", files={"torch_data.bin": os.urandom(50_000_000)})
    project = Project(small_disk / "lab", own)
    # What is there already is not asked for its size again: only pip finds out.
    command = [sys.executable, "-m", "venv", "--without-pip", project.venv]
    subprocess.run(command, check=True, capture_output=True)
    message = told(project.lab("setup"))
    assert "The disk is full: torch==2.13.0 could not be written." in message
    assert "GB free for the lab" in message
    assert "free some space" in message


def test_a_disk_too_small_to_begin_with(small_disk, wheels):
    from tests.lab.conftest import Project

    project = Project(small_disk / "lab", wheels)
    message = told(project.lab("setup"))
    assert "The disk is too full: the environment needs 2.0 GB." in message
    assert "0.04 GB free for the lab" in message
    assert not project.venv.exists()


def test_a_disk_without_a_single_byte_left(small_disk, wheels):
    from tests.lab.conftest import Project

    project = Project(small_disk / "lab", wheels)
    with contextlib.suppress(OSError), (small_disk / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1_000_000))
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 512)
    assert "The disk is" in told(project.lab("setup"))


def test_a_folder_that_cannot_be_written(small_disk, wheels):
    from tests.lab.conftest import Project

    project = Project(small_disk / "lab", wheels)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    message = told(project.lab("setup"))
    assert f"{project.root / '.lab'} cannot be written: Read-only file system." in message
    assert "move the lab to a folder of your own" in message


def test_a_disk_too_small_wherever_tests_run(project, monkeypatch):
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda place: Usage)
    with pytest.raises(Problem, match=r"needs 2\.0 GB"):
        setup.make_venv(project.root, project.venv, None, lambda line: None)


class Usage:
    free = 1_000_000


def test_a_broken_venv_that_is_not_ours_is_left_alone(project):
    keepsake = project.venv / "bin" / "mine"
    keepsake.parent.mkdir(parents=True)
    keepsake.write_text("my work")
    message = told(project.lab("setup"))
    assert "has no Python that runs, and lab.py did not make it" in message
    assert f"rm -rf {project.venv}" in message
    assert keepsake.read_text() == "my work"


def test_a_venv_that_is_a_file(project):
    project.venv.write_text("")
    assert "is a file; the lab keeps its environment there" in told(project.lab("setup"))


def test_a_python_without_ensurepip(project, tmp_path):
    """Debian's python3 without python3-venv."""
    (tmp_path / "ensurepip.py").write_text("raise SystemExit('No module named ensurepip')")
    message = told(project.lab("setup", PYTHONPATH=str(tmp_path)))
    assert "comes without ensurepip" in message
    assert "apt install python3-venv" in message


def test_an_installer_that_fails_otherwise_is_quoted(tmp_path):
    problem = install_failure("torch", "some noise\nERROR: the wheel is odd\n", tmp_path)
    assert problem.what == "Installing torch failed: ERROR: the wheel is odd"


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("ERROR: [Errno 28] No space left on device", "The disk is full"),
        ("error: failed to copy file: No space left on device (os error 28)", "The disk is full"),
        ("WARNING: Retrying after ProxyError('Cannot connect to proxy.')", "No network"),
        ("  cause: dns error\n  cause: failed to lookup address information", "No network"),
        ("ERROR: No matching distribution found for torch==2.13.0", "The package index has no"),
        # Every retry fails before pip concludes that there is no version: the network it was.
        ("NewConnectionError\nERROR: No matching distribution found for torch", "No network"),
    ],
)
def test_what_pip_and_uv_say_is_understood(output, what, tmp_path):
    assert install_failure("torch", output, tmp_path).what.startswith(what)


def test_a_taken_port_is_told_before_anything_starts(finished):
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = told(finished.lab("--port", str(port)))
    assert f"Port {port} cannot be used: Address already in use." in message
    assert "choose another with --port" in message


def test_a_number_that_is_no_port(finished):
    assert "--port 70000 is not a port" in told(finished.lab("--port", "70000"))


def test_gpu_without_a_gpu_says_so_and_installs_nothing(project):
    assert "No NVIDIA GPU here" in told(project.lab("gpu"))
    assert not project.venv.exists()


@pytest.mark.parametrize("arguments", [("tset",), ("test", "--fast"), ("--port", "abc")])
def test_an_unknown_argument_is_refused_with_its_name(project, arguments):
    result = project.lab(*arguments)
    assert result.returncode == 2
    assert arguments[-1] in result.stderr
    assert not project.venv.exists()
