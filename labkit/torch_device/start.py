"""The device becomes PyTorch's accelerator, once per process."""

import threading

import torch

from labkit.torch_device import distributed
from labkit.torch_device.kernels import Kernels
from labkit.torch_device.lab import Lab
from labkit.torch_device.twins import NAME
from labkit.torch_shim.devices import Devices
from labkit.torch_shim.engine import count_devices

_lock = threading.Lock()
_started: list[tuple[Lab, Kernels]] = []


def start() -> Lab:
    """`torch.lab`, registered by the first call.

    Raises   RuntimeError      torch.cuda is in use in this process, backward() has run in it, or
                               another backend has the name
             CompilerMissing   no C++ compiler is installed, and more than one device is asked for
    """
    with _lock:
        if not _started:
            _started.append(_start())
        return _started[0][0]


def kernels() -> Kernels:
    """What is registered with PyTorch.

    Raises   RuntimeError   `start` was not called
    """
    if not _started:
        raise RuntimeError("import labkit.torch_device first")
    return _started[0][1]


def _start() -> tuple[Lab, Kernels]:
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "torch.cuda is in use in this process, and PyTorch's engine knows one accelerator: "
            'import labkit.torch_device, which makes "lab" the one, in a process of its own'
        )
    devices = Devices()
    torch.utils.rename_privateuse1_backend(NAME)
    lab = Lab(devices)
    torch._register_device_module(NAME, lab)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    distributed.register()
    kernels = Kernels(devices)
    count_devices(NAME)
    return lab, kernels
