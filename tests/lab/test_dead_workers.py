"""A test process that dies: its test is named and run once, everything else runs, the run ends."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.remote import Producer

from labkit.launcher import steps
from tests.scopes import WholeFiles

ROOT = Path(__file__).parents[2]
DIES = "import os\ndef test_dies(): os.abort()\n"
RUNS = "def test_runs(): pass\n"


@pytest.mark.parametrize(
    ("files", "died"),
    [
        pytest.param([DIES, RUNS, RUNS, RUNS], 1, id="files of one test are left behind"),
        pytest.param([DIES], 1, id="nothing is left"),
        pytest.param([DIES, DIES], 2, id="both workers die"),
        pytest.param([RUNS + DIES + RUNS.replace("runs", "goes_on"), RUNS], 1, id="amid a file"),
        pytest.param([DIES, DIES, DIES, RUNS, DIES, RUNS], 4, id="one after another"),
    ],
)
def test_the_run_ends_and_names_the_test(files, died, tmp_path):
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", tmp_path, "-p", "no:cacheprovider",
         *steps.NO_NOTEBOOKS, *steps.parallel(2)],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
        # on a machine that builds, pytest's summary says the long message once more
        env={name: value for name, value in os.environ.items() if name != "CI"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    named = re.findall(
        r"worker 'gw\d' crashed while running '\S*(test_\d\.py::test_dies)'", done.stdout
    )
    assert sorted(named) == [
        f"test_{number}.py::test_dies" for number, text in enumerate(files) if "dies" in text
    ]
    passed = sum(text.count("pass\n") for text in files)
    counts = f"{died} failed" + (f", {passed} passed" if passed else "")
    assert re.search(rf"=+ {counts} in ", done.stdout), done.stdout[-2000:]


class _Worker:
    """A test process of pytest-xdist, as its scheduler knows it."""

    shutting_down = False
    config = None

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.sent = []
        self.dead = False

    def send_runtest_some(self, indices):
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.sent += indices

    def shutdown(self):
        self.shutting_down = True


def test_two_workers_died_and_the_first_is_told():
    tests = [f"test_{number}.py::test_dies" for number in range(5)] + ["test_5.py::test_runs"]
    first, second, fresh = _Worker("gw0"), _Worker("gw1"), _Worker("gw2")
    config = SimpleNamespace(
        getvalue=lambda name: ["2*popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler = WholeFiles(config, Producer("scheduler", enabled=False))
    scheduler.numnodes = 2
    for worker in (first, second):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    of_the_second = scheduler.assigned_work[second].copy()
    first.dead = second.dead = True

    died_of = [scheduler.remove_node(first)]
    scheduler.add_node(fresh)
    scheduler.add_node_collection(fresh, tests)
    scheduler.schedule()
    died_of.append(scheduler.remove_node(second))

    assert died_of == [tests[0], next(iter(of_the_second)) + "::test_dies"]
    for number in fresh.sent:  # grows while it is read: a test that ended calls for the next
        scheduler.mark_test_complete(fresh, number)
    assert sorted(fresh.sent) == [
        number for number, test in enumerate(tests) if test not in died_of
    ]
    assert fresh.shutting_down
