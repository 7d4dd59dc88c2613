"""Every kernel runs on the emulated device of the whole run."""

import pytest


@pytest.fixture(autouse=True)
def on_the_emulator(emulator):
    """It serves."""
