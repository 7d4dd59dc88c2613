"""What every device kernel here is launched with: addresses, and compiled files.

`labkit.cuda` is imported when a kernel is launched and not before: who works on the host alone does
not pay for it.
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.device import Device
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.fallback import NoKernel as NoKernel

THREADS = 256
STEPS = {dtypes.float32: "", dtypes.float16: "half", dtypes.bfloat16: "bfloat16"}
"""Element type -> the word that the name of its kernel ends in, in a file with one for each."""


def empty(sizes: Sequence[int], like: TensorImpl, dtype: DType | None = None) -> TensorImpl:
    """A new tensor, row by row, of the device and, unless another is given, the type of `like`."""
    return tensor_impl.empty(tuple(sizes), dtype or like.dtype, like.device)


def written(tensor: TensorImpl) -> Any:
    """The argument of a kernel that writes the tensor. Made before the others: it may leave a lazy
    clone.
    """
    from labkit import cuda

    return cuda.DevicePointer(tensor.data_ptr())


def read(tensor: TensorImpl | None) -> Any:
    """The argument of a kernel that reads the tensor; None, a null pointer, stays None.

    It keeps the tensor: a temporary copy must not make room for another before the launch.
    """
    if tensor is None:
        return None
    from labkit import cuda

    return cuda.DevicePointer(tensor.const_data_ptr(), keep=tensor)


def check_device(*tensors: TensorImpl | None) -> Device:
    """Where all of them are.

    Raises   RuntimeError   they are on several devices
             NoKernel       a device that kernels do not run on
    """
    found = {tensor.device for tensor in tensors if tensor is not None}
    if len(found) > 1:
        first, second = sorted(map(str, found), reverse=True)[:2]
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first} and {second}!"
        )
    (device,) = found
    if device.type != "cuda":
        raise NoKernel(f"no kernel runs on device type {device.type!r}")
    return device


def check_floats(*tensors: TensorImpl | None) -> None:
    """Pass for float32 on one device: what the kernels of `kernels/` compute in.

    Raises   NoKernel       another element type
             RuntimeError   tensors on several devices
    """
    check_device(*tensors)
    for tensor in tensors:
        if tensor is not None and tensor.dtype is not dtypes.float32:
            raise NoKernel(f"its kernel computes in float32, and got {tensor.dtype.name}")


def check_floats_or_halves(*tensors: TensorImpl | None) -> None:
    """Pass for one element type that kernels read, on one device; their sums are float32.

    Raises   NoKernel       another element type, or several
             RuntimeError   tensors on several devices
    """
    check_device(*tensors)
    found = [tensor.dtype for tensor in tensors if tensor is not None]
    for dtype in found:
        if dtype not in STEPS or dtype is not found[0]:
            raise NoKernel(
                f"its kernels read float32 or halves, all sides alike, and got {dtype.name}"
            )


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count`, at least one."""
    return max(1, math.ceil(count / per_block))


def kernels() -> dict[Any, Any]:
    """What has been compiled for the device that serves; it goes with the driver.

    Texts and kernel names, or folders, files and steps of the shelf -> kernels
    """
    from labkit import cuda

    found: dict[Any, Any] = vars(cuda.current_driver()).setdefault("_kernels_of_operators", {})
    return found


def shelf(op: str, rung: str, step: str = "") -> Any:
    """A kernel of `kernels/`, for the device that serves.

    op, rung  its folder, and its file without the ending
    step      of a file with several kernels: the word its name ends in

    Raises   NoKernel          the shelf is not installed
             CompilerMissing   the emulator finds no C++ compiler
    """
    known = kernels()
    found = known.get((op, rung, step))
    if found is None:
        from labkit import cuda
        from labkit.cuda.source import KERNELS

        path = KERNELS / op / f"{rung}.cu"
        if not path.is_file():
            raise NoKernel(f"the file {op}/{rung}.cu of the kernel shelf is not installed")
        name = f"{op}_{rung}{step and f'_{step}'}"
        found = known[op, rung, step] = cuda.RawModule(path=path).get_function(name)
    return found


def launch_each(code: str, name: str, count: int, *arguments: Any) -> None:
    """Queue the kernel of that name in a text, with a thread for each of so many elements.

    Raises   as `from_text`
    """
    from_text(code, name)((blocks(count, THREADS),), (THREADS,), arguments)


def from_text(code: str, name: str) -> Any:
    """The kernel of that name in a text, for the device that serves.

    Raises   CompilerMissing   the emulator finds no C++ compiler
    """
    known = kernels()
    found = known.get((code, name))
    if found is None:
        from labkit import cuda

        found = known[code, name] = cuda.RawModule(code=code).get_function(name)
    return found
