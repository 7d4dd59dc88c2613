"""A device of the reader's own under the real PyTorch: named, and served by the reader's function.

    torch.utils.rename_privateuse1_backend("lab")
    torch._register_device_module("lab", own.Module())
    devices = own.begin(allocate)       # allocate(device, nbytes, stream, _) -> address

From then on `torch.empty(3, device="lab")` calls `allocate`. Kernels are the reader's to register;
streams, events and all else that PyTorch asks of a device is answered by `Devices`.
"""

from types import ModuleType
from typing import Any

import torch

from labkit import cuda
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.torch_shim.devices import Devices
from labkit.torch_shim.engine import count_devices
from labkit.torch_shim.native import Answer, Verb


class Module(ModuleType):
    """`torch.lab`: the least that PyTorch asks of an accelerator's module.

    Source   torch/__init__.py  _register_device_module
    """

    def __init__(self) -> None:
        super().__init__("torch.lab", __doc__)
        self._devices: Devices | None = None

    def is_available(self) -> bool:
        """True: it was registered."""
        return True

    def is_initialized(self) -> bool:
        """True: there is nothing to prepare."""
        return True

    def _lazy_init(self) -> None: ...

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        """How many there are."""
        return 0 if self._devices is None else len(self._devices)

    def current_device(self) -> int:
        """The index of this thread's."""
        return 0 if self._devices is None else self._devices.shim.current_device()

    def manual_seed_all(self, seed: int) -> None:
        """Nothing to seed: a device without kernels of random numbers draws none."""


class OwnDevices(Devices):
    """Devices whose memory comes from a function of the reader's."""

    def __init__(self, allocate: Answer) -> None:
        self._own = {Verb.ALLOCATE: allocate}
        super().__init__()

    def _answers(self) -> Any:
        return {**super()._answers(), **self._own}

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """The bytes have arrived, after what is queued; either address may be the device's."""
        self._copy(self.shim.current_device(), to, source, nbytes)


def begin(allocate: Answer) -> OwnDevices:
    """PyTorch has the device: on the emulator, which knows when a kernel runs.

    allocate  (device, bytes, stream, 0) -> address: called for the memory of each tensor

    Raises   CompilerMissing   no C++ compiler is installed
             RuntimeError      backward() has run in this process already
    """
    with cuda.use(EmulatorDriver(why="to see when each kernel runs")):
        devices = OwnDevices(allocate)
    count_devices(torch._C._get_privateuse1_backend_name())
    module = getattr(torch, "lab", None)
    if isinstance(module, Module):
        module._devices = devices
    return devices
