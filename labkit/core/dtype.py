"""What the bytes of an element mean: one `DType` per dense element type of PyTorch.

Differs  the one-byte floats, float8_e4m3fn and its four neighbours, are left out
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

Kind = Literal["bool", "unsigned", "signed", "floating", "complex"]


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """An element type; compared by identity, as `torch.dtype` is.

    name      PyTorch's name, such as "bfloat16"
    kind      what the number is
    itemsize  bytes of one element
    raw       the NumPy type that carries the bytes unchanged; an unsigned integer where NumPy
              has no such number (`labkit.core.formats` then reads and writes the values)

    Source   torch/headeronly/core/ScalarType.h  ScalarType
    """

    name: str
    kind: Kind
    itemsize: int
    raw: np.dtype[Any] = field(compare=False)
    numpy: np.dtype[Any] | None = field(init=False, compare=False, repr=False)
    """The NumPy type with the same values, or None where NumPy has none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numpy", self.raw if self.name == self.raw.name else None)

    @cached_property
    def is_floating_point(self) -> bool:
        """True for the real floating types."""
        return self.kind == "floating"

    @cached_property
    def is_complex(self) -> bool:
        """True for pairs of a real and an imaginary part."""
        return self.kind == "complex"

    @cached_property
    def is_inexact(self) -> bool:
        """True for the types that have derivatives: the floating and the complex ones.

        Source   torch/csrc/autograd/variable.h  isDifferentiableType
        """
        return self.is_floating_point or self.is_complex

    @cached_property
    def is_integral(self) -> bool:
        """True for the whole numbers, `bool` not among them."""
        return self.kind in ("signed", "unsigned")

    @cached_property
    def is_signed(self) -> bool:
        """True when a value below zero has a representation."""
        return self.kind not in ("bool", "unsigned")

    def __repr__(self) -> str:
        return f"labkit.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:  # a copy or an unpickled one is the same object
        return dtype, (self.name,)


def _dtype(name: str, kind: Kind, itemsize: int, raw: str | None = None) -> DType:
    return DType(name, kind, itemsize, np.dtype(raw or name))


bool_ = _dtype("bool", "bool", 1)
uint8 = _dtype("uint8", "unsigned", 1)
int8 = _dtype("int8", "signed", 1)
int16 = _dtype("int16", "signed", 2)
int32 = _dtype("int32", "signed", 4)
int64 = _dtype("int64", "signed", 8)
uint16 = _dtype("uint16", "unsigned", 2)
uint32 = _dtype("uint32", "unsigned", 4)
uint64 = _dtype("uint64", "unsigned", 8)
float16 = _dtype("float16", "floating", 2)
bfloat16 = _dtype("bfloat16", "floating", 2, "uint16")
float32 = _dtype("float32", "floating", 4)
float64 = _dtype("float64", "floating", 8)
complex32 = _dtype("complex32", "complex", 4, "uint32")
complex64 = _dtype("complex64", "complex", 8)
complex128 = _dtype("complex128", "complex", 16)

DTYPES: dict[str, DType] = {
    value.name: value for value in list(globals().values()) if isinstance(value, DType)
}
"""Every element type, by PyTorch's name."""

_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "short": "int16",
            "int": "int32", "long": "int64", "chalf": "complex32", "cfloat": "complex64",
            "cdouble": "complex128"}  # fmt: skip
NAMES = DTYPES | {alias: DTYPES[name] for alias, name in _ALIASES.items()}
"""Every element type by each of its names."""
_REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF = {real: cplx for cplx, real in _REAL_OF.items()}
_FROM_NUMPY = {value.raw: value for value in DTYPES.values() if value.numpy is not None}


def dtype(name: str | DType) -> DType:
    """The element type of that name; PyTorch's short names ("half", "long") count too.

    Raises   TypeError   no such element type
    """
    if isinstance(name, DType):
        return name
    found = NAMES.get(name) if isinstance(name, str) else None
    if found is None:
        raise TypeError(f"no dtype {name!r}; there are {', '.join(DTYPES)}")
    return found


def from_numpy_dtype(numpy_dtype: np.dtype[Any]) -> DType:
    """The element type with the same values as a NumPy type.

    Raises   TypeError   PyTorch has no such element type (strings, objects, dates, long double)
    """
    native = np.dtype(numpy_dtype)
    found = _FROM_NUMPY.get(native) if native.isnative else None
    if found is None:
        supported = ", ".join(str(key) for key in _FROM_NUMPY)
        raise TypeError(f"can't convert np.ndarray of type {native}; supported are {supported}")
    return found


def to_real(of: DType) -> DType:
    """The type of one part of a complex number; other types are returned as they are."""
    return _REAL_OF.get(of, of)


def to_complex(of: DType) -> DType:
    """The complex type whose parts are `of`.

    Raises   TypeError   there is no such complex type
    """
    if of in _REAL_OF:
        return of
    if of not in _COMPLEX_OF:
        raise TypeError(f"no complex type has parts of {of}")
    return _COMPLEX_OF[of]
