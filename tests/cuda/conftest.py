"""A device of its own for each test that wants one."""

import pytest

import labkit.cuda as cuda
from labkit.cuda.emulator.driver import EmulatorDriver


@pytest.fixture
def small_device():
    """A device of 8 MiB that a test may fill, break and reset."""
    driver = EmulatorDriver(capacity=8 << 20)
    with cuda.use(driver):
        yield driver
    driver.reset()
    driver.worker.stop()
    driver.arena.close()
