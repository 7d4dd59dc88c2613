"""The live torch.cuda allocator on a real card: the same random program, entry by entry."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labkit.memory.replay.exactly import replay_exactly
from labkit.memory.snapshots.trace import entries_of

PROGRAM = Path(__file__).with_name("live_program.py")
OLDER = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13)
SETTINGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "garbage_collection_threshold:0.5",
    "roundup_power2_divisions:4",
]


@pytest.mark.gpu
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_live_allocator_agrees(settings, seed, tmp_path):
    path = tmp_path / "live.pickle"
    subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), str(path)],
        check=True,
        timeout=300,
        env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings},
    )
    snapshot = pickle.loads(path.read_bytes())  # written by our own subprocess just now
    outcome = replay_exactly(
        snapshot,
        device_total=snapshot["total"],
        memory_fraction=0.02,
        orders_by_birth=not OLDER,
    )
    assert outcome.difference is None
    assert outcome.compared["trace entries"] == len(entries_of(snapshot)) > 1500
