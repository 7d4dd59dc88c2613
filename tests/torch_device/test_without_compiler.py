"""Where no C++ compiler is found the device is made of Python: less of it, the same numbers."""

import pytest

from tests.torch_device.apart import in_a_process

BEGIN = """
import os, sys, warnings
os.environ |= {"PATH": "/nowhere", "LABKIT_DEVICES": "1"}
os.environ.pop("CXX", None)
import torch
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import labkit.torch_device
words = [str(one.message) for one in told if "no C++ compiler is found" in str(one.message)]
assert len(words) == 1 and "apt install g++" in words[0], told
"""

PROGRAMS = {
    "memory": """
x = torch.arange(6.0, device="lab").reshape(2, 3)
held = torch.lab.memory_allocated()
view = torch.empty(1000, device="lab")[10:]
print(torch.lab.memory_allocated() - held)
del view
print(torch.lab.memory_allocated() - held)
try:
    torch.empty(1 << 30, device="lab")
except RuntimeError as error:
    print("256.00 MiB" in str(error))
out = torch.empty(0, device="lab")
torch.add(x.t()[1:], 1, out=out)
print(out.tolist())
x.resize_(8)
torch.lab.synchronize()
print(x[:6].tolist(), repr(x[:2]))
""",
    "exception": """
class Odd:
    def __index__(self):
        raise KeyError("the real error")
before = torch.lab.memory_allocated()
for _ in range(20):
    try:
        torch.ones(100, device="lab").view(Odd())
    except (KeyError, TypeError) as error:
        last = error
print(type(last).__name__ in ("KeyError", "TypeError"), torch.lab.memory_allocated() - before)
""",
    "networks": """
from tests.torch_device import models
for name in ("mlp", "cnn", "transformer"):
    network = getattr(models, name)
    lab, cpu = (models.losses(network, models.sgd, 4, device) for device in ("lab", "cpu"))
    print(max(abs(a - b) for a, b in zip(lab, cpu, strict=True)) < 1e-5, lab[-1] < lab[0])
assert {"mm.out", "convolution", "_softmax.out"} <= set(torch.lab.fallbacks())
with torch.lab.no_fallbacks():
    try:
        torch.ones(2, device="lab") + 1
    except NotImplementedError as error:
        print(error)
""",
}
"""In the order in which they run, in one process; what one cannot do, the next ones still can."""

EACH = """
import traceback
for program in sys.argv[1:]:
    print("--- next", flush=True)
    try:
        exec(program, {"torch": torch})
    except BaseException:
        print(traceback.format_exc())
"""


@pytest.fixture(scope="module")
def printed():
    """What each program printed; naming the device takes five seconds of CPU."""
    done = in_a_process(BEGIN + EACH, *PROGRAMS.values())
    assert done.returncode == 0, done.stderr
    return dict(zip(PROGRAMS, done.stdout.split("--- next\n")[1:], strict=True))


def test_networks_train_with_the_losses_of_the_cpu_and_every_detour_is_counted(printed):
    lines = printed["networks"].splitlines()
    assert lines[:3] == ["True True"] * 3
    assert lines[3].endswith("no C++ compiler is installed, and kernels want one")


def test_memory_is_the_caching_allocators_and_comes_back(printed):
    assert printed["memory"].splitlines() == [
        "4096", "0", "True", "[[2.0, 5.0], [3.0, 6.0]]",
        "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] tensor([0., 1.], device='lab:0')",
    ]  # fmt: skip


def test_an_exception_in_flight_survives_the_end_of_a_tensor(printed):
    assert printed["exception"] == "True 0\n"
