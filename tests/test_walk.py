"""Reading along: what `lab.add` runs, file after file; on the host none of them is opened twice."""

import gc
import sys
from pathlib import Path

import labkit as lab

ROOT = str(Path(lab.__file__).parent)


def walk(run):
    """The files of labkit whose functions are entered while `run` runs, in order."""
    files = []

    def note(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(ROOT) and file not in files[-1:]:
            files.append(file)

    gc.collect()
    gc.disable()  # else what other tests left behind may end amid the walk
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return files


def test_an_addition_is_read_forwards():
    a, b = lab.ones(3, 4), lab.ones(3, 4)
    lab.add(a, b)  # what is made at the first call is there
    files = walk(lambda: lab.add(a, b))
    assert len(files) == len(set(files)), files
    assert [Path(file).name for file in files[:4]] == [
        "bindings.py", "operator.py", "recording_kernel.py", "schema.py",
    ]  # fmt: skip


def test_an_addition_on_the_device_is_no_longer_a_walk_than_it_was(emulator):
    a, b = lab.ones(3, 4, device="cuda"), lab.ones(3, 4, device="cuda")
    lab.add(a, b)
    files = walk(lambda: lab.add(a, b))
    returns = len(files) - len(set(files))
    assert returns <= 103, returns  # a tensor that asked its storage for the device made it 168
