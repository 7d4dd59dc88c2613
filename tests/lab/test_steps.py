"""All steps run, whatever fails; the end says which failed, and what to count."""

import re
import sys
from pathlib import Path

import pytest

from labkit.launcher import cli, steps
from labkit.launcher.environment import Environment

ROOT = Path(__file__).parents[2]
GOOD = steps.Step("good", (("python", "-c", "print('from good', flush=True)"),))
BAD = steps.Step("bad", (("python", "-c", "raise SystemExit(3)"), ("python", "-c", "print('on')")))
NOTHING_FOUND = steps.Step("nothing", (("python", "-c", "raise SystemExit(5)"),))


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path, Path(sys.executable))


def test_a_failure_does_not_stop_the_rest(environment, capfd):
    assert steps.run_steps(environment, [BAD, GOOD]) == 1
    output = capfd.readouterr().out
    assert output.index("[1/2] bad") < output.index("on\n") < output.index("[1/2] FAILED after")
    assert output.index("[2/2] good") < output.index("from good") < output.index("[2/2] ok after")
    assert "exit 3: python -c raise SystemExit(3)" in output
    assert re.search(r"\n===== 1 failed, 1 passed in \d+\.\d\ds =====\n$", output)


def test_all_good_is_zero(environment, capfd):
    assert steps.run_steps(environment, [GOOD, GOOD]) == 0
    assert re.search(r"\n===== 2 passed in \d+\.\d\ds =====\n$", capfd.readouterr().out)


def test_a_step_that_finds_no_tests_fails(environment, capfd):
    assert steps.run_steps(environment, [NOTHING_FOUND]) == 1
    assert "exit 5 (found no tests)" in capfd.readouterr().out


def test_programs_of_the_environment_come_first(environment, capfd):
    where = steps.Step("where", (("python", "-c", "import os; print(os.environ['PATH'])"),))
    steps.run_steps(environment, [where])
    assert f"\n{Path(sys.executable).parent}:" in capfd.readouterr().out


def titles(*given):
    arguments, _ = cli.parse(list(given))
    return [step.title.partition(":")[0] for step in cli.steps_of(ROOT, arguments)]


def test_what_each_command_runs():
    assert titles("check") == ["check"]
    assert titles("gpu") == ["gpu", "notebooks", "bench"]
    everything = ["check", "unit", "conformance", "notebooks", "browser"]
    assert titles("test") == everything
    assert titles("test", "--all") == [*everything[:3], *everything[2:]]


def test_full_size_is_asked_for_by_all_only():
    arguments, _ = cli.parse(["test", "--all"])
    commands = [command for step in cli.steps_of(ROOT, arguments) for command in step.commands]
    sizes = [command[-1] for command in commands if "conformance" in command]
    assert sizes == ["small", "full"]


def test_unit_and_browser_share_no_test_and_leave_none_out():
    """One deselects what lies in the other's folder, and nothing is marked elsewhere."""
    assert steps.unit().commands[0][3:6] == ("tests", "-m", "not browser")
    assert steps.BROWSER.commands[0][3] == "tests/browser"
    for path in ROOT.glob("tests/**/*.py"):
        marks = "mark.browser" in path.read_text(encoding="utf-8")
        assert not marks or path.parent.name == "browser" or path == Path(__file__)


def test_notebooks_stay_on_one_worker_and_cannot_hang():
    solve, run = steps.notebooks(ROOT).commands
    assert solve[-2:] == ("solved", run[-1])
    assert "loadscope" in run
    assert "--nbval-cell-timeout=120" in run
