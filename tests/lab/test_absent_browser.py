"""Without Chromium, browser tests are skipped in sight; in CI their absence is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.doctor.tools import CHROMIUM_ON_MACOS

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(any(path.exists() for path in CHROMIUM_ON_MACOS), reason="macOS has its own")
@pytest.mark.parametrize(("ci", "status", "word"), [("true", 1, "ERROR"), ("", 0, "SKIPPED")])
def test_a_machine_without_chromium(tmp_path, ci, status, word):
    folder = ROOT / "tests" / "browser"
    command = [sys.executable, "-m", "pytest", folder / "test_harness.py", "-m", "browser"]
    result = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--confcutdir", folder],  # without torch
        env={"PATH": str(tmp_path), "HOME": os.environ["HOME"], "CI": ci},
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == status, result.stdout
    assert word in result.stdout
    assert "no Chromium" in result.stdout


def test_ci_sets_ci():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "export CI=true" in script
    assert script.rstrip().endswith("exec python3 lab.py test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
