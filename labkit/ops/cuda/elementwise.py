"""Element-wise operators on a device: kernels made from text, compiled once, and launched.

`labkit.cuda` compiles for the GPU or for the emulator; what has no kernel goes over the host, and
`labkit.ops.fallback` counts it.

A 0-dim tensor on the host is passed by its value.

Source   aten/src/ATen/native/cuda/Loops.cuh  gpu_kernel, opmath_gpu_kernel_with_scalars
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from labkit.core import tensor_impl
from labkit.core.allocator import copy_bytes
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import convert, decode
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.cuda.elementwise_source import (
    ELEMENTS,
    MAX_DIMS,
    Call,
    kernel_name,
    number_argument,
    source,
)
from labkit.ops.cuda.expressions import DIVISIONS
from labkit.ops.cuda.launching import from_text, read, written
from labkit.ops.iterator.iterator_operand import Flags
from labkit.ops.iterator.tensor_iterator import TensorIterator, build

THREADS = 256  # per block, as in the ladder of kernels/elementwise
_AS_THEY_ARE = Flags(check_all_same_dtype=False, check_mem_overlap=False, resize_outputs=False)


def missing(call: Call, devices: set[str]) -> str | None:
    """Why there is no kernel for a call, as a clause; None when there is one."""
    types = [call.compute, call.answers, *call.types]
    absent = [dtype for dtype in types if dtype not in ELEMENTS]
    if devices - {"cpu", "cuda"}:
        return f"no kernel runs on device type {min(devices - {'cpu', 'cuda'})!r}"
    if absent:
        return f"{fallback.NO_KERNEL} for {absent[0].name}"
    if call.name in DIVISIONS and call.compute.is_integral:
        return "a device kernel cannot raise the error of whole numbers divided by 0"
    if call.expression is None:
        words = [f"{name}={word}" for name, word in call.given if word not in (*"xyz", None)]
        return f"{fallback.NO_KERNEL} for {call.compute.name}" + (
            f" with {', '.join(words)}" if words else ""
        )
    return None


def launch(
    name: str,
    compute: DType,
    answers: DType,
    out: TensorImpl,
    arguments: Sequence[tuple[str, Any]],
) -> bool:
    """Queue `out = name(arguments)` on the device of `out`; False, and counted, without a kernel.

    compute    the element type that operands are cast to as they are loaded
    answers    the element type of the answer, which `out` may widen or cut
    out        of the broadcast shape; it may be an operand too
    arguments  the operator's, by name and in the schema's order; tensors on the device of `out`,
               or with no dimension on the host

    Raises   CompilerMissing   the emulator finds no C++ compiler
    """
    tensors = [value for _, value in arguments if isinstance(value, TensorImpl)]
    operands = [each for each in tensors if each.device == out.device] or tensors
    if any(isinstance(value, complex) for _, value in arguments):
        fallback.note(name, f"{fallback.NO_KERNEL} for complex numbers")
        return False
    call, numbers = _call(name, compute, answers, out, operands, arguments)
    why = missing(call, {operand.device.type for operand in (out, *operands)})
    if why is not None:
        fallback.note(name, why)
        return False
    return out.numel() == 0 or _queue(call, out, operands, numbers)


def _call(
    name: str,
    compute: DType,
    answers: DType,
    out: TensorImpl,
    operands: Sequence[TensorImpl],
    arguments: Sequence[tuple[str, Any]],
) -> tuple[Call, list[Any]]:
    """What the kernel depends on, and the numbers it is given."""
    letters = iter("xyz")
    given: list[tuple[str, str | None]] = []
    numbers: list[tuple[str, Any]] = []
    for argument, value in arguments:
        if isinstance(value, TensorImpl):
            letter = next(letters, "more")
            given.append((argument, letter))
            if not any(value is each for each in operands) and not compute.is_complex:
                rounded = _rounded(value, compute)
                numbers.append((letter, number_argument(rounded, compute)))
        elif value is None or isinstance(value, str):
            given.append((argument, value))
        else:
            given.append((argument, argument))
            numbers.append((argument, number_argument(value, compute)))
    types = [out.dtype]
    for operand in operands:  # one on the host arrives in the type of the computation
        types.append(operand.dtype if operand.device == out.device else compute)
    names = tuple([argument for argument, _ in numbers])
    call = Call(name, compute, answers, tuple(types), tuple(given), names)
    return call, [number for _, number in numbers]


def _rounded(operand: TensorImpl, compute: DType) -> Any:
    """The value of a 0-dim tensor on the host, as the type of the computation holds it."""
    return decode(convert(operand.raw(), operand.dtype, compute), compute).item()


def copy_bits(dtype: DType, out: TensorImpl, source: TensorImpl) -> bool:
    """Queue a copy of elements that are not read but moved, as whole numbers of their size."""
    call = Call("copy_", dtype, dtype, (dtype, dtype), (("x", "x"),))
    return _queue(call, out, [source], [])


def _moved(operand: TensorImpl, dtype: DType, device: Device) -> TensorImpl:
    """A number from the host, in memory of the device and in the type of the computation."""
    made = tensor_impl.empty(operand.sizes, dtype, device)
    raw = convert(operand.raw(), operand.dtype, dtype)
    copy_bytes(made.storage().data_ptr(), device, raw.ctypes.data, CPU, raw.nbytes)
    return made


def _queue(
    call: Call, out: TensorImpl, operands: Sequence[TensorImpl], numbers: Sequence[Any]
) -> bool:
    inputs = [
        operand if operand.device == out.device else _moved(operand, call.compute, out.device)
        for operand in operands
    ]
    it = build(inputs, [out], _AS_THEY_ARE)
    if it.ndim > MAX_DIMS:
        why = f"its kernel has {MAX_DIMS} dimensions, and this needs {it.ndim}"
        fallback.note(call.name, why)
        return False
    kernel = _kernel(call)
    arguments = [written(out), *[read(each) for each in inputs], *numbers]
    kernel((-(-it.numel // THREADS),), (THREADS,), (*arguments, it.numel, _walk(it)))
    return True


@functools.lru_cache(maxsize=1024)
def _text(call: Call) -> str:
    return source(call)


def _kernel(call: Call) -> Any:
    return from_text(_text(call), kernel_name(call.name))


def _walk(it: TensorIterator) -> bytes:
    """The kernel's `Walk`."""
    unused = MAX_DIMS - it.ndim
    numbers = [it.ndim, *it.shape, *[1] * unused]
    for d in range(it.ndim):
        numbers += [operand.stride_bytes[d] for operand in it.operands]
    numbers += [0] * (unused * len(it.operands))
    return bytes((ctypes.c_longlong * len(numbers))(*numbers))
