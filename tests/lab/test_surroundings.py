"""Streams that are closed, a reader that leaves, no home, spaces in paths: told or survived."""

import signal
import subprocess

import pytest

from labkit.launcher.problem import quoted
from tests.lab.conftest import PLAIN_PYTHON, Project

DONE = "The lab is set up. Open it with: python3 lab.py\n"


def shell(project, command, **changes):
    """Run a line of shell in which `lab` is lab.py; HOME=None takes the variable away."""
    variables = {k: v for k, v in project.variables(**changes).items() if v is not None}
    script = f'lab() {{ "{PLAIN_PYTHON}" "{project.root}/lab.py" "$@"; }}; {command}'
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", script],
        env=variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_failure(finished, closed):
    result = shell(finished, f"lab setup {closed}")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_set_up_with_every_stream_closed_writes_into_no_file_of_its_own(finished):
    (finished.root / "pyproject.toml").touch()
    (finished.venv / "lab-is-ready").unlink()
    result = shell(finished, "lab setup >&- 2>&- <&-")
    assert result.returncode == 0
    assert (finished.root / ".lab" / "setup.lock").read_bytes() == b""
    assert finished.lab("setup", PIP_FIND_LINKS="/nowhere").stdout == DONE


def test_a_reader_that_has_seen_enough_gets_no_traceback(finished):
    result = shell(finished, "lab --help | true")
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("home", ["/nowhere/at/all", "/dev/null", "relative"])
def test_a_home_that_cannot_be_written_to_is_replaced(finished, home):
    result = finished.lab("setup", HOME=home)
    own = finished.root / ".lab" / "home"
    assert result.returncode == 0, result.stderr
    assert f"HOME, {home}, cannot be written to: settings and caches go to {own}." in result.stdout
    assert own.stat().st_mode & 0o777 == 0o700


def test_without_home_the_user_s_own_is_taken(finished):
    result = shell(finished, "lab setup", HOME=None)
    assert (result.returncode, result.stderr) == (0, "")


def test_what_is_to_be_typed_can_be_pasted(tmp_path, wheels):
    project = Project(tmp_path / "a lab; here", wheels)
    project.venv.write_text("")
    result = project.lab("setup")
    assert result.returncode == 1
    assert f"What to do: rm {quoted(project.venv)}" in result.stderr
    assert quoted(project.venv) == f"'{project.venv}'"
