"""One element's difference along a row, in C++: a loop of the CPU's around it, and a CUDA kernel.

Source   torch/headeronly/macros/Macros.h  C10_HOST_DEVICE
"""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from labkit.course.benches import kernel_bench
from labkit.course.exercise import handed_out
from labkit.course.exercises._cpp_matrix import NAN, compiled
from labkit.cuda.module import RawModule

FINISHED = """
C10_HOST_DEVICE double difference_at(const double* x, long i, long j, long cols, long row_step,
                                     long col_step) {
    const double* at = x + i * row_step + j * col_step;
    double right = j + 1 < cols ? at[col_step] : 0.0;
    double left = j > 0 ? at[-col_step] : 0.0;
    return right - left;
}
C10_HOST_DEVICE double difference_backward_at(const double* grad, long i, long j, long cols,
                                              long row_step, long col_step) {
    return -difference_at(grad, i, j, cols, row_step, col_step);
}
"""
LOOP = """
extern "C" void NAME(const double* x, long rows, long cols, long row_step, long col_step,
                     double* out) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < cols; j++)
            out[i * cols + j] = NAME_at(x, i, j, cols, row_step, col_step);
}
"""
KERNEL = """
extern "C" __global__ void NAME(const double* x, long rows, long cols, long row_step,
                                long col_step, double* out) {
    long n = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (n < rows * cols) out[n] = NAME_at(x, n / cols, n % cols, cols, row_step, col_step);
}
"""
THREADS = 64
_numbers = itertools.count()


@handed_out
def on_the_cpu(source: str, name: str) -> Any:
    """The C++ function of this name with the CPU's loop around it, as (x) -> a new matrix."""
    return compiled("#define C10_HOST_DEVICE\n" + source + LOOP.replace("NAME", name), name)


@handed_out
def on_the_device(source: str, name: str) -> Any:
    """The same function in a CUDA kernel, the last thread first, as (x) -> a new matrix."""
    code = _for_the_device(source, name)

    def call(x: Any) -> Any:
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).numpy()
        given = kernel_bench.Slab(memory, first=-x.storage_offset())
        out = np.full(x.numel(), NAN)
        sizes = (*x.shape, *x.stride())
        done = kernel_bench.launch(
            code, name, _blocks(x), THREADS, (given, *sizes, out), order="reverse"
        )
        if done.failure:
            raise RuntimeError(f"on the device: {done.failure}")
        return torch.from_numpy(done.arrays[1]).view(x.shape)

    return call


@handed_out
def _for_the_device(source: str, name: str) -> str:
    if unmarked := _of_the_host_alone(source):
        raise ValueError(
            f"no C10_HOST_DEVICE stands before {', '.join(unmarked)}: a kernel cannot call it"
        )
    return "#define C10_HOST_DEVICE __device__\n" + source + KERNEL.replace("NAME", name)


@handed_out
def _of_the_host_alone(source: str) -> list[str]:
    """The functions before which no C10_HOST_DEVICE stands; nvcc leaves them out of a kernel."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", "", source, flags=re.DOTALL | re.MULTILINE)
    body, found = re.compile(r"\{[^{}]*\}"), 1
    while found:
        code, found = body.subn("@", code)
    heads = re.findall(r"([^;@]*?)(\w+)\s*\([^()]*\)\s*@", code)
    return [name for before, name in heads if "C10_HOST_DEVICE" not in before]


@handed_out
def _blocks(x: Any) -> int:
    return -(-int(x.numel()) // THREADS)


def make_operator(source: Callable[[], str]) -> Any:
    """PyTorch's operator of such a source, for the CPU and for "lab"; x is [rows, cols].

    Its gradient is the source's second function.
    """
    text, number = source(), next(_numbers)
    difference, slope = (
        _registered(text, name, f"labkit_{name}::number_{number}")
        for name in ("difference", "difference_backward")
    )
    difference.register_autograd(lambda ctx, grad: slope(grad))
    return difference


def _registered(text: str, name: str, qualified: str) -> Any:
    host = on_the_cpu(text, name)

    def on_cpu(x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(host(x))

    def on_lab(x: torch.Tensor) -> torch.Tensor:
        kernel = RawModule(_for_the_device(text, name)).get_function(name)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        kernel(_blocks(x), THREADS, [x.data_ptr(), *x.shape, *x.stride(), out.data_ptr()])
        return out

    operator = torch.library.custom_op(qualified, on_cpu, mutates_args=(), device_types="cpu")
    operator.register_kernel("privateuseone", on_lab)
    operator.register_fake(lambda x: x.new_empty(x.shape))
    return operator
