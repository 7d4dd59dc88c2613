"""A kernel's parameters, and turning Python values into the bytes it is launched with."""

import ctypes
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from labkit.cuda.errors import ArgumentError


class ParamKind(IntEnum):
    """What a parameter, or what it points to, is; the order is that of `cuemu/abi.h`."""

    POINTER, SIGNED, UNSIGNED, FLOAT, BOOL, OTHER, HALF, BFLOAT16 = range(8)


_NUMPY_KINDS = {
    "i": ParamKind.SIGNED,
    "u": ParamKind.UNSIGNED,
    "f": ParamKind.FLOAT,
    "b": ParamKind.BOOL,
}
_WORDS = {ParamKind.SIGNED: "int", ParamKind.UNSIGNED: "uint", ParamKind.FLOAT: "float"}


def element_kind(dtype: str) -> tuple[ParamKind, int]:
    """(kind, bytes) of a dtype by its NumPy or PyTorch name; OTHER for what kernels do not name."""
    name = dtype.removeprefix("torch.")
    if name == "bfloat16":
        return ParamKind.BFLOAT16, 2
    try:
        numpy_type = np.dtype(name)
    except TypeError:
        return ParamKind.OTHER, 0
    if numpy_type == np.float16:
        return ParamKind.HALF, 2
    return _NUMPY_KINDS.get(numpy_type.kind, ParamKind.OTHER), numpy_type.itemsize


@dataclass(frozen=True)
class SignatureParam:
    """One parameter: its size, and what kind of value or of pointee it takes."""

    name: str
    type: str
    size: int
    kind: ParamKind
    pointee_kind: ParamKind = ParamKind.OTHER
    pointee_size: int = 0
    is_const: bool = False

    @property
    def wants(self) -> str:
        """The parameter in words, for messages."""
        if self.type:
            return self.type
        if self.kind == ParamKind.POINTER:
            return f"pointer to {_WORDS.get(self.pointee_kind, 'element')}{8 * self.pointee_size}"
        return f"{_WORDS.get(self.kind, 'struct of')} {self.size} bytes"

    def accepts_element(self, dtype: str) -> bool:
        """True when an array of `dtype` may stand behind this pointer."""
        kind, size = element_kind(dtype)
        if ParamKind.OTHER in (kind, self.pointee_kind):
            return True  # float4* over float32, void*, a struct: the kernel knows
        if size == 1 and self.pointee_size == 1:
            return True  # bool, int8 and uint8 share their bytes
        return (kind, size) == (self.pointee_kind, self.pointee_size)


@dataclass(frozen=True)
class Signature:
    """All parameters of a kernel, in order."""

    params: tuple[SignatureParam, ...]

    def describe(self) -> str:
        """`(const float* x, int n)`"""
        return "(" + ", ".join(f"{p.wants} {p.name}" for p in self.params) + ")"


def pack_scalar(value: Any, param: SignatureParam, position: int) -> bytes:
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
    if isinstance(value, (bool, int)) and param.kind in (
        ParamKind.SIGNED,
        ParamKind.UNSIGNED,
        ParamKind.BOOL,
    ):
        signed = param.kind == ParamKind.SIGNED
        low, high = (
            (-(1 << 8 * param.size - 1), (1 << 8 * param.size - 1) - 1)
            if signed
            else (0, (1 << 8 * param.size) - 1)
        )
        if param.kind == ParamKind.BOOL:
            high = 1
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
