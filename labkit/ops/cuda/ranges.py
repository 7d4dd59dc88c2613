"""Equally spaced numbers, made on the device.

Source   aten/src/ATen/native/cuda/RangeFactories.cu  arange_cuda_out
"""

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.elementwise_source import ELEMENTS, HEADERS
from labkit.ops.cuda.launching import NoKernel, launch_each, written

_TEXT = """\
{include}extern "C" __global__ void lab_range({element}* out, {number} start, {number} step,
                                     long long n) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = ({element})({narrow}(start + ({number})i * step));
}}
"""


def fill_range(out: TensorImpl, start: float, step: float) -> TensorImpl:
    """Element i of the row by row tensor is `start + i * step`, computed in 64 bits.

    Raises   NoKernel   an element type without one, or another layout
    """
    if out.dtype not in ELEMENTS or not out.is_contiguous():
        raise NoKernel(f"its kernel fills rows of numbers, and got {out.dtype.name}")
    floats = out.dtype.is_floating_point
    text = _TEXT.format(
        include=f"#include <{HEADERS[out.dtype]}>\n" if out.dtype in HEADERS else "",
        element=ELEMENTS[out.dtype],
        number="double" if floats else "long long",
        narrow="float" if out.dtype in HEADERS else "",
    )
    if out.numel():
        kind = float if floats else int
        count = out.numel()
        launch_each(text, "lab_range", count, written(out), kind(start), kind(step), count)
    return out
