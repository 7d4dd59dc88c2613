"""One emulated device for a module, whose kernels stay loaded, and an allocator for each test."""

import pytest

from labkit import cuda
from labkit.cuda import tensor_memory
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.memory.storages import cuda_storages


@pytest.fixture(scope="module")
def driver():
    made = EmulatorDriver(capacity=256 << 20, why="for graphs")
    yield made
    made.reset()
    made.worker.stop()
    made.arena.close()


@pytest.fixture
def storages(driver):
    before = tensor_memory.serving()
    with cuda.use(driver):
        made = cuda_storages.install()
        yield made
        tensor_memory.install(before)
        driver.queue.reseed(None)
        driver.synchronize()
        made.current.empty_cache()


@pytest.fixture
def device(storages):
    return cuda.current_driver()
