"""Arguments and launch sizes: right ones run, wrong ones are named before anything runs."""

import ctypes

import numpy as np
import pytest
import torch

import labkit.cuda as cuda
from labkit.cuda.errors import ArgumentError, InvalidLaunchError, InvalidValueError

CODE = r"""
struct Pair { float scale; int shift; };
extern "C" __global__ void affine(const float* __restrict__ x, float* y, Pair p, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * p.scale + p.shift;
}
extern "C" __global__ void __launch_bounds__(64) where(int* out) {
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = t + 1000 * b;
}
template <class T, int n> __global__ void fill(T* x, T value) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
extern "C" __global__ void small(unsigned char u, short s, bool flag, double d, double* out) {
    out[0] = u; out[1] = s; out[2] = flag; out[3] = d;
}
extern "C" __global__ void dynamic(int* out) {
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def module(emulator):
    return cuda.RawModule(
        CODE,
        name_expressions=[
            "affine",
            "where",
            "fill<float, 7>",
            "fill<double, 3>",
            "small",
            "dynamic",
        ],
    )


class Pair(ctypes.Structure):
    _fields_ = (("scale", ctypes.c_float), ("shift", ctypes.c_int))


def test_a_launch_with_host_arrays_copies_there_and_back(module):
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    y = np.full(1000, np.nan, np.float32)
    module.get_function("affine")((4,), (256,), (x, y, Pair(2.0, 3), 1000))
    np.testing.assert_allclose(y, x * 2 + 3, rtol=1e-6)


def test_torch_tensors_on_the_host_work_as_numpy_arrays_do(module):
    x, y = torch.randn(10), torch.empty(10)
    module.get_function("affine")(1, 32, (x, y, Pair(1.0, 1), 10))
    torch.testing.assert_close(y, x + 1)


def test_an_empty_view_is_an_array_of_nothing(module):
    for empty in (torch.zeros(2)[2:], np.zeros(2, np.float32)[2:]):
        module.get_function("affine")(1, 32, (empty, empty, Pair(1.0, 1), 0))


def test_views_of_one_array_stay_views(module):
    memory = np.arange(20, dtype=np.float32)
    module.get_function("affine")(1, 1, (memory, memory[1:], Pair(1.0, 10), 1))
    module.get_function("affine")(1, 1, (memory[1:], memory[2:], Pair(1.0, 10), 1))
    np.testing.assert_array_equal(memory[:4], [0, 10, 20, 3])


@pytest.mark.parametrize("order", ["forward", "reverse", 7])
def test_every_thread_of_every_block_runs_once(module, order):
    out = np.full(3 * 2 * 2 * 24, -1, np.int32)
    module.get_function("where")((3, 2, 2), (4, 3, 2), (out,), order=order)
    np.testing.assert_array_equal(
        out.reshape(12, 24), np.arange(24) + 1000 * np.arange(12)[:, None]
    )


def test_template_instances_are_found_by_their_expressions(module):
    x, y = np.zeros(7, np.float32), np.zeros(4)
    module.get_function("fill<float, 7>")(1, 2, (x, 1.5))
    module.get_function("fill<double, 3>")(1, 2, (y, 2.5))
    assert x.tolist() == [1.5] * 7
    assert y.tolist() == [2.5] * 3 + [0]


def test_scalars_of_all_sizes_arrive(module):
    out = np.zeros(4)
    module.get_function("small")(1, 1, (200, np.int16(-5), True, 0.1, out))
    assert out.tolist() == [200, -5, 1, 0.1]


def test_dynamic_shared_memory_is_as_large_as_asked(module):
    out = np.zeros(64, np.int32)
    kernel = module.get_function("dynamic")
    kernel(1, 64, (out,), shared_mem=256)
    assert out.tolist() == list(range(63, -1, -1))
    with pytest.raises(InvalidLaunchError, match="at most 49152"):
        kernel(1, 64, (out,), shared_mem=50_000)
    kernel.max_dynamic_shared_size_bytes = 100_000
    kernel(1, 64, (out,), shared_mem=50_000)
    with pytest.raises(InvalidLaunchError, match="0 to 232448"):
        kernel.max_dynamic_shared_size_bytes = 300_000


F, D = np.zeros(4, np.float32), np.zeros(4)
READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("affine", (F, F, Pair()), r"affine takes 4 arguments \(const float\* .*got 3"),
        ("affine", (D, F, Pair(), 1), r"argument 0 'x'.*cannot point to float64"),
        ("affine", (F, READ_ONLY, Pair(), 1), r"argument 1 'y'.*read-only"),
        ("affine", (F, F, b"1234", 1), r"argument 2 'p': Pair has 8 bytes, got 4"),
        ("affine", (F, F, 3, 1), r"argument 2 'p'.*structure of 8 bytes, got int"),
        ("affine", (F, F, Pair(), 1.5), r"argument 3 'n': long long cannot take the float 1.5"),
        ("affine", (F, F, Pair(), np.int32(1)), r"argument 3 'n'.*8 bytes.*numpy.int32 of 4"),
        ("affine", (F, F, Pair(), F), r"argument 3 'n'.*by value, got an array"),
        ("affine", (1.5, F, Pair(), 1), r"argument 0 'x'.*needs an array.*got float"),
        ("small", (256, 0, True, 0.0, D), r"argument 0 'u': 256 does not fit unsigned char"),
        ("small", (0, 40_000, True, 0.0, D), r"argument 1 's'.*-32768 to 32767"),
        ("small", (0, 0, True, 0.0, torch.zeros(4)), r"argument 4 'out'.*float32"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_by_name(module, kernel, args, message):
    with pytest.raises(ArgumentError, match=message):
        module.get_function(kernel)(1, 1, args)


def test_an_array_on_another_device_is_refused(module):
    class Elsewhere:
        @property
        def __cuda_array_interface__(self):
            pointer = (0x7F0000000000, False)
            return {"shape": (4,), "typestr": "<f4", "data": pointer, "version": 3}

    with pytest.raises(
        ArgumentError, match=r"argument 0 'x': address 0x7f0000000000 is not memory"
    ):
        module.get_function("affine")(1, 1, (Elsewhere(), F, Pair(), 1))


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (1, 65, "__launch_bounds__ allow 64 threads per block, got 65"),
        (1, (32, 33), "at most 1024 threads"),
        (1, (1, 1, 65), r"block\.z is at most 64, got 65"),
        ((1, 65536), 1, r"grid\.y is at most 65535"),
        (2**31, 1, r"grid\.x is at most 2147483647"),
        (0, 1, r"grid\.x is at least 1, got 0"),
        (1, (4, 0), r"block\.y is at least 1"),
        (1.0, 1, r"grid\.x is an int, got 1\.0"),
        ((1, 1, 1, 1), 1, "1 to 3 sizes"),
    ],
)
def test_wrong_launch_sizes_are_refused_with_the_limit(module, grid, block, message):
    with pytest.raises(InvalidLaunchError, match=message):
        module.get_function("where")(grid, block, (np.zeros(64, np.int32),))


def test_a_missing_kernel_says_which_there_are(module):
    with pytest.raises(InvalidValueError, match=r"no kernel 'nothing', only \['affine'"):
        module.get_function("nothing")
    with pytest.raises(
        InvalidValueError, match=r"'fill' is a template: list it in name_expressions"
    ):
        module.get_function("fill")


def test_a_kernel_without_extern_c_needs_a_name_expression(emulator):
    with pytest.raises(InvalidValueError, match='not extern "C"'):
        cuda.RawModule("__global__ void plain(int* x) { *x = 1; }").get_function("plain")
