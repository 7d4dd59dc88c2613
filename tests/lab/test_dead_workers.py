"""A test process that dies: its test is named and run once, everything else runs, the run ends."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.launcher import steps

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
