"""The lower or upper triangle of matrices; zeros elsewhere.

Source   aten/src/ATen/native/cuda/TriangularOps.cu
"""

from typing import Any

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_device, launch_each, read, written
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.tensors import copy

BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
"""Bytes of an element -> the type it is moved as, unread."""

_TEXT = """\
// x and out [n / (rows * cols), rows, cols]; kept: at or below the diagonal, or at or above it
extern "C" __global__ void lab_triangle({bits}* out, const {bits}* x, long long n, long long rows,
                                        long long cols, long long diagonal, bool upper) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long above = i % cols - i / cols % rows - diagonal;
    out[i] = (upper ? above >= 0 : above <= 0) ? x[i] : ({bits})0;
}}
"""


def _triangle(name: str, upper: bool) -> Any:
    def triangle(self: TensorImpl, diagonal: int = 0) -> TensorImpl:
        check_device(self)
        if self.dim() < 2 or self.itemsize not in BITS:
            raise NoKernel(f"its kernel takes matrices of plain numbers, not {self.dtype.name}")
        result = tensor_impl.empty(self.sizes, self.dtype, self.device)
        if result.numel():
            x = copy.contiguous(self)
            text, count, into = _TEXT.format(bits=BITS[self.itemsize]), x.numel(), written(result)
            shape = (count, *self.sizes[-2:])
            launch_each(text, "lab_triangle", count, into, read(x), *shape, diagonal, upper)
        return result

    return device_kernel(name)(triangle)


tril, triu = _triangle("tril", False), _triangle("triu", True)
