"""Reading along: who follows a call or a value through labkit opens file after file, forwards.

A return is a file that is opened again after it was left. Where a value is followed, the functions
that are handed it count, each where it is first met: what was read is not read again.
"""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

import labkit as lab
from labkit import cuda
from labkit.course import checks
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from tests.course import toys

ROOT = str(Path(lab.__file__).parent)
INNER = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
"""Lines of the function they stand in; newer Pythons make no frame for most of them."""


def walk(run, *followed):
    """The files of labkit whose functions are entered while `run` runs, in order.

    followed   values: then only functions count that are handed one of them, alone or among others
    """
    files, read = [], set()

    def note(frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name in INNER:
            return
        if followed:
            count = code.co_argcount + code.co_kwonlyargcount
            count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
            given = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
            if code in read or not any(among(given, value) for value in followed):
                return
            read.add(code)
        if code.co_filename not in files[-1:]:
            files.append(code.co_filename)

    gc.disable()  # else what other tests left behind may end amid the walk
    sys.setprofile(note)
    try:
        kept = run()
    finally:
        sys.setprofile(None)
        gc.enable()
    del kept  # its end is no part of the walk
    return files


def among(given, value):
    if isinstance(given, dict):
        given = [*given.values()]
    inside = isinstance(given, list | tuple) and any(among(each, value) for each in given)
    return given is value or inside


def returns(files):
    return len(files) - len(set(files))


def names(files):
    return [Path(file).name for file in files]


def test_an_addition_is_read_forwards():
    a, b = lab.ones(3, 4), lab.ones(3, 4)
    lab.add(a, b)  # what is made at the first call is there
    files = walk(lambda: lab.add(a, b))
    assert returns(files) == 0, files
    assert names(files)[:4] == ["bindings.py", "operator.py", "recording_kernel.py", "schema.py"]


def test_an_addition_on_the_device_is_no_longer_a_walk_than_it_was(emulator):
    a, b = lab.ones(3, 4, device="cuda"), lab.ones(3, 4, device="cuda")
    lab.add(a, b)
    files = walk(lambda: lab.add(a, b))
    assert returns(files) <= 16, names(files)  # 79 when the iterator was built twice


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_tensor_goes_forwards_through_an_addition(device, emulator):
    a, b = lab.ones(3, 4, device=device), lab.ones(3, 4, device=device)
    lab.add(a, b)
    for tensor in (a, b):
        files = walk(lambda: lab.add(a, b), tensor)
        assert returns(files) == 0, names(files)
        assert names(files)[0] == "bindings.py" and len(files) > 5


@pytest.mark.parametrize("size", [1_000, 3 << 20, 30 << 20])
def test_the_size_of_a_request_goes_forwards(size):
    files = walk(lambda: CachingAllocator(SimulatedDevice(1 << 30)).malloc(size), size)
    assert returns(files) == 0, names(files)
    assert names(files)[:2] == ["caching_allocator.py", "sizes.py"]


@pytest.mark.parametrize("on_host", [False, True])
def test_the_arguments_of_a_launch_go_forwards(on_host, emulator):
    kernel = cuda.kernel('extern "C" __global__ void walked(float* x, int n) { x[0] = n; }')
    array = np.ones(4, np.float32) if on_host else lab.ones(4, device="cuda")
    arguments = (array, 4_000)
    kernel(1, 32, arguments)
    for followed in (arguments, *arguments):
        files = walk(lambda: kernel(1, 32, arguments), followed)
        assert returns(files) == 0, names(files)
        assert names(files)[:2] == ["module.py", "arguments.py"]


@pytest.mark.parametrize("right", [True, False])
def test_an_answer_goes_forwards_through_its_check(right, monkeypatch):
    monkeypatch.setattr(checks, "find", lambda _: toys.add_up)

    def answer(values):
        return sum(values) if right else 7

    def check():
        try:
            checks.check("toys.add_up", answer, seed=3, record=False)
        except checks.CheckFailed:
            assert not right

    check()
    files = walk(check, answer)
    assert returns(files) == 0, names(files)
    assert names(files) == ["checks.py", "tester.py", "guard.py", "written.py"]
