"""Element-wise operators on a device: kernels made from text, compiled once, and launched.

`labkit.cuda` compiles for the GPU or for the emulator; what has no kernel goes over the host, and
`labkit.ops.fallback` counts it.

Source   aten/src/ATen/native/cuda/Loops.cuh  gpu_kernel
Differs  a number, or a 0-dim tensor on the host, is copied to the device first, where PyTorch
         passes it to the kernel by value
"""

import ctypes
import functools
from typing import Any

from labkit.core.dtype import DType
from labkit.core.strides import storage_nbytes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import copy, fallback
from labkit.ops.iterator_operand import Flags
from labkit.ops.kernel_source import ELEMENTS, EXPRESSIONS, kernel_name, source
from labkit.ops.tensor_iterator import TensorIterator, build

THREADS = 256  # per block, as in the ladder of kernels/elementwise
_AS_THEY_ARE = Flags(check_all_same_dtype=False, check_mem_overlap=False, resize_outputs=False)


def missing(name: str, compute: DType, *operands: TensorImpl) -> str | None:
    """Why there is no kernel for these operands, as a clause; None when there is one."""
    types = [compute, *[operand.dtype for operand in operands]]
    absent = [dtype for dtype in types if dtype not in ELEMENTS]
    elsewhere = {operand.device.type for operand in operands} - {"cpu", "cuda"}
    if name not in EXPRESSIONS:
        return fallback.NO_KERNEL
    if absent:
        return f"{fallback.NO_KERNEL} for {absent[0].name}"
    if elsewhere:
        return f"no kernel runs on device type {min(elsewhere)!r}"
    if name == "remainder" and compute.is_integral:
        return "a device kernel cannot raise the error of whole numbers divided by 0"
    return None


def launch(name: str, compute: DType, out: TensorImpl, *operands: TensorImpl) -> bool:
    """Queue `out = name(operands)` on the device of `out`; False, and counted, without a kernel.

    compute   the element type that operands are cast to as they are loaded
    out       of the broadcast shape; it may be an operand too
    operands  on the device of `out`; a 0-dim one may be on the host

    Raises   CompilerMissing   the emulator finds no C++ compiler
    """
    why = missing(name, compute, out, *operands)
    if why is not None:
        fallback.note(name, why)
        return False
    if out.numel() == 0:
        return True
    from labkit import cuda  # late: who works on the host alone does not pay for it

    inputs = [
        operand if operand.device == out.device else copy.to_copy(operand, compute, out.device)
        for operand in operands
    ]
    it = build(inputs, [out], _AS_THEY_ARE)
    types = tuple([operand.dtype for operand in it.operands])
    driver: Any = cuda.current_driver()
    kernel = _kernel(driver, name, compute, types, max(1, it.ndim))
    written = cuda.DevicePointer(out.data_ptr(), _extent(out))  # first: it may leave a lazy clone
    read = [
        cuda.DevicePointer(
            each.storage().const_data_ptr() + each.storage_offset() * each.itemsize, _extent(each)
        )
        for each in inputs
    ]
    blocks = -(-it.numel // THREADS)
    kernel((blocks,), (THREADS,), (written, *read, it.numel, _walk(it)))
    return True


def _extent(tensor: TensorImpl) -> int:
    """Bytes from the first element to the end of the last."""
    return storage_nbytes(tensor.sizes, tensor.strides, tensor.itemsize)


def _walk(it: TensorIterator) -> bytes:
    """The kernel's `Walk`; a loop over one element has one dimension too."""
    rows = [it.shape or [1], *[operand.stride_bytes or [0] for operand in it.operands]]
    numbers = [number for row in rows for number in row]
    return bytes((ctypes.c_longlong * len(numbers))(*numbers))


@functools.lru_cache(maxsize=512)
def _kernel(driver: Any, name: str, compute: DType, types: tuple[DType, ...], ndim: int) -> Any:
    from labkit import cuda

    code = source(name, compute, types, ndim)
    return cuda.RawModule(code=code, driver=driver).get_function(kernel_name(name))
