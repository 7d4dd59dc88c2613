"""Kernels whose results are right and whose lanes do not work together: every check sees it."""

import pytest

from labkit.course.benches import kernel_bench
from labkit.course.checks import failing_cases
from labkit.course.exercises import find
from tests.course import test_convolution_repair as repair

SAXPY = """template <typename T>
__global__ void saxpy(const T* x, T* y, T a, long long first, long long n) {
    const long long start = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    WHO
    for (long long i = first + FROM; i < n; i += STEP) y[i] = a * x[i] + y[i];
}
"""
ALONE = [("WHO", "if (start) return;"), ("FROM", "0"), ("STEP", "1")]
LEADERS = [
    ("WHO", "if (threadIdx.x % 32) return;"),
    ("FROM", "start / 32"),
    ("STEP", "gridDim.x * (long long)((blockDim.x + 31) / 32)"),
]


def saxpy(changes):
    text = SAXPY
    for old, new in changes:
        text = text.replace(old, new)
    return lambda: text


INDEX = "    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
GUARD = "    if (i >= (long long)conv.N * conv.K * conv.P * conv.Q) return;\n"
ALL = "    for (long long i = 0; i < (long long)conv.N * conv.K * conv.P * conv.Q; ++i) {\n"
HERE = "    const long long own = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
MINE = "i < own + 32 && i < (long long)conv.N * conv.K * conv.P * conv.Q; ++i) {\n"


def looped(head):
    text = repair.REPAIRED.replace(INDEX + GUARD, head)
    assert text != repair.REPAIRED
    return lambda: text.rstrip() + "\n}\n"


one_thread = looped(f"{HERE}    if (own) return;\n{ALL}")
lane_zero = looped(f"{HERE}    if (threadIdx.x % 32) return;\n    for (long long i = own; {MINE}")
half_a_dozen = looped(
    f"{HERE}    if (threadIdx.x % 32 > 5) return;\n    for (long long i = own;"
    " i < own - own % 32 + 32 && i < (long long)conv.N * conv.K * conv.P * conv.Q; i += 6) {\n"
)

TILE_BY_ONE = """extern "C" __global__
void conv2d_tile(const float* x, const float* w, float* y, Conv conv) {
    extern __shared__ float patch[];
    const int width = blockDim.x + conv.S - 1, height = blockDim.y + conv.R - 1;
    const int k = blockIdx.z % conv.K, n = blockIdx.z / conv.K;
    if (threadIdx.x || threadIdx.y) return;
    const int q0 = blockIdx.x * blockDim.x, p0 = blockIdx.y * blockDim.y;
    const int left = q0 - conv.pad_w, top = p0 - conv.pad_h;
    for (int c = 0; c < conv.C; ++c) {
        for (int i = 0; i < width * height; ++i) {
            const int h = top + i / width, v = left + i % width;
            const bool in = h >= 0 && h < conv.H && v >= 0 && v < conv.W;
            patch[i] = in ? x[((n * conv.C + c) * conv.H + h) * conv.W + v] : 0;
        }
        for (int j = 0; j < blockDim.x * blockDim.y; ++j) {
            const int p = p0 + j / blockDim.x, q = q0 + j % blockDim.x;
            if (p >= conv.P || q >= conv.Q) continue;
            float sum = 0;
            for (int r = 0; r < conv.R; ++r)
                for (int s = 0; s < conv.S; ++s)
                    sum += patch[(p - p0 + r) * width + q - q0 + s] *
                           w[((k * conv.C + c) * conv.R + r) * conv.S + s];
            float* out = &y[(((long long)n * conv.K + k) * conv.P + p) * conv.Q + q];
            *out = c ? *out + sum : sum;
        }
    }
}
"""

COPIED_BY_ONE = """extern "C" __global__
void nchw_to_nhwc(const ITEM* x, ITEM* y, int channels, int pixels) {
    for (int p = 0; p < pixels; ++p)
        for (int c = 0; c < channels; ++c)
            y[((long long)blockIdx.z * pixels + p) * channels + c] =
                x[((long long)blockIdx.z * channels + c) * pixels + p];
}
"""

BY_EIGHT = COPIED_BY_ONE.replace(
    "c = 0; c < channels; ++c", "c = threadIdx.x; c < channels; c += 8"
)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("first_kernel.saxpy", saxpy(ALONE)),
        ("first_kernel.saxpy", saxpy(LEADERS)),
        ("convolution_repair.repair_the_conv", one_thread),
        ("convolution_repair.repair_the_conv", lane_zero),
        ("convolution_repair.repair_the_conv", half_a_dozen),
        ("convolution_repair.halo_tile", lambda: TILE_BY_ONE),
        ("memory_layout.reorder_kernel", (COPIED_BY_ONE, lambda n, c, h, w: ((1, 1, n), (1,)))),
        ("memory_layout.reorder_kernel", (BY_EIGHT, lambda n, c, h, w: ((1, 1, n), (8,)))),
    ],
)
def test_few_lanes_that_do_everything_are_seen(exercise, answer):
    (evidence,) = failing_cases(find(exercise), answer, 11, search=False)
    assert evidence.value["lanes"] != kernel_bench.ALL_LANES


def test_the_fewest_requests_are_counted_per_warp():
    assert kernel_bench.warps((2, 3, 1), (32, 8, 1)) == 6 * 8
    assert kernel_bench.warps((1, 1, 1), (7, 1, 1)) == 1
