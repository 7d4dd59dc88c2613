"""PyTorch's generators of the device as labkit's kernels take them.

A generator of PyTorch's holds a seed and an offset, `torch.cuda`'s 16 bytes; labkit's
`DeviceGenerator` is made of them for a call, and leaves its offset behind.

Source   aten/src/ATen/cuda/CUDAGeneratorImpl.cpp  CUDAGeneratorImpl
"""

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from labkit.core.device import Device
from labkit.core.philox import DeviceGenerator, random4
from labkit.ops.fallback import NoKernel
from labkit.torch_device.twins import NAME


@contextlib.contextmanager
def drawing(given: torch.Generator | None, index: int) -> Iterator[DeviceGenerator]:
    """Inside, labkit's twin of the generator; afterwards PyTorch's has got as far.

    given  None for the default one of device `index`

    Raises   RuntimeError   a generator of another type of device
             NoKernel       without a compiler, where the device has no generator of its own
    """
    theirs = torch.lab.default_generators[index] if given is None else given
    if theirs.device.type != NAME:
        if given is None:
            raise NoKernel("the device has no generator of its own without a C++ compiler")
        raise RuntimeError(
            f"Expected a {NAME!r} device type for generator but found {theirs.device.type!r}"
        )
    twin = DeviceGenerator(Device("cuda", index)).manual_seed(theirs.initial_seed())
    twin.offset = theirs.get_offset()
    yield twin
    theirs.set_offset(twin.offset)


@contextlib.contextmanager
def on_the_host(generator: torch.Generator) -> Iterator[None]:
    """Inside, the host's default generator draws for the device's: its seed is drawn from that.

    Without a compiler the device's is of the host's class, and goes on in its place.
    """
    default = torch.default_generator
    own = default.get_state()
    try:
        if generator.device.type == NAME:
            with drawing(generator, generator.device.index) as twin:
                low, high = random4(*_at(twin))[:2].tolist()
            default.manual_seed(high << 32 | low)
            yield
        else:
            default.set_state(generator.get_state())
            yield
            generator.set_state(default.get_state())
    finally:
        default.set_state(own)


def _at(twin: DeviceGenerator) -> tuple[int, np.ndarray, int]:
    seed, offset = twin.take(4)
    return seed, np.zeros((), np.uint64), offset
