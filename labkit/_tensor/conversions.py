"""`x.float()`, `x.long()`: a method per element type.

Source   tools/autograd/templates/python_variable_methods.cpp  THPVariable_float
"""

from collections.abc import Callable
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat

_NAMES = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16,
    "int": dtypes.int32, "long": dtypes.int64, "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "float": dtypes.float32, "double": dtypes.float64,
    "cfloat": dtypes.complex64, "cdouble": dtypes.complex128, "chalf": dtypes.complex32,
}  # fmt: skip


def _method(name: str, dtype: DType) -> Callable[..., Any]:
    def convert(self: Any, memory_format: MemoryFormat = MemoryFormat.preserve_format) -> Any:
        return self.to(dtype, memory_format=memory_format)

    convert.__name__ = name
    convert.__qualname__ = f"Tensor.{name}"
    convert.__doc__ = f"The tensor as {dtype.name}; itself when it is that already."
    return convert


def install_conversions(tensor: type) -> None:
    """Give the class a method per element type."""
    for name, dtype in _NAMES.items():
        setattr(tensor, name, _method(name, dtype))
