"""Killed at any moment: what was finished is there, nothing half has a final name, all has gone."""

import json
import subprocess
import sys

import pytest

from tests.pipeline.killed import SUBJECTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adopts the orphans of a process")


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_killed_program_leaves_what_it_finished_and_nothing_else(tmp_path, subject, kills):
    if subject == "job":
        pytest.importorskip("av", reason="PyAV, the extra `video`, is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killed", subject, tmp_path, str(kills), "0"],
        capture_output=True,
        text=True,
        timeout=60 + 6 * kills,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("killed") == kills
    assert kills < 200 or all(seen.values()), seen  # of so many, some came amid the work
