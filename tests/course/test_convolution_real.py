import math

import numpy as np
import pytest

from labkit.course.benches import conv_bench
from labkit.course.exercises import _gemm_rung
from labkit.course.exercises._conv_cases import ORDERS
from labkit.course.exercises._gemm_rung import REGULAR
from tests.course.answers import Answers, first_hint

answers = Answers("convolution_real")


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


# --- product_size, matrix_entry


@answers.right("product_size")
def product_size(x, w, out_size):
    return w[0], x[0] * out_size[0] * out_size[1], w[1] * w[2] * w[3]


for why, answer in [
    ("forgets the images", lambda x, w, out: (w[0], out[0] * out[1], w[1] * w[2] * w[3])),
    ("forgets the taps", lambda x, w, out: (w[0], x[0] * out[0] * out[1], w[1])),
    (
        "takes the size of x for that of y",
        lambda x, w, out: (w[0], x[0] * x[2] * x[3], w[1] * w[2] * w[3]),
    ),
]:
    answers.wrong("product_size", why)(answer)


@answers.right("matrix_entry")
def matrix_entry(d, column, conv):
    (_, _, height, width), (_, _, rows, taps) = conv.x, conv.w
    (down, across), (P, Q) = conv.stride, conv.out_size
    c, r, s = d // (rows * taps), d // taps % rows, d % taps
    n, p, q = column // (P * Q), column // Q % P, column % Q
    h = p * down - conv.padding[0] + r * conv.dilation[0]
    v = q * across - conv.padding[1] + s * conv.dilation[1]
    return (n, c, h, v) if 0 <= h < height and 0 <= v < width else None


def with_(**other):
    """The same for another convolution: one that lacks something."""
    return lambda d, column, conv: matrix_entry(d, column, conv._replace(**other))


answers.wrong("matrix_entry", "forgets the dilation")(with_(dilation=(1, 1)))


class Sized:
    """A convolution with another stride or padding, and the output size it had."""

    def __init__(self, conv, **other):
        self.x, self.w, self.out_size = conv.x, conv.w, conv.out_size
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation
        self.__dict__.update(other)


for why, other in [
    ("forgets the stride", {"stride": (1, 1)}),
    ("ignores the padding", {"padding": (0, 0)}),
]:
    answers.wrong("matrix_entry", why)(
        lambda d, column, conv, other=other: matrix_entry(d, column, Sized(conv, **other))
    )


@answers.wrong("matrix_entry", "row and column of the taps swapped")
def taps_swapped(d, column, conv):
    _, channels, rows, taps = conv.w
    c, rest = divmod(d, rows * taps)
    other = Sized(conv, w=(1, channels, taps, rows))
    return matrix_entry(c * rows * taps + rest % taps * rows + rest // taps, column, other) and (
        matrix_entry(c * rows * taps + rest % rows * taps + rest // rows % taps, column, conv)
    )


@answers.wrong("matrix_entry", "takes the height of x for that of y")
def by_the_input(d, column, conv):
    return matrix_entry(d, column, Sized(conv, out_size=conv.x[2:]))


# --- gather


@answers.right("gather")
def gather(x, rows, columns, conv):
    piece = np.zeros((len(rows), len(columns)), x.dtype)
    last = conv.x[0] * math.prod(conv.out_size)
    for i, d in enumerate(rows):
        for j, column in enumerate(columns):
            at = matrix_entry(d, column, conv) if d < conv.depth and column < last else None
            if at is not None:
                piece[i, j] = x[at]
    return piece


@answers.right("gather")
def without_loops(x, rows, columns, conv):
    (taps, across), (P, Q) = conv.w[2:], conv.out_size
    d, column = rows[:, None], columns[None, :]
    h = column // Q % P * conv.stride[0] - conv.padding[0] + d // across % taps * conv.dilation[0]
    v = column % Q * conv.stride[1] - conv.padding[1] + d % across * conv.dilation[1]
    n, c = column // (P * Q), d // (taps * across)
    inside = (h >= 0) & (h < x.shape[2]) & (v >= 0) & (v < x.shape[3])
    inside = inside & (d < conv.depth) & (n < x.shape[0])
    n, c, h, v = (np.where(inside, one, 0) for one in (n, c, h, v))
    return np.where(inside, x[n, c, h, v], 0).astype(x.dtype)


def gathering(entry, ends=True):
    def answer(x, rows, columns, conv):
        piece = np.zeros((len(rows), len(columns)), x.dtype)
        last = conv.x[0] * math.prod(conv.out_size)
        for i, d in enumerate(rows):
            for j, column in enumerate(columns):
                at = (
                    entry(d, column, conv)
                    if not ends or (d < conv.depth and column < last)
                    else None
                )
                if at is not None:
                    piece[i, j] = x[at]
        return piece

    return answer


answers.wrong("gather", "fails past the end")(gathering(matrix_entry, ends=False))
answers.wrong("gather", "forgets the dilation")(gathering(with_(dilation=(1, 1))))


@answers.wrong("gather", "reads the last row where the padding is")
def wraps(x, rows, columns, conv):
    right = without_loops(x, rows, columns, conv)
    unpadded = gather(x, rows, columns, conv)
    return np.where(right == 0, x[-1, -1, -1, -1], unpadded)


@answers.wrong("gather", "forgets the images")
def one_image(x, rows, columns, conv):
    return gathering(lambda d, j, c: matrix_entry(d, j % math.prod(c.out_size), c))(
        x, rows, columns, conv
    )


@answers.wrong("gather", "returns float64 whatever x is")
def wide(x, rows, columns, conv):
    return gather(x, rows, columns, conv).astype(float)


@answers.wrong("gather", "returns the piece turned")
def as_columns(x, rows, columns, conv):
    return gather(x, rows, columns, conv).T


# --- implicit_gemm_rung

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


def test_a_slip_earns_the_hint_about_it():
    def slowest(d, column, conv):  # takes r for the fastest
        c, rest = divmod(d, conv.w[2] * conv.w[3])
        s, r = divmod(rest, conv.w[2])
        return matrix_entry((c * conv.w[2] + r) * conv.w[3] + s, column, conv)

    assert "dtype" in first_hint(answers.exercises["gather"], wide)
    assert "s the fastest" in first_hint(answers.exercises["matrix_entry"], slowest)


@pytest.mark.parametrize("seed", range(12))
def test_a_forgotten_dilation_is_named_though_the_tap_then_lies_in_the_padding(seed):
    def undilated(d, column, conv):
        return matrix_entry(d, column, Sized(conv, dilation=(1, 1)))

    def turned(d, column, conv):  # takes p for the fastest
        (P, Q), (n, rest) = conv.out_size, divmod(column, math.prod(conv.out_size))
        q, p = divmod(rest, P)
        return matrix_entry(d, (n * P + p) * Q + q, conv)

    exercise = answers.exercises["matrix_entry"]
    assert "dilation" in first_hint(exercise, undilated, seed)
    assert "fastest" in first_hint(exercise, turned, seed)


def test_lanes_along_the_wrong_axis_of_w_exceed_the_gate():
    """Lanes take other rows of w: right values, more than twice the sectors."""
    text = changed(
        GEMM,
        ("const int k = first_k + ty + 16 * j, e = slab + tx;",
         "const int k = first_k + tx + 16 * j, e = slab + ty;"),
        ("left[tx][ty + 16 * j] =", "left[ty][tx + 16 * j] ="),
    )  # fmt: skip
    exercise = _gemm_rung.implicit_gemm_rung
    inputs = (REGULAR, "float", "forward", 1)
    found = exercise.drive(text, *inputs)
    assert found.pop("sectors per multiply-add") == "0.019, gate 0.016"
    assert all(value == _gemm_rung.PRODUCT[key] for key, value in found.items())


def test_the_tolerance_is_far_below_one_product():
    """No answer with a product too few passes for rounding."""
    conv = REGULAR
    x, w, _ = conv_bench.data(conv, 3)
    right = conv_bench.right(conv, x, w)
    less = (right - np.float64(x[0, 0, 0, 0]) * w[0, 0, 1, 1] * 1e-1).astype(np.float32)
    assert conv_bench.first_wrong(right.astype(np.float32), right, conv.depth) == ""
    assert conv_bench.first_wrong(less, right, conv.depth).startswith(f"{math.prod(conv.y)} of")
