"""The kernels that run the notebooks start with libraries loaded, and with nothing of labkit's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm_kernels

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not warm_kernels.CAN, reason="kernels are forked on Linux only")
def test_a_notebook_has_to_import_what_it_uses_of_labkit():
    ask = "import sys, tests.warm_kernels as warm; print(*warm.IMPORTED, *sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name for name in answer.stdout.split() if name.partition(".")[0] == "labkit"}
    forks = ["labkit.workshop.cell.keeper", "labkit.workshop.cell.kernels"]
    assert loaded == {"labkit", "labkit.workshop", "labkit.workshop.cell", *forks}
