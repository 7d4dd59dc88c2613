"""The emulator goes on whatever happens to the files it has built."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from labkit import cuda
from labkit.core import compile_cache, cpu_time
from labkit.cuda.emulator import build
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.trace import Trace

KERNEL = 'extern "C" __global__ void k(int* x) {\n  x[threadIdx.x] = 7;\n}'


class Forgetful(set[Path]):
    """Remembers nothing: every entry counts as another process's."""

    def add(self, path):
        """The entry is not remembered."""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """An emulator with a cache of its own, whose worker need not be compiled again."""
    monkeypatch.setattr(compile_cache, "_made_here", Forgetful())
    worker = build.worker_program()
    monkeypatch.setattr(
        build, "_build_worker", lambda compiler, flags, target: shutil.copy(worker, target)
    )
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    driver = EmulatorDriver(why="testing")
    yield driver
    driver.worker.stop()


def launched(driver, source=KERNEL):
    x = np.zeros(32, np.int32)
    cuda.RawModule(source, driver=driver).get_function("k")(1, 32, (x,))
    return x.tolist()


def entry(pattern):
    (path,) = compile_cache.open_directory().glob(pattern)
    return path


def replace_by(path, content):
    """An entry in that one's place, with the name that its content asks for."""
    stem, _, _, *suffix = path.name.split(".")
    digest = hashlib.sha256(content).hexdigest()[:32]
    path.unlink()
    forged = path.with_name(".".join([stem, str(len(content)), digest, *suffix]))
    forged.write_bytes(content)
    forged.chmod(0o700)


def test_a_truncated_entry_is_built_again(driver):
    launched(driver)
    module = entry("emulator-*.so")
    module.write_bytes(module.read_bytes()[:1000])
    assert launched(driver) == [7] * 32


@pytest.mark.parametrize("content", [b"not for this machine", b"#!/bin/sh\nexit 1\n"])
def test_a_worker_that_does_not_run_here_is_built_again(driver, content):
    launched(driver)
    driver.worker.stop()
    replace_by(entry("emulator-worker-*"), content)
    assert launched(driver) == [7] * 32


def test_a_module_that_does_not_load_is_built_again(driver):
    launched(driver)
    replace_by(entry("emulator-*.so"), b"not for this machine")
    assert launched(driver) == [7] * 32


def test_a_module_that_never_loads_is_told(driver):
    source = 'extern "C" __device__ void nowhere();\n' + KERNEL.replace("x[", "nowhere(); x[")
    with pytest.raises(CudaError, match=r"does not load.*nowhere"):
        launched(driver, source)


def test_a_cache_deleted_while_running_is_made_again(driver):
    kernel = cuda.RawModule(KERNEL, driver=driver).get_function("k")
    x = np.zeros(32, np.int32)
    kernel(1, 32, (x,))
    shutil.rmtree(compile_cache.directory())
    report = kernel(1, 32, (x,), trace=Trace())
    shutil.rmtree(compile_cache.directory())
    assert {line.line for line in report.lines} == {2}
    driver.worker.stop()
    x[:] = 0
    kernel(1, 32, (x,))
    assert x.tolist() == [7] * 32


def test_the_emulator_is_built_on_nobodys_clock(monkeypatch):
    """The first answer on a machine that launches a kernel, and all who wait for its build."""
    monkeypatch.setattr(compile_cache, "kept", lambda *_, **__: cpu_time.is_counted())
    assert build.worker_program() is False
    assert cpu_time.is_counted()
