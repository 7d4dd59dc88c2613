"""Kernel arguments: arrays become addresses, scalars become bytes, and wrong ones are refused."""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.cuda.errors import ArgumentError
from labkit.cuda.signature import ParamKind, Signature, SignatureParam, element_kind


@dataclass(frozen=True)
class DevicePointer:
    """An address of device memory as a kernel argument.

    size_bytes   what may be touched, for traces; 0 when not known
    start_bytes  where that begins, counted from the address: a kernel may be given the place of
                 an element 0 that lies elsewhere
    keep         whatever must stay alive until the launch
    """

    address: int
    size_bytes: int = 0
    start_bytes: int = 0
    keep: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Extent:
    """Memory that an argument gives a kernel the right to touch."""

    name: str
    address: int
    size_bytes: int


@dataclass
class Operand:
    """An argument that is an array: where it is, what it holds."""

    address: int
    dtype: str | None
    on_host: bool
    writable: bool
    low: int
    high: int
    device: str
    vouched: bool = False
    """By who made a `DevicePointer`: the driver is not asked whether the address is its own."""


@dataclass
class Bound:
    """Arguments ready for a launch."""

    packed: list[bytes]
    host: list[tuple[int, Operand]]
    extents: list[Extent]


def as_operand(value: Any) -> Operand | None:
    """How an array-like argument lies in memory; None when the value is not an array."""
    if isinstance(value, DevicePointer):
        low = value.address + value.start_bytes
        high = low + value.size_bytes
        return Operand(value.address, None, False, True, low, high, "cuda", vouched=True)
    if isinstance(value, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(value)
        address = value.__array_interface__["data"][0]
        return Operand(address, value.dtype.name, True, value.flags.writeable, low, high, "cpu")
    if hasattr(value, "data_ptr") and hasattr(value, "device"):
        return _tensor_operand(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        address, readonly = interface["data"]
        dtype = np.dtype(interface["typestr"])
        size = int(np.prod(interface["shape"], dtype=np.int64)) * dtype.itemsize
        return Operand(address, dtype.name, False, not readonly, address, address + size, "cuda")
    return None


def _tensor_operand(value: Any) -> Operand:
    """A labkit or torch tensor, or a storage of either."""
    owner = value.untyped_storage() if hasattr(value, "untyped_storage") else value
    pointer = value.data_ptr
    address = pointer() if callable(pointer) else getattr(pointer, "address", pointer)
    device = str(getattr(value.device, "type", value.device)).split(":")[0]
    dtype = str(value.dtype).split(".")[-1] if hasattr(value, "dtype") else None
    base, size = owner.data_ptr, owner.nbytes
    low = base() if callable(base) else getattr(base, "address", base)
    high = low + (size() if callable(size) else size)
    if hasattr(value, "numel") and value.numel() == 0:
        low = high = address  # torch gives an empty view no address within its storage
    return Operand(int(address), dtype, device == "cpu", True, int(low), int(high), device)


def bind(args: Sequence[Any], signature: Signature, kernel: str, driver: Any) -> Bound:
    """Check every argument against the kernel's parameters and pack it.

    Raises   ArgumentError   naming the argument, what it is and what the kernel takes
    """
    params = signature.params
    if len(args) != len(params):
        raise ArgumentError(
            f"{kernel} takes {len(params)} arguments {signature.describe()}, got {len(args)}"
        )
    bound = Bound([], [], [])
    for position, (value, param) in enumerate(zip(args, params, strict=True)):
        operand = as_operand(value)
        if operand is not None:
            _check(operand, param, position, driver)
            if operand.on_host:
                bound.host.append((position, operand))
            elif operand.high > operand.low:
                bound.extents.append(Extent(param.name, operand.low, operand.high - operand.low))
            bound.packed.append(operand.address.to_bytes(8, "little"))
        else:
            bound.packed.append(_pack_value(value, param, position))
    return bound


def _pack_value(value: Any, param: SignatureParam, position: int) -> bytes:
    if param.kind != ParamKind.POINTER:
        return _pack_scalar(value, param, position)
    if value is None:
        return bytes(8)
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if is_whole and 0 <= value < 1 << 64:
        return int(value).to_bytes(8, "little")
    raise ArgumentError(
        f"argument {position} '{param.name}': {param.wants} needs an array, an address or None, "
        f"got {type(value).__name__}"
    )


def _pack_scalar(value: Any, param: SignatureParam, position: int) -> bytes:
    """The bytes of one by-value argument.

    Raises   ArgumentError   the value has another kind or size, or does not fit
    """
    where = f"argument {position} '{param.name}'"
    if isinstance(value, (bytes, bytearray, ctypes.Structure, np.void)):
        raw = value.tobytes() if isinstance(value, np.void) else bytes(memoryview(value))
        if len(raw) != param.size:
            raise ArgumentError(f"{where}: {param.wants} has {param.size} bytes, got {len(raw)}")
        return raw
    if isinstance(value, np.generic):
        return _pack_numpy(value, param, where)
    whole = (ParamKind.SIGNED, ParamKind.UNSIGNED, ParamKind.BOOL)
    if isinstance(value, (bool, int)) and param.kind in whole:
        signed = param.kind == ParamKind.SIGNED
        bits = 1 if param.kind == ParamKind.BOOL else 8 * param.size - signed
        low, high = -(1 << bits) if signed else 0, (1 << bits) - 1
        if not low <= value <= high:
            raise ArgumentError(
                f"{where}: {value} does not fit {param.wants}, which holds {low} to {high}"
            )
        return int(value).to_bytes(param.size, "little", signed=signed)
    floats = (ParamKind.FLOAT, ParamKind.HALF, ParamKind.BFLOAT16)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and param.kind in floats:
        return _pack_float(float(value), param, where)
    if param.kind == ParamKind.OTHER:
        raise ArgumentError(
            f"{where}: {param.wants} is passed as bytes or a ctypes structure of {param.size} "
            f"bytes, got {type(value).__name__}"
        )
    raise ArgumentError(f"{where}: {param.wants} cannot take the {type(value).__name__} {value!r}")


def _pack_float(value: float, param: SignatureParam, where: str) -> bytes:
    if param.kind == ParamKind.BFLOAT16:
        bits = int(np.float32(value).view(np.uint32))
        rounded = bits + 0x7FFF + (bits >> 16 & 1) if value == value else bits | 0x400000
        return (rounded >> 16 & 0xFFFF).to_bytes(2, "little")
    code = {2: "<e", 4: "<f", 8: "<d"}[param.size]
    try:
        return struct.pack(code, value)
    except OverflowError:
        raise ArgumentError(f"{where}: {value!r} does not fit {param.wants}") from None


def _pack_numpy(value: "np.generic[Any]", param: SignatureParam, where: str) -> bytes:
    kind, size = element_kind(value.dtype.name)
    if size != param.size or (kind != param.kind and param.kind != ParamKind.OTHER):
        raise ArgumentError(
            f"{where}: {param.wants} has {param.size} bytes and kind {param.kind.name.lower()}, "
            f"got numpy.{value.dtype.name} of {size} bytes"
        )
    return value.tobytes()


def _check(operand: Operand, param: SignatureParam, position: int, driver: Any) -> None:
    where = f"argument {position} '{param.name}'"
    if param.kind != ParamKind.POINTER:
        raise ArgumentError(f"{where}: {param.wants} is passed by value, got an array")
    if operand.dtype is not None and not param.accepts_element(operand.dtype):
        raise ArgumentError(f"{where}: {param.wants} cannot point to {operand.dtype} elements")
    if operand.on_host:
        if not operand.writable and not param.is_const:
            raise ArgumentError(
                f"{where}: {param.wants} may be written, and this array is read-only"
            )
        return
    if operand.device != "cuda":
        raise ArgumentError(
            f"{where}: the array is on device '{operand.device}', not 'cuda' or 'cpu'"
        )
    empty = operand.high == operand.low
    if not (operand.vouched or empty or driver.is_device_address(operand.address)):
        raise ArgumentError(
            f"{where}: address {operand.address:#x} is not memory of this device "
            "(an array of another one, or one from before a reset?)"
        )
