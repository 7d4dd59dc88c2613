"""PyTorch on labkit's device beside PyTorch on the CPU, over PyTorch's own samples.

The device changes a process for good, so the comparing is done in one of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from labkit.conformance.report import Comparison, InputError, Size
from labkit.core.host_compiler import installed

NOT_MODELLED = (
    "sparse and quantised tensors on the device",
    "out= of mode, which PyTorch refuses by the device's name",
    "out= of fft.ihfft2 and fft.ihfftn, which PyTorch leaves as it is over one dimension",
    "speed: a kernel of the emulator takes as long as it takes",
)


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """One comparison per question: forward, backward, in place, with `out=`, in 4 threads at once.

    On the emulator samples run on two devices in turn. Host code cannot touch their memory: one
    access of it would end the process.

    Raises   InputError   the other process did not answer
    """
    command = [sys.executable, "-m", "labkit.conformance.torch_device.samples", str(seed), size]
    driver = os.environ.get("LABKIT_CUDA", "emulator")
    settings = {"LABKIT_CUDA": driver, "LABKIT_DEVICES": "2" if _has_two(driver) else "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | settings
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Comparison(**json.loads(line))
    if process.returncode:
        raise InputError(f"{' '.join(command)} ended with status {process.returncode}")


def _has_two(driver: str) -> bool:
    """Whether there can be two devices: of the emulator, and with the shim that is compiled."""
    return driver == "emulator" and bool(installed("c++"))
