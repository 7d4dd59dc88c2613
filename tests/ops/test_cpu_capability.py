"""The operators give PyTorch's numbers on any processor, whatever loops it has for PyTorch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labkit.ops import cpu_capability

ROOT = Path(__file__).parents[2]
SENSITIVE = [
    "tests/ops/test_cpu_capability.py",
    "tests/ops/test_distributions.py",
    "tests/nn/test_modules.py::test_a_layer_starts_from_pytorchs_numbers",
]  # fmt: skip


def test_the_loops_are_those_pytorch_takes():
    theirs = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    assert cpu_capability.takes_avx2() == theirs


def test_a_product_and_a_sum_round_as_pytorchs():
    generator = torch.Generator().manual_seed(5)
    x = torch.empty(1000, dtype=torch.float64).uniform_(0, 1, generator=generator)
    wanted = torch.empty(1000, dtype=torch.float64).uniform_(
        -0.7, 2.2, generator=generator.manual_seed(5)
    )
    found = cpu_capability.multiply_add(x.numpy(), 2.2 + 0.7, -0.7, "float64")
    assert (found == wanted.numpy()).all()


@pytest.mark.skipif("ATEN_CPU_CAPABILITY" in os.environ, reason="one is asked for: it is tested")
def test_the_sensitive_tests_pass_without_vectors():
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SENSITIVE],
        cwd=ROOT,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
