"""Element-wise operators on a device: kernels made from text, compiled once, and launched.

`labkit.cuda` compiles for the GPU or for the emulator; what has no kernel goes over the host, and
`labkit.ops.fallback` counts it.

A 0-dim tensor on the host is passed by its value.

Source   aten/src/ATen/native/cuda/Loops.cuh  gpu_kernel, opmath_gpu_kernel_with_scalars
"""

import ctypes
from collections.abc import Sequence
from typing import Any

from labkit.core import tensor_impl
from labkit.core.allocator import copy_bytes
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import convert, decode
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.cuda.elementwise_source import ELEMENTS, MAX_DIMS, Call, source
from labkit.ops.cuda.expressions import DIVISIONS
from labkit.ops.cuda.launching import from_text, read, written
from labkit.ops.iterator.iterator_operand import Operand
from labkit.ops.iterator.tensor_iterator import TensorIterator

THREADS = 256  # per block, as in the ladder of kernels/elementwise


def missing(call: Call, device: Device) -> str | None:
    """Why there is no kernel for a call, as a clause; None when there is one."""
    if device.type != "cuda":
        return f"no kernel runs on device type {device.type!r}"
    for dtype in (call.compute, call.answers, *call.types):
        if dtype not in ELEMENTS:
            return f"{fallback.NO_KERNEL} for {dtype.name}"
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
    it: TensorIterator,
    compute: DType,
    answers: DType,
    arguments: Sequence[tuple[str, Any]],
) -> bool:
    """Queue `name(arguments)` into the output of `it`; False, and counted, without a kernel.

    it         over the output, which is there, and the tensors among the arguments
    compute    the element type that operands are cast to as they are loaded
    answers    the element type of the answer, which the output may widen or cut
    arguments  the operator's, by name and in the schema's order

    Raises   CompilerMissing   the emulator finds no C++ compiler
    """
    if any(isinstance(value, complex) for _, value in arguments):
        fallback.note(name, f"{fallback.NO_KERNEL} for complex numbers")
        return False
    out, *inputs = it.operands
    operands = [operand for operand in inputs if operand.device == it.device] or inputs
    types = [operand.dtype if operand.device == it.device else compute for operand in operands]
    given, numbers = _given(operands, compute, arguments)
    names = tuple([argument for argument, _ in numbers])
    call = Call(name, compute, answers, (out.dtype, *types), given, names)
    why = missing(call, it.device)
    if why is not None:
        fallback.note(name, why)
        return False
    return it.numel == 0 or _queue(call, it, operands, [number for _, number in numbers])


def _given(
    operands: Sequence[Operand], compute: DType, arguments: Sequence[tuple[str, Any]]
) -> tuple[tuple[tuple[str, str | None], ...], list[tuple[str, Any]]]:
    """How the kernel knows each argument, and the numbers among them: a tensor that is no operand,
    since it is on the host while others are not, is passed by its value.
    """
    letters = iter("xyz")
    given: list[tuple[str, str | None]] = []
    numbers: list[tuple[str, Any]] = []
    for argument, value in arguments:
        if isinstance(value, TensorImpl):
            letter = next(letters, "more")
            given.append((argument, letter))
            if not any(value is each.tensor for each in operands) and not compute.is_complex:
                numbers.append((letter, _number(_rounded(value, compute), compute)))
        elif value is None or isinstance(value, str):
            given.append((argument, value))
        else:
            given.append((argument, argument))
            numbers.append((argument, _number(value, compute)))
    return tuple(given), numbers


def _number(value: Any, compute: DType) -> float | int:
    """A number as the kernel takes it: of 64 bits, a whole one wrapped into them."""
    if compute.is_floating_point:
        return float(value)
    if compute.kind == "bool":
        return int(value != 0)
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def _rounded(operand: TensorImpl, compute: DType) -> Any:
    """The value of a 0-dim tensor on the host, as the type of the computation holds it."""
    return decode(convert(operand.raw(), operand.dtype, compute), compute).item()


def copy_bits(dtype: DType, it: TensorIterator) -> bool:
    """Queue a copy of elements that are not read but moved, as whole numbers of their size."""
    call = Call("copy_", dtype, dtype, (dtype, dtype), (("x", "x"),))
    return _queue(call, it, it.operands[1:], [])


def _moved(operand: Operand, dtype: DType, device: Device) -> TensorImpl:
    """A number from the host, in memory of the device and in the type of the computation."""
    assert operand.tensor is not None
    made = tensor_impl.empty(operand.sizes, dtype, device)
    raw = convert(operand.tensor.raw(), operand.dtype, dtype)
    copy_bytes(made.data_ptr(), device, raw.ctypes.data, CPU, raw.nbytes)
    return made


def _queue(
    call: Call, it: TensorIterator, operands: Sequence[Operand], numbers: Sequence[Any]
) -> bool:
    if len(it.shape) > MAX_DIMS:
        why = f"its kernel has {MAX_DIMS} dimensions, and this needs {len(it.shape)}"
        fallback.note(call.name, why)
        return False
    kernel = _kernel(call)
    out = it.operands[0]
    assert out.tensor is not None, "the output is there"
    arguments = [written(out.tensor)]
    for operand in operands:
        here = operand.device == it.device
        arguments.append(read(operand.tensor if here else _moved(operand, call.compute, it.device)))
    walk = _walk(it.shape, [operand.stride_bytes for operand in (out, *operands)])
    kernel(-(-it.numel // THREADS), THREADS, (*arguments, *numbers, it.numel, walk))
    return True


def _kernel(call: Call) -> Any:
    return from_text(source(call), f"lab_{call.name}")


def _walk(shape: Sequence[int], stride_bytes: Sequence[Sequence[int]]) -> bytes:
    """The kernel's `Walk`."""
    unused = MAX_DIMS - len(shape)
    numbers = [len(shape), *shape, *[1] * unused]
    for steps in zip(*stride_bytes, strict=True):
        numbers += steps
    numbers += [0] * (unused * len(stride_bytes))
    return bytes((ctypes.c_longlong * len(numbers))(*numbers))
