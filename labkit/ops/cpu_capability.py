"""Which of its compiled loops PyTorch takes on this processor, where the last bit shows it.

PyTorch holds every loop of the host several times, compiled for older and newer processors, and
takes the newest that runs. Random numbers show which: one instruction for a * b + c rounds once,
two round twice, and the loop with vectors has short polynomials in place of the C library.
"""

import functools
import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.ops.pointwise.fused_multiply_add import fused_multiply_add

CPUINFO = Path("/proc/cpuinfo")
ALWAYS_FUSES = ("aarch64", "arm64")
"""Machines whose compilers make one instruction of a * b + c without being asked."""


@functools.cache
def takes_avx2() -> bool:
    """True where PyTorch's loops are those for AVX2, or for AVX-512 and so AVX2 where none is.

    Source   aten/src/ATen/native/DispatchStub.cpp  compute_cpu_capability
    """
    if platform.machine() != "x86_64":
        return False
    asked = os.environ.get("ATEN_CPU_CAPABILITY")
    if asked in ("default", "avx2", "avx512"):
        return asked != "default"
    flags = re.search(r"^flags\s*:(.*)$", CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)
    return flags is not None and {"avx2", "fma"} <= set(flags[1].split())


def multiply_add(a: Any, b: Any, c: Any, dtype: Any = np.float32) -> NDArray[Any]:
    """The value of a * b + c as PyTorch's C++ computes it here, with one rounding or with two.

    dtype  float32 or float64, of the operands and of the result
    """
    if takes_avx2() or platform.machine() in ALWAYS_FUSES:
        return fused_multiply_add(a, b, c, dtype)
    a, b, c = (np.asarray(each, dtype) for each in (a, b, c))
    result: NDArray[Any] = a * b + c
    return result
