"""One emulated device for all kernels."""

import pytest

import labkit.cuda as cuda
from labkit.cuda.emulator.driver import EmulatorDriver


@pytest.fixture(scope="session", autouse=True)
def emulator():
    driver = EmulatorDriver(capacity=256 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()
