"""All steps run, whatever fails; the end says which failed, and what to count."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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


def test_what_one_python_has_compiled_serves_the_others(environment, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    says = "import sys; print('writes', not sys.dont_write_bytecode)"
    assert steps.run_steps(environment, [steps.Step("says", (("python", "-c", says),))]) == 0
    assert "writes True" in capfd.readouterr().out


def test_steps_beside_run_at_the_same_time_and_are_shown_afterwards(environment, tmp_path, capfd):
    """The first goes on when the other has begun; what they print is not mixed."""
    wait = "import sys, time, pathlib; print('begins', flush=True); sign = pathlib.Path('begun')"
    front = f"{wait}\nwhile not sign.exists(): time.sleep(0.01)\nprint('ends')"
    back = f"{wait}; sign.touch(); print('complains', file=sys.stderr)"
    steps_in_front = [steps.Step("front", (("python", "-c", front),)), BAD]
    beside = [steps.Step("back", (("python", "-c", back),)), BAD]
    assert steps.run_steps(environment, steps_in_front, beside) == 1
    output = capfd.readouterr().out
    marks = [
        *("[1/4] front", "begins", "ends", "[1/4] ok", "[2/4] bad", "[2/4] FAILED"),
        *("[3/4] back", "begins", "complains", "[3/4] ok", "[4/4] bad", "[4/4] FAILED", "Summary"),
    ]
    found = [line for line in output.splitlines() if line.startswith(tuple(marks))]
    assert [line.startswith(mark) for line, mark in zip(found, marks, strict=True)] == [True] * 13
    assert "2 failed, 2 passed" in output


def test_what_is_beside_does_not_go_on_after_an_interruption(environment, monkeypatch):
    begun, submitted = [], []

    class Pool(ThreadPoolExecutor):
        def submit(self, *given):
            submitted.append(super().submit(*given))
            return submitted[-1]

    def interrupted(*given):
        raise KeyboardInterrupt

    def aside(environment, step, number):
        begun.append(step)
        deadline = time.monotonic() + 240
        while not any(each.cancelled() for each in submitted) and time.monotonic() < deadline:
            time.sleep(0.01)

    monkeypatch.setattr(steps, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(steps, "run_step", interrupted)
    monkeypatch.setattr(steps, "run_step_aside", aside)
    with pytest.raises(KeyboardInterrupt):
        steps.run_steps(environment, [GOOD], [GOOD, BAD])
    assert submitted[1].cancelled() and BAD not in begun


def run_by(*given):
    arguments, _ = cli.parse(list(given))
    return cli.steps_of(ROOT, arguments)


def titles(*given):
    return [[step.title.partition(":")[0] for step in side] for side in run_by(*given)]


def test_what_each_command_runs():
    assert titles("check") == [["check"], []]
    assert titles("gpu") == [["gpu", "notebooks", "bench"], []]
    beside = ["conformance", "notebooks", "browser"]
    assert titles("test") == [["check", "unit"], beside]
    assert titles("test", "--all") == [["check", "unit"], ["conformance", *beside]]


@pytest.mark.parametrize(("options", "sizes"), [([], ["small"]), (["--all"], ["small", "full"])])
def test_full_size_is_asked_for_by_all_only(options, sizes):
    (_, unit), beside = run_by("test", *options)
    commands = [command for step in beside for command in step.commands]
    assert [command[-1] for command in commands if "conformance" in command] == sizes
    assert ("not full" in unit.commands[0][5]) == ("full" not in sizes)


def test_unit_and_browser_share_no_test_and_leave_none_out():
    """One deselects what lies in the other's folder, and nothing is marked elsewhere."""
    assert steps.unit("full").commands[0][3:6] == ("tests", "-m", "not browser")
    assert steps.unit("small").commands[0][3:6] == ("tests", "-m", "not browser and not full")
    assert steps.BROWSER.commands[0][3] == "tests/browser"
    for path in ROOT.glob("tests/**/*.py"):
        marks = "mark.browser" in path.read_text(encoding="utf-8")
        assert not marks or path.parent.name == "browser" or path == Path(__file__)


def test_notebooks_stay_on_one_worker_and_cannot_hang():
    solve, run = steps.notebooks(ROOT).commands
    assert solve[-2:] == ("solved", run[-1])
    assert "loadscope" in run
    assert "--nbval-cell-timeout=600" in run  # a first cell may build the emulator, under load
    assert "tests.warm_kernels" in run


def test_files_that_wait_come_first_and_then_files_of_many_tests(tmp_path):
    """What waits long is not left to the end, where the other worker would be idle."""
    elsewhere = "exec(compile('def test_made(): pass\\ndef test_too(): pass', 'made.py', 'exec'))\n"
    number_of_tests = {"test_a": 2, "test_b": 3, "lab/test_c": 1, "workshop/test_d": 2}
    for name, number in number_of_tests.items():
        file = tmp_path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"def test_{i}(): pass\n" for i in range(number))
        text += elsewhere if name == "test_a" else ""
        file.write_text(text + "def test_full(): pass\n", encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    given = list(steps.unit("small").commands[0])
    given[given.index("-m", 2) : given.index("-m", 2) + 2] = ["-k", "not full"]
    given[given.index("-n") + 1] = "1"
    done = subprocess.run(
        [sys.executable, *given[1:], "-v", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    run = re.findall(r"PASSED tests/(\S*)\.py", done.stdout)
    assert run == [*["workshop/test_d"] * 2, "lab/test_c", *["test_a"] * 4, *["test_b"] * 3]
