"""PyTorch's engine makes a queue for each device at a process's first backward(), never again."""

import torch


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
