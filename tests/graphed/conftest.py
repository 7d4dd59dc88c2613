"""A device of its own, with the caching allocator in front of it."""

import pytest

from labkit import cuda
from labkit.cuda import tensor_memory
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.memory.storages import cuda_storages


@pytest.fixture
def storages():
    before = tensor_memory.serving()
    driver = EmulatorDriver(capacity=64 << 20, why="for graphs")
    with cuda.use(driver):
        yield cuda_storages.install()
        tensor_memory.install(before)
    driver.reset()
    driver.worker.stop()
    driver.arena.close()


@pytest.fixture
def device(storages):
    return cuda.current_driver()
