"""PyTorch's engine makes a queue for each device at a process's first backward(), never again."""

import atexit
import time
from pathlib import Path

import torch

_TASKS = Path("/proc/self/task")
_SECONDS = 5.0


def count_devices(name: str) -> None:
    """The engine has counted the devices of this name.

    Raises   RuntimeError   backward() has run in this process already, without them

    Source   torch/csrc/autograd/engine.cpp  Engine::start_device_threads
    """
    x = torch.empty(0, device=name, requires_grad=True)
    try:
        torch.autograd.grad(x.view(0), x, x.detach())
    except RuntimeError as error:
        raise RuntimeError(
            "backward() has run in this process already, and PyTorch's engine counted its devices "
            f"then: register the device {name!r} before the first one, in a new process"
        ) from error
    atexit.register(_let_finish)


def _let_finish() -> None:
    """The engine's threads sleep: for the end of the process, while the interpreter still runs.

    A thread lets go of a backward's Python objects after backward() has returned. If the
    interpreter goes down meanwhile, that ends the process with an abort.
    """
    deadline, asleep = time.monotonic() + _SECONDS, 0
    while asleep < 2 and time.monotonic() < deadline:
        time.sleep(0.001)  # others get the interpreter now
        asleep = 0 if any(map(_is_busy, _TASKS.glob("*/stat"))) else asleep + 1


def _is_busy(stat: Path) -> bool:
    try:
        name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
    except OSError:
        return False  # the thread has ended
    return name.startswith("pt_autograd") and not rest.startswith(" S")
