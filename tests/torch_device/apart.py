"""Tests that run in a process of their own: naming the device changes PyTorch there for good."""

import functools
import importlib
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch

SETTINGS = {"LABKIT_CUDA": "emulator", "LABKIT_DEVICES": "2", "LABKIT_EMULATOR_MEMORY": "256"}
"""Of the environment: two devices of 256 MiB."""

_pool = None


def apart(body):
    """The test's body runs in the other process; nothing has fallen back there yet, and work runs
    in the order in which it was queued."""

    @functools.wraps(body)
    def test(**arguments):
        global _pool
        if _pool is None:
            spawned = multiprocessing.get_context("spawn")
            _pool = ProcessPoolExecutor(1, mp_context=spawned, initializer=_begin)
        try:
            _pool.submit(_run, body.__module__, body.__name__, arguments).result()
        except BrokenProcessPool:
            _pool = None
            raise

    return test


def end():
    """The other process is gone."""
    global _pool
    if _pool is not None:
        _pool.shutdown()
        _pool = None


def _begin():
    os.environ |= SETTINGS
    torch.set_num_threads(1)
    import labkit.torch_device  # noqa: F401


def _run(module, name, arguments):
    torch.lab.set_device(0)
    torch.lab.reset_fallbacks()
    for device in torch.lab._devices:
        device.driver.queue.reseed(None)  # a test may have tried other orders
    torch.manual_seed(0)
    getattr(importlib.import_module(module), name).__wrapped__(**arguments)


def in_a_process(program, *arguments):
    """How a fresh process ends that runs these lines: its status, and what it printed."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | SETTINGS,
        timeout=300,
    )
