"""Setting up from nothing, again, after a change, and after a kill."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest

from labkit.launcher.setup import STAMP
from tests.lab.conftest import PLAIN_PYTHON, PYPROJECT
from tests.lab.tiny_backend import make_wheel


def test_everything_is_installed_torch_first(finished):
    assert (finished.venv / STAMP).is_file()
    for name in ("torch", "tinydep", "labkit.launcher.cli"):
        assert finished.imports(name)


def test_a_second_time_nothing_is_done(finished):
    result = finished.lab("setup", PIP_FIND_LINKS="/nowhere")
    assert (result.returncode, result.stdout) == (
        0,
        "The lab is set up. Open it with: python3 lab.py\n",
    )


def test_a_new_requirement_is_added_and_the_rest_kept(finished):
    make_wheel(finished.wheels, "tinynew", "3.0")
    (finished.root / "pyproject.toml").write_text(
        PYPROJECT.replace('["torch', '["tinynew", "torch')
    )
    assert not finished.imports("tinynew")
    result = finished.lab("setup")
    assert result.returncode == 0, result.stderr
    assert "pyproject.toml, Python or this folder has changed" in result.stdout
    assert "Successfully installed labkit-0.1.0 tinynew-3.0" in result.stdout


@pytest.mark.parametrize("damage", ["RECORD", "INSTALLER", "file", "size"])
def test_what_a_kill_left_half_installed_is_written_again(finished, damage):
    (finished.venv / STAMP).unlink()
    (record_folder,) = finished.venv.glob("lib/*/site-packages/tinydep-1.0.dist-info")
    data = record_folder.parent / "tinydep_data.bin"
    {
        "RECORD": (record_folder / "RECORD").unlink,
        "INSTALLER": (record_folder / "INSTALLER").unlink,
        "file": data.unlink,
        "size": lambda: data.write_bytes(b"half"),
    }[damage]()
    result = finished.lab("setup")
    assert result.returncode == 0, result.stderr
    assert "tinydep-1.0 was left half installed" in result.stdout
    assert data.stat().st_size == 1000


def test_a_whole_package_is_not_written_again(finished):
    (finished.venv / STAMP).unlink()
    result = finished.lab("setup")
    assert result.returncode == 0
    assert "half installed" not in result.stdout
    assert "Successfully installed labkit-0.1.0\n" in result.stdout


def test_an_environment_whose_python_is_gone_is_made_again(finished):
    """As after an upgrade of the Python it was made with."""
    for link in finished.venv.glob("bin/python*"):
        link.unlink()
        link.symlink_to("/nowhere/python3")
    result = finished.lab("setup")
    assert result.returncode == 0, result.stderr
    assert "has no Python that runs: making it again" in result.stdout
    assert finished.imports("torch")


def test_a_moved_lab_is_set_up_for_its_new_place(finished):
    """Scripts in .venv/bin carry the old address."""
    elsewhere = finished.root.with_name("moved")
    shutil.move(finished.root, elsewhere)
    try:
        result = subprocess.run(
            [PLAIN_PYTHON, elsewhere / "lab.py", "setup"],
            env=finished.variables(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert "folder has changed" in result.stdout
    finally:
        shutil.move(elsewhere, finished.root)
        assert finished.lab("setup").returncode == 0


@pytest.fixture
def hanging(project, tmp_path):
    """A set-up that stands still in the middle of the second pip, and its first process."""
    sign = tmp_path / "installing"
    process = subprocess.Popen(
        [PLAIN_PYTHON, project.root / "lab.py", "setup"],
        env=project.variables(TINY_HANG=str(sign)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 240
    while not sign.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sign.exists()
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_second_set_up_waits_for_the_first_and_its_installer(project, hanging):
    os.kill(hanging.pid, signal.SIGKILL)  # its pip lives on, and still writes
    hanging.wait()
    second = subprocess.Popen(
        [PLAIN_PYTHON, project.root / "lab.py", "setup"],
        env=project.variables(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert second.stdout.readline().startswith("Another set-up is at work in this folder")
    assert second.poll() is None
    os.killpg(hanging.pid, signal.SIGKILL)
    output, _ = second.communicate(timeout=240)
    assert second.returncode == 0
    assert "Ready after" in output


def test_a_killed_set_up_resumes(project, hanging):
    os.killpg(hanging.pid, signal.SIGKILL)
    hanging.wait()
    assert project.imports("torch")
    assert not (project.venv / STAMP).exists()

    result = project.lab("setup")
    assert result.returncode == 0, result.stderr
    assert "Requirement already satisfied: torch==2.13.0" in result.stdout
    assert "Making an environment" not in result.stdout
    assert (project.venv / STAMP).is_file()
