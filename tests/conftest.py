"""What every test folder shares: a test that needs a GPU is seen to be skipped without one."""

import gc
import os
import sys

import pytest
import torch

# What runs on every machine is tested on the emulator everywhere; tests marked gpu take the card.
os.environ.setdefault("LABKIT_CUDA", "emulator")

# jsonschema, and with it nbformat, does without where this is not there; else it builds 38 parsers
# in every test process, two seconds of CPU, for a format of text that no notebook has.
sys.modules.setdefault("rfc3987_syntax", None)

# Ten thousand collected tests are a heap that the collector would walk over and over.
gc.set_threshold(50_000, 20)


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="no CUDA device here")
        for item in items:
            if item.get_closest_marker("gpu"):  # keywords hold the names of folders as well
                item.add_marker(skip)


@pytest.fixture(scope="session")
def emulated_device():
    """One emulated device for the whole run; tests leave it as they found it."""
    from labkit.cuda.emulator.driver import EmulatorDriver

    return EmulatorDriver(capacity=256 << 20)


@pytest.fixture(scope="module")
def emulator(emulated_device):
    """It serves. By module: one that served for ever would end under another module's device."""
    import labkit.cuda as cuda

    with cuda.use(emulated_device):
        yield emulated_device
