"""Right and wrong answers to the exercises on wrong kernels; what the chapter's kernels have."""

import math

import numpy as np
import pytest

from labkit import show
from labkit.course.cases import wrong
from labkit.course.exercises.wrong_kernels import SHUFFLED
from tests.course.answers import Answers, first_hint

answers = Answers("wrong_kernels")


# --- agree


@answers.right("agree")
def agree(results):
    return all(one == results[0] and all(n == n for n in one) for one in results)


@answers.right("agree")
def as_text(results):
    return len({str(one) for one in results}) == 1 and "nan" not in str(results)


@answers.wrong("agree", "compares the first two")
def first_two(results):
    return results[0] == results[min(1, len(results) - 1)] and not math.isnan(sum(results[0]))


@answers.wrong("agree", "takes NaN in all orders for agreement")
def equal_nan(results):
    return len({str(one) for one in results}) == 1


@answers.wrong("agree", "compares without signs")
def without_signs(results):
    return agree([[abs(number) for number in one] for one in results])


@answers.wrong("agree", "compares sums")
def by_sum(results):
    return len({abs(sum(one)) for one in results}) == 1 and "nan" not in str(results)


@answers.wrong("agree", "looks at the first number")
def first_number(results):
    return len({str(one[:1]) for one in results}) == 1 and "nan" not in str(results)


@answers.wrong("agree", "compares closely")
def close(results):
    return agree(results) or (
        not any(n != n for one in results for n in one)
        and all(math.isclose(a, b) for one in results for a, b in zip(one, results[0], strict=True))
    )


@answers.wrong("agree", "looks at the first numbers")
def first_eight(results):
    return agree([one[:8] for one in results])


@answers.wrong("agree", "refuses infinity")
def finite_only(results):
    return agree(results) and all(math.isfinite(n) for one in results for n in one)


# --- blocks


@answers.right("blocks")
def blocks(count, block):
    return max(1, (count + block - 1) // block)


@answers.wrong("blocks", "rounds down")
def down(count, block):
    return max(1, count // block)


@answers.wrong("blocks", "always adds one")
def one_more(count, block):
    return count // block + 1


@answers.wrong("blocks", "launches nothing for nothing")
def nothing(count, block):
    return -(-count // block)


@answers.wrong("blocks", "goes through float")
def float_blocks(count, block):
    return max(1.5, count / block + 0.5)


# --- broken_reduction

TOTAL = """extern "C" __global__ void total(const float* x, float* out, int n) {
    __shared__ float part[256];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > LAST; step /= 2) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    TAIL
    if (t == 0) out[blockIdx.x] = part[0];
}
"""


def total(*changes, last="0", tail=""):
    text = TOTAL.replace("LAST", last).replace("TAIL", tail)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


LOAD = "part[t] = i < n ? x[i] : 0.0f;\n    __syncthreads();"
TREE = "if (t < step) part[t] += part[t + step];\n        __syncthreads();"
STEP_IN_WARP = (
    "if (t < 32) for (int step = 32; step > 0; step /= 2) "
    "{ if (t < step) part[t] += part[t + step]; SYNC }"
)
answers.right("broken_reduction")(total())
answers.right("broken_reduction")(
    total(
        last="32",
        tail="""if (t < 32) {
        float sum = part[t] + part[t + 32];
        for (int k = 16; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
        if (t == 0) part[0] = sum;
    }""",
    )
)
answers.right("broken_reduction")(
    total(last="32", tail=STEP_IN_WARP.replace("SYNC", "__syncwarp();"))
)
answers.right("broken_reduction")(
    total(
        ("int step = blockDim.x / 2; step > 0; step /= 2", "int step = 1; step < blockDim.x; "
         "step *= 2"),
        ("if (t < step)", "if (t % (2 * step) == 0)"),
    )
)  # fmt: skip
for few in (8, 16):
    answers.wrong("broken_reduction", "adds up in a few threads")(
        total(
            ("for (int step = blockDim.x / 2; step > 0; step /= 2) {\n        " + TREE + "\n    }",
             f"""const int share = blockDim.x / {few};
    float sum = 0.0f;
    if (t < {few}) for (int k = 0; k < share; ++k) sum += part[t * share + k];
    __syncthreads();
    if (t < {few}) part[t] = sum;
    __syncthreads();
    if (t == 0) for (int k = 1; k < {few}; ++k) sum += part[k];
    if (t == 0) part[0] = sum;"""),
        )
    )  # fmt: skip
answers.wrong("broken_reduction", "lets all threads write the sum")(
    total(("if (t == 0) out", "out"))
)
answers.wrong("broken_reduction", "pads with a number times zero")(
    total((": 0.0f;", ": 0.0f * x[0];"))
)
answers.wrong("broken_reduction", "knows whole numbers only")(
    total(("? x[i]", "? x[i] != x[i] ? x[i] : (int)x[i]"))
)
answers.wrong("broken_reduction", "is the kernel as it was")(
    total((LOAD, LOAD.partition("\n")[0]), last="32", tail=STEP_IN_WARP.replace("SYNC", ""))
)
answers.wrong("broken_reduction", "volatile only")(
    total(("float part", "volatile float part"), last="32", tail=STEP_IN_WARP.replace("SYNC", ""))
)
answers.wrong("broken_reduction", "one thread sums")(
    total((TREE, "if (t == 0) part[0] += step == 1 ? part[1] : part[step];"))
)
answers.wrong("broken_reduction", "one thread sums")(
    lambda: (
        """extern "C" __global__ void total(const float* x, float* out, int n) {
    if (threadIdx.x) return;
    float sum = 0;
    const int from = blockIdx.x * blockDim.x;
    for (int i = from; i < n && i < from + (int)blockDim.x; ++i) sum += x[i];
    out[blockIdx.x] = sum;
}
"""
    )
)
answers.wrong("broken_reduction", "one thread sums")(
    lambda: (
        """extern "C" __global__ void total(const float* x, float* out, int n) {
    __shared__ float part[256];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float sum = 0;
    if (t == 0) { for (int k = 0; k < blockDim.x; ++k) sum += part[k]; out[blockIdx.x] = sum; }
}
"""
    )
)
answers.wrong("broken_reduction", "extra barrier inside the branch")(
    total((TREE, "if (t < step) { part[t] += part[t + step]; __syncthreads(); }"))
)
answers.wrong("broken_reduction", "knows one size of block")(total(("blockDim.x / 2", "32")))
answers.wrong("broken_reduction", "atomic adds")(
    lambda: (
        """extern "C" __global__ void total(const float* x, float* out, int n) {
    __shared__ float sum;
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t == 0) sum = 0;
    __syncthreads();
    if (i < n) atomicAdd(&sum, x[i]);
    __syncthreads();
    if (t == 0) out[blockIdx.x] = sum;
}
"""
    )
)
answers.wrong("broken_reduction", "sums the numbers that are numbers")(
    total(("i < n ? x[i]", "i < n && x[i] == x[i] ? x[i]"))
)
answers.wrong("broken_reduction", "adds what lies behind the last number")(
    total(("i < n ? x[i] : 0.0f", "x[i]"))
)
answers.wrong("broken_reduction", "adds up in x itself")(
    lambda: (
        """extern "C" __global__ void total(float* x, float* out, int n) {
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step && i + step < n) x[i] += x[i + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = x[i];
}
"""
    )
)
answers.wrong("broken_reduction", "cuts large numbers off")(
    total(("? x[i]", "? x[i] != x[i] ? x[i] : fminf(x[i], 1e5f)"))
)
answers.wrong("broken_reduction", "cuts large numbers off")(
    total(("? x[i]", "? x[i] != x[i] ? x[i] : fmaxf(x[i], -1e5f)"))
)
answers.wrong("broken_reduction", "knows 4096 numbers at most")(
    total(("i < n ?", "i < n && i < 4096 ?"))
)
answers.wrong("broken_reduction", SHUFFLED)(total((TREE, TREE.partition("\n")[0])))
answers.wrong("broken_reduction", SHUFFLED)(total((LOAD, LOAD.partition("\n")[0])))


# --- broken_stencil

SLOPES = """extern "C" __global__ void slopes(const float* x, float* out, int N, int C, int H,
                                  int W, int sn, int sc, int sh, int sw) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C * H * W) return;
    const int w = i % W, h = i / W % H, c = i / (W * H) % C, n = i / (W * H * C);
    const float* row = x + n * sn + c * sc + h * sh;
    const float right = w + 1 < W ? row[(w + 1) * sw] : 0.0f;
    const float left = w > 0 ? row[(w - 1) * sw] : 0.0f;
    out[i] = right - left;
}
"""


def slopes(*changes, grid=blocks):
    text = SLOPES
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return grid, lambda: text


ROW = "x + n * sn + c * sc + h * sh"
PACKED = ("const float* row", "sn = C * H * W, sc = H * W, sh = W, sw = 1; const float* row")
GUARD = "    if (i >= N * C * H * W) return;\n"
RIGHT, LEFT = "w + 1 < W ? row[(w + 1) * sw] : 0.0f", "w > 0 ? row[(w - 1) * sw] : 0.0f"
answers.right("broken_stencil")(slopes())
answers.right("broken_stencil")(
    slopes((GUARD, "    const bool inside = i < N * C * H * W;\n"),
           ("w + 1 < W", "inside && w + 1 < W"), ("w > 0", "inside && w > 0"),
           ("    out[i] =", "    if (inside) out[i] ="))
)  # fmt: skip
wrongs = {
    "is the kernel as it was": slopes(
        (GUARD, ""), PACKED, ("w + 1 < W ? ", ""), ("1) * sw] : 0.0f;\n    const float left", "1)];"
        "\n    const float left"), ("w > 0 ? row[(w - 1) * sw] : 0.0f", "row[w - 1]"), grid=down
    ),
    "assumes that channels come first": slopes(PACKED),
    "chooses between two layouts": slopes(
        ("const float* row", "if (sc == 1) { sn = C * H * W; sh = C * W; sw = C; } else { sn = C "
         "* H * W; sc = H * W; sh = W; sw = 1; } const float* row")
    ),
    "clamps at the border": slopes((RIGHT, "row[(w + 1 < W ? w + 1 : w) * sw]"),
                                   (LEFT, "row[(w > 0 ? w - 1 : w) * sw]")),
    "wraps into the next row": slopes(
        (RIGHT, "i + 1 < N * C * H * W ? row[(w + 1) * sw] : 0.0f"),
        (LEFT, "i > 0 ? row[(w - 1) * sw] : 0.0f"),
    ),
    "has no guard": slopes((GUARD, "")),
    "reads a neighbour and masks it afterwards": slopes(
        (RIGHT, "row[(w + 1) * sw] * (w + 1 < W)"), (LEFT, "row[(w - 1) * sw] * (w > 0)")
    ),
    "launches too few blocks": slopes(grid=down),
    "launches one block too many": slopes(grid=one_more),
    "lets one thread do all the work": slopes(
        (GUARD, "    if (i) return;\n    for (int i = 0; i < N * C * H * W; ++i) {\n"),
        ("out[i] = right - left;", "out[i] = right - left; }"),
    ),
    "writes over x": slopes(("const float* x", "float* x"), ("out[i] = right - left;",
                            "out[i] = right - left; if (w + 1 == W) row[w * sw] = 1e9f;"),
                            ("const float* row", "float* row")),
    "knows whole numbers only": slopes(
        ("right - left;", "right != right || left != left ? right - left : (int)(right - left);")
    ),
    "adds its own number times zero": slopes(("right - left;", "right - left + 0 * row[w * sw];")),
    "refuses an expanded image": slopes((GUARD, GUARD + "    if (sc == 0 && C > 1) return;\n")),
    "cuts large numbers off": slopes(
        ("right - left;", "right != right || left != left ? right - left : "
         "fminf(right - left, 1e5f);")
    ),
    "knows 4096 elements at most": slopes((GUARD, GUARD + "    if (i >= 4096) return;\n")),
    "is right only for square images": slopes(("i / W % H", "i / H % H"), ("i % W", "i % H")),
}  # fmt: skip
for why, answer in wrongs.items():
    answers.wrong("broken_stencil", why)(answer)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("has no guard", "Test before you read"),
        ("assumes that channels come first", "The strides are arguments"),
        ("clamps at the border", "counts as 0"),
        ("launches too few blocks", "the last elements need a block"),
    ],
)
def test_mistakes_in_a_stencil_get_their_hints(mistake, said):
    assert said in first_hint(answers.exercises["broken_stencil"], wrongs[mistake])


test_answers = answers.tests()


# --- the patients


def test_each_kernel_is_caught_by_one_way_to_run_it_and_no_other():
    caught = {}
    for name, kernel in wrong.KERNELS.items():
        caught[name] = [
            any(kernel.errors(order=order) for order in wrong.ORDERS),
            kernel.run().outside != "untouched",
            any("barrier" in one for one in kernel.findings() if "race" not in one),
            kernel.errors(layout="channels last") > 0,
            kernel.errors(memory=1.0) > 0,
        ]
    assert caught == {name: [at == n for at in range(5)] for n, name in enumerate("PQRST")}


def test_all_are_right_as_they_are_run_first():
    assert not any(kernel.errors() for kernel in wrong.KERNELS.values())


def test_a_sealed_report_has_the_finding_and_none_of_the_source():
    kernel = wrong.patient("P")
    report = kernel.report()
    assert report.findings[0].line == 5

    def drawn(one):
        state = show.kernel(one).get_state()
        return str({name: value for name, value in state.items() if not name.startswith("_")})

    assert not any(word in drawn(report) for word in ("threadIdx", "0.5f", "__global__"))
    assert "threadIdx" in drawn(kernel.run(trace=True).report)


def test_a_change_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match="has no 'goto'"):
        wrong.patient("P").changed(("goto", ""))


def test_right_results_are_those_of_numpy():
    x = np.arange(1, 17, dtype=np.float32)
    causal = wrong.patient("T")
    numbers = causal.given(0.0, "rows")[0]
    assert len(numbers) == len(x)
    table = np.tril(np.outer(numbers, numbers))
    assert np.allclose(causal.right, table.sum(1))
