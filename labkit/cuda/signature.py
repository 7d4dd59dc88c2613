"""A kernel's parameters: what each of them takes."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np


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
