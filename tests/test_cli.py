"""`labkit`: every sub-command is where the table says, and the table costs nothing to read."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import cli

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_can_be_asked_for_help(command, capsys):
    module = importlib.import_module(cli.COMMANDS[command][0])
    assert callable(module.run)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"labkit {command}" in capsys.readouterr().out


def test_an_unknown_command_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["docter"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "docter" in message
    assert "doctor" in message


def test_help_and_doctor_import_no_torch():
    """They must work where torch is missing or broken."""
    program = """
import contextlib, io, sys
from labkit import cli, doctor
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main(["--help"])
print({"torch", "numpy", "IPython"} & set(sys.modules))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "set()\n"


@pytest.fixture
def command(monkeypatch, tmp_path):
    """A sub-command made for the test, run in a process of its own."""

    def start(body, **options):
        (tmp_path / "odd.py").write_text(f"def add_arguments(parser): pass\ndef run(_): {body}\n")
        program = (
            "import sys; from labkit import cli; cli.COMMANDS = {'odd': ('odd', '')}; "
            "sys.exit(cli.main(['odd']))"
        )
        environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        return subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True,
            **options,
        )  # fmt: skip

    return start


def test_a_reader_that_leaves_early_is_no_error(command):
    """As in `labkit conformance | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    process = command("print('x' * 100_000)", stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


def test_stopping_a_command_needs_no_traceback(command):
    process = command("raise KeyboardInterrupt")
    assert process.communicate(timeout=60)[1] == "\nlabkit: stopped\n"
    assert process.returncode == 130


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_failure(closed):
    program = (
        "import sys, types; from labkit import cli; fake = types.ModuleType('fake');"
        "fake.add_arguments = lambda parser: None; fake.run = lambda given: print('said') or 0;"
        "sys.modules['fake'] = fake; cli.COMMANDS['fake'] = ('fake', '');"
        "sys.exit(cli.main(['fake']))"
    )
    command = f'"$0" -c "$1" {closed}'
    shell = ["sh", "-c", command, sys.executable, program]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
