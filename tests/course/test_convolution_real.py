import math

import numpy as np

from labkit.course import conv_bench
from labkit.course.exercises.convolution_real import FIRST, ORDERS, REGULAR
from tests.course.answers import Answers

answers = Answers("convolution_real")


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


BACKWARD = """extern "C" __global__
void backward_input(const float* dy, const float* w, float* dx, Conv conv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= conv.N * conv.C * conv.H * conv.W) return;
    const int v = i % conv.W, h = i / conv.W % conv.H;
    const int c = i / conv.W / conv.H % conv.C, n = i / conv.W / conv.H / conv.C;
    const int channels = conv.C / conv.groups, outputs = conv.K / conv.groups;
    const int group = c / channels;
    float sum = 0;
    for (int k = group * outputs; k < (group + 1) * outputs; ++k)
        for (int r = 0; r < conv.R; ++r)
            for (int s = 0; s < conv.S; ++s) {
                const int down = h + conv.pad_h - r * conv.dilation_h;
                const int across = v + conv.pad_w - s * conv.dilation_w;
                if (down < 0 || across < 0) continue;
                if (down % conv.stride_h || across % conv.stride_w) continue;
                const int p = down / conv.stride_h, q = across / conv.stride_w;
                if (p >= conv.P || q >= conv.Q) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       w[((k * channels + c % channels) * conv.R + r) * conv.S + s];
            }
    dx[i] = sum;
}

extern "C" __global__
void backward_weight(const float* x, const float* dy, float* dw, Conv conv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int channels = conv.C / conv.groups, outputs = conv.K / conv.groups;
    if (i >= conv.K * channels * conv.R * conv.S) return;
    const int s = i % conv.S, r = i / conv.S % conv.R;
    const int c = i / conv.S / conv.R % channels, k = i / conv.S / conv.R / channels;
    const int from = k / outputs * channels + c;
    float sum = 0;
    for (int n = 0; n < conv.N; ++n)
        for (int p = 0; p < conv.P; ++p)
            for (int q = 0; q < conv.Q; ++q) {
                const int h = p * conv.stride_h - conv.pad_h + r * conv.dilation_h;
                const int v = q * conv.stride_w - conv.pad_w + s * conv.dilation_w;
                if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       x[((n * conv.C + from) * conv.H + h) * conv.W + v];
            }
    dw[i] = sum;
}

extern "C" __global__ void backward_bias(const float* dy, float* db, Conv conv) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= conv.K) return;
    float sum = 0;
    for (int n = 0; n < conv.N; ++n)
        for (int i = 0; i < conv.P * conv.Q; ++i)
            sum += dy[(n * conv.K + k) * conv.P * conv.Q + i];
    db[k] = sum;
}
"""

answers.right("conv_backward")(changed(BACKWARD))
answers.right("conv_backward")(  # every output asked instead of every tap
    changed(
        BACKWARD,
        (
            BACKWARD[BACKWARD.index("        for (int r") : BACKWARD.index("    dx[i]")],
            """        for (int p = 0; p < conv.P; ++p)
            for (int q = 0; q < conv.Q; ++q) {
                const int down = h + conv.pad_h - p * conv.stride_h;
                const int across = v + conv.pad_w - q * conv.stride_w;
                const int r = down / conv.dilation_h, s = across / conv.dilation_w;
                if (down < 0 || r * conv.dilation_h != down || r >= conv.R) continue;
                if (across < 0 || s * conv.dilation_w != across || s >= conv.S) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       w[((k * channels + c % channels) * conv.R + r) * conv.S + s];
            }
""",
        ),
    )
)


def wrong(why, *changes):
    answers.wrong("conv_backward", why)(changed(BACKWARD, *changes))


REMAINDER = "                if (down % conv.stride_h || across % conv.stride_w) continue;\n"
wrong("stride above 1 wrong", (REMAINDER, ""))
wrong(
    "stride above 1 wrong",
    (REMAINDER, ""),
    ("p = down / conv.stride_h, q = across / conv.stride_w", "p = down, q = across"),
)
wrong(
    "weight flipped twice",
    ("* conv.R + r) * conv.S + s];\n            }\n    dx", "* conv.R + conv.R - 1 - r) * conv.S + "
     "conv.S - 1 - s];\n            }\n    dx"),
)  # fmt: skip
wrong(
    "atomics with random order beyond tolerance",
    ("float sum = 0;\n    for (int n = 0; n < conv.N; ++n)\n        for (int p", "dw[i] = 0;\n"
     "    for (int n = 0; n < conv.N; ++n)\n        for (int p"),
    ("sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *\n                       x[",
     "atomicAdd(dw + i, dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *\n        x["),
    ("conv.H + h) * conv.W + v];", "conv.H + h) * conv.W + v]);"),
    ("    dw[i] = sum;\n", ""),
)  # fmt: skip
wrong("groups mixed", ("const int from = k / outputs * channels + c;", "const int from = c;"))
wrong(
    "groups mixed",
    ("int k = group * outputs; k < (group + 1) * outputs;", "int k = 0; k < conv.K;"),
)
wrong(
    "bias gradient over the wrong axes",
    ("dy[(n * conv.K + k) * conv.P * conv.Q + i]", "dy[(k * conv.N + n) * conv.P * conv.Q + i]"),
)
wrong(
    "bias gradient over the wrong axes",
    ("for (int n = 0; n < conv.N; ++n)\n        for (int i", "for (int n = 0; n < 1; ++n)\n"
     "        for (int i"),
)  # fmt: skip
wrong(
    "returns NaN or an uninitialised buffer where a value is expected",
    ("    dx[i] = sum;", "    if (sum != 0) dx[i] = sum;"),
)
wrong(
    FIRST,
    ('extern "C" __global__ void backward_bias', "__device__ float kept[512];\n"
     '__device__ int have;\nextern "C" __global__ void backward_bias'),
    ("    db[k] = sum;", "    if (have == 0) kept[k % 512] = sum;\n    __syncthreads();\n"
     "    have = 1;\n    db[k] = kept[k % 512];"),
)  # fmt: skip
wrong(
    "is right only for square, even or contiguous shapes",
    ("s < conv.S; ++s) {\n                const int down", "s < conv.R; ++s) {\n"
     "                const int down"),
)  # fmt: skip
wrong(
    "is right only for square, even or contiguous shapes",
    ("conv.C + from) * conv.H + h) * conv.W", "conv.C + from) * conv.W + h) * conv.W"),
)  # fmt: skip


GEMM = """template <typename T> __global__
void conv2d_gemm(const T* x, const T* w, T* y, Conv conv) {
    __shared__ T left[16][33], right[16][32];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int plane = conv.P * conv.Q, depth = conv.C * conv.R * conv.S;
    const int positions = conv.N * plane, first = blockIdx.x * 32, first_k = blockIdx.y * 32;
    const int column = t % 32, at = first + column;
    const int n = at / plane, p = at % plane / conv.Q, q = at % conv.Q;
    T sum[2][2] = {};
    for (int slab = 0; slab < depth; slab += 16) {
        for (int j = 0; j < 2; ++j) {
            const int d = slab + t / 32 + 8 * j;
            const int c = d / conv.R / conv.S, r = d / conv.S % conv.R, s = d % conv.S;
            const int h = p * conv.stride_h - conv.pad_h + r * conv.dilation_h;
            const int v = q * conv.stride_w - conv.pad_w + s * conv.dilation_w;
            const bool in = d < depth && at < positions && h >= 0 && h < conv.H && v >= 0 &&
                            v < conv.W;
            right[t / 32 + 8 * j][column] = in ? x[((n * conv.C + c) * conv.H + h) * conv.W + v]
                                               : T(0);
            const int k = first_k + ty + 16 * j, e = slab + tx;
            left[tx][ty + 16 * j] = k < conv.K && e < depth ? w[k * depth + e] : T(0);
        }
        __syncthreads();  // loaded
        for (int d = 0; d < 16; ++d) {
            const T a0 = left[d][ty], a1 = left[d][ty + 16];
            const T b0 = right[d][tx], b1 = right[d][tx + 16];
            sum[0][0] += a0 * b0, sum[0][1] += a0 * b1, sum[1][0] += a1 * b0, sum[1][1] += a1 * b1;
        }
        __syncthreads();  // used
    }
    for (int j = 0; j < 2; ++j) {
        const int to = first + tx + 16 * j;
        if (to >= positions) continue;
        for (int i = 0; i < 2; ++i) {
            const int k = first_k + ty + 16 * i;
            if (k < conv.K) y[(to / plane * conv.K + k) * plane + to % plane] = sum[i][j];
        }
    }
}
"""

answers.right("implicit_gemm_rung")(changed(GEMM))
answers.right("implicit_gemm_rung")(
    changed(
        GEMM,
        ("left[16][33]", "left[16][34]"),
        ("int d = 0; d < 16; ++d", "int d = 15; d >= 0; --d"),
    )
)  # fmt: skip


def wrong_product(why, *changes):
    answers.wrong("implicit_gemm_rung", why)(changed(GEMM, *changes))


wrong_product(
    "materialises the matrix",
    ("template <typename T>", "__device__ double matrix[1 << 20];\ntemplate <typename T>"),
    (
        "        __syncthreads();  // loaded\n",
        """        __syncthreads();  // loaded
        if (blockIdx.y == 0)
            for (int j = 0; j < 2; ++j)
                matrix[((slab + t / 32 + 8 * j) * 997 + at) % (1 << 20)] =
                    right[t / 32 + 8 * j][column];
""",
    ),
)
wrong_product(
    "tile without guard for ragged K",
    ("const bool in = d < depth && at", "const bool in = at"),
    ("k < conv.K && e < depth ?", "k < conv.K ?"),
)
wrong_product(
    "tile without guard for ragged K", ("            if (k < conv.K) y[", "            y[")
)
wrong_product(
    "recomputes divisions in the inner loop (instruction counter gate)",
    (
        "            const T a0 = left[d][ty], a1 = left[d][ty + 16];\n",
        """            const int c = (slab + d) / conv.R / conv.S;
            const T a0 = c < conv.C ? left[d][ty] : T(0), a1 = c < conv.C ? left[d][ty + 16] : T(0);
""",
    ),
)
wrong_product("bank conflict 8", ("left[16][33]", "left[16][48]"))
wrong_product(
    "one shape only",
    ("depth = conv.C * conv.R * conv.S", "depth = conv.C * 9"),
    ("d / conv.R / conv.S, r = d / conv.S % conv.R", "d / 9, r = d / 3 % 3"),
    ("s = d % conv.S", "s = d % 3"),
)  # fmt: skip
wrong_product(ORDERS, ("        __syncthreads();  // used\n", ""))
wrong_product(ORDERS, ("        __syncthreads();  // loaded\n", ""))
wrong_product(
    "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ("    T sum[2][2] = {};", "    float sum[2][2] = {};"),
)

test_answers = answers.tests()


def test_lanes_along_the_wrong_axis_of_w_exceed_the_gate():
    """Lanes take other rows of w: right values, more than twice the sectors."""
    from labkit.course.exercises import convolution_real

    text = changed(
        GEMM,
        ("const int k = first_k + ty + 16 * j, e = slab + tx;",
         "const int k = first_k + tx + 16 * j, e = slab + ty;"),
        ("left[tx][ty + 16 * j] =", "left[ty][tx + 16 * j] ="),
    )  # fmt: skip
    exercise = convolution_real.implicit_gemm_rung
    inputs = (REGULAR, "float", "forward", 1)
    found = exercise.drive(text, *inputs)
    assert found.pop("sectors per multiply-add") == "0.019, gate 0.016"
    assert all(value == convolution_real.PRODUCT[key] for key, value in found.items())


def test_the_tolerance_is_far_below_one_product():
    """No answer with a product too few passes for rounding."""
    conv = REGULAR
    x, w, _ = conv_bench.data(conv, 3)
    right = conv_bench.right(conv, x, w)
    less = (right - np.float64(x[0, 0, 0, 0]) * w[0, 0, 1, 1] * 1e-1).astype(np.float32)
    assert conv_bench.first_wrong(right.astype(np.float32), right, conv.depth) == ""
    assert conv_bench.first_wrong(less, right, conv.depth).startswith(f"{math.prod(conv.y)} of")
