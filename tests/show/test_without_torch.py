"""A picture that shows nothing of PyTorch's does not load it: 57 MB instead of 238."""

import subprocess
import sys
from pathlib import Path

import pytest

SNAPSHOT = Path(__file__).parents[1] / "memory/fixtures/snapshots/train_mlp.pickle.gz"
PICTURES = {
    "memory": f"show.memory({str(SNAPSHOT)!r})",
    "strides": "show.strides(numpy.arange(6).reshape(2, 3).T)",
    "strides of labkit's": "show.strides(labkit.arange(6.0).reshape(2, 3).t())",
    "graph": "show.graph((labkit.ones(2, requires_grad=True) * 2).sum())",
}


@pytest.mark.parametrize("picture", PICTURES)
def test_torch_is_not_loaded(picture):
    code = f"import sys, numpy, labkit; from labkit import show; {PICTURES[picture]}"
    code += "; assert 'torch' not in sys.modules"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
