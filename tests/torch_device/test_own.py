"""A device of the reader's own: PyTorch's memory comes from the reader's function."""

import ctypes
import textwrap
import threading
import time

from labkit.torch_shim import engine
from tests.torch_device.apart import in_a_process

BEGIN = """
import torch
from labkit.torch_shim import own

asked = []
def allocate(device, nbytes, stream, _):
    devices.take_back()
    asked.append((device, nbytes, stream))
    return devices[device].allocator.malloc(nbytes, stream)

torch.utils.rename_privateuse1_backend("lab")
torch._register_device_module("lab", own.Module())
assert torch.lab.device_count() == 0
devices = own.begin(lambda *question: allocate(*question))
assert torch.lab.device_count() == len(devices)
"""


def test_every_storage_asks_the_readers_function_once_and_views_ask_nothing():
    done = in_a_process(
        BEGIN
        + """
x = torch.empty(3, 4, device="lab")
views = x.t(), x[1:], x.reshape(12)
with torch.Stream("lab:1") as side:
    y = torch.empty(5, device="lab")
print(asked == [(0, 48, 0), (1, 20, side.stream_id)], y.device, torch.lab.current_device())
del x
devices.take_back()
kept = devices[0].allocator.memory_stats()["allocation.all.freed"]
del views
devices.take_back()
print(kept, devices[0].allocator.memory_stats()["allocation.all.freed"])
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["True lab:1 0", "0 1"]


def test_what_the_function_raises_reaches_the_program_and_bytes_cross_both_ways():
    done = in_a_process(
        BEGIN
        + """
x = torch.empty(2, device="lab")
source, back = torch.tensor([1.5, 2.5]), torch.zeros(2)
devices.copy(x.data_ptr(), source.data_ptr(), source.nbytes)
devices.copy(back.data_ptr(), x.data_ptr(), source.nbytes)
print(back.tolist())
def allocate(*question):
    raise RuntimeError("no memory of mine")
try:
    torch.empty(2, device="lab")
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[1.5, 2.5]", "no memory of mine"]


def test_a_process_that_has_run_backward_is_told_to_begin_anew():
    done = in_a_process(
        "import torch\nw = torch.ones(1, requires_grad=True)\n(w * 2).backward()\ntry:\n"
        + textwrap.indent(BEGIN, "    ")
        + """
except RuntimeError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert "backward() has run in this process already" in done.stdout
    assert "the device 'lab' before the first one" in done.stdout


def test_a_cell_that_begins_a_device_may_be_run_again_and_says_what_to_do():
    """PyTorch ends the process when it is given a second device; a second run is refused before."""
    again = """
for attempt in range(2):
    try:
        import labkit.torch_device
    except RuntimeError as error:
        print(str(error))
try:
    own.begin(lambda *question: 0)
except RuntimeError as error:
    print(error)
"""
    for first in ("w = torch.ones(1, requires_grad=True)\n(w * 2).backward()", BEGIN):
        done = in_a_process(f"import torch\nfrom labkit.torch_shim import own\n{first}\n{again}")
        assert done.returncode == 0, done.stderr
        *_, last, own = done.stdout.splitlines()
        assert last == own and "restart the kernel, and begin it before the first backward" in own


def test_a_process_ends_only_when_the_engine_s_threads_sleep():
    """PyTorch's own threads are busy too briefly to be met: this one has their name."""
    named, done = threading.Event(), []

    def busy():
        ctypes.CDLL(None).prctl(15, b"pt_autograd_9")  # PR_SET_NAME
        named.set()
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
        done.append(True)

    thread = threading.Thread(target=busy)
    thread.start()
    named.wait()
    engine._let_finish()
    assert done
    thread.join()
