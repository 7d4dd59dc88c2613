"""The limits of element types: `finfo` of floating ones, `iinfo` of whole ones.

Source   torch/csrc/TypeInfo.cpp
"""

from typing import Any

import numpy as np

from labkit.core.dtype import DType, bfloat16, to_real
from labkit.core.formats import largest_finite
from labkit.core.promotion import get_default_dtype


class finfo:
    """What numbers of a floating type, or of the parts of a complex one, can be.

    Raises   TypeError   another type
    """

    def __init__(self, dtype: DType | None = None) -> None:
        dtype = get_default_dtype() if dtype is None else dtype
        if not dtype.is_inexact:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"{dtype.name}"
            )
        real = to_real(dtype)
        self.dtype, self.bits = real.name, 8 * real.itemsize
        self.max = largest_finite(real)
        self.min = -self.max
        if real is bfloat16:
            self.eps, self.tiny, self.resolution = 2.0**-7, 2.0**-126, 0.01
        else:
            limits: Any = np.finfo(real.raw)
            self.eps, self.tiny = float(limits.eps), float(limits.tiny)
            self.resolution = 10.0 ** -int(limits.precision)
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        shown = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({shown}, dtype={self.dtype})"


class iinfo:
    """What numbers of an integer type can be.

    Raises   TypeError   another type
    """

    def __init__(self, dtype: DType) -> None:
        if not dtype.is_integral:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                f"{dtype.name}"
            )
        limits = np.iinfo(dtype.raw)
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
