import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from labkit import course
from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Slab
from labkit.course.checks import outcomes
from labkit.course.documents import sketches
from labkit.course.exercise import Case
from labkit.course.exercises import first_kernel
from tests.course.answers import Answers, first_hint

answers = Answers("first_kernel")
LITERAL = "returns the literal answer of the example in the statement"

HEAD = (
    "template <typename T> __global__ void saxpy(const T* x, T* y, T a, long long first, "
    "long long n)"
)
THREAD = "(long long)blockIdx.x * blockDim.x + threadIdx.x"
THREADS = "(long long)gridDim.x * blockDim.x"


LOOP = f"for (long long i = first + {THREAD}; i < n; i += {THREADS})"


WHO = """extern "C" __global__ void who(int* out, int n) {
    const int i = LINE;
    if (i >= 0) out[i] = 1000 * blockIdx.x + threadIdx.x;
}
"""
PLACE = "blockIdx.x * blockDim.x + threadIdx.x"


def who(line):
    return lambda: WHO.replace("LINE", line)


answers.right("index")(who(f"n - 1 - ({PLACE})"))
answers.right("index")(who("n - blockIdx.x * blockDim.x - threadIdx.x - 1"))
answers.wrong("index", "takes the elements from the front")(
    lambda: WHO.replace("LINE", PLACE).replace("i >= 0", "i < n")
)
answers.wrong("index", "leaves its block out")(who("n - 1 - threadIdx.x"))
answers.wrong("index", "turns each block round by itself")(
    lambda: WHO.replace("LINE", "(blockIdx.x + 1) * blockDim.x - 1 - threadIdx.x").replace(
        "i >= 0", "i < n"
    )
)
answers.wrong("index", "begins at n")(who(f"n - ({PLACE})"))
answers.wrong("index", "forgets the brackets")(who(f"n - 1 - {PLACE}"))
answers.wrong("index", "lets one thread do all the work")(
    lambda: (
        """extern "C" __global__ void who(int* out, int n) {
    if (blockIdx.x || threadIdx.x) return;
    const int size = blockDim.x;
    for (int k = 0; k < n; ++k) out[n - 1 - k] = 1000 * (k / size) + k % size;
}
"""
    )
)

STEPS = """extern "C" __global__ void steps(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    GUARD out[i] = x[i + 1] - x[i];
}
"""


def guarded(by):
    return lambda: STEPS.replace("GUARD", by)


answers.right("guard")(guarded("if (i + 1 < n)"))
answers.right("guard")(guarded("if (i >= n - 1) return;\n   "))
answers.wrong("guard", "leaves the guard out")(guarded(""))
answers.wrong("guard", "guards with i < n")(guarded("if (i < n)"))
answers.wrong("guard", "stops one step early")(guarded("if (i + 2 < n)"))
answers.wrong("guard", "lets one thread do all the work")(
    guarded("if (i == 0) for (int i = 0; i + 1 < n; ++i)")
)


def kernel(body, before=""):
    code = f"{before}\n{HEAD} {{\n    {body}\n}}\n"
    return lambda: code


answers.right("saxpy")(kernel(f"{LOOP} y[i] = a * x[i] + y[i];"))
answers.right("saxpy")(
    kernel(
        f"""x += first, y += first, n -= first;
    long long i = {THREAD};
    while (i < n) {{
        const T old = y[i];
        y[i] = old + a * x[i];
        i += {THREADS};
    }}"""
    )
)


def wrong(why, body, before=""):
    answers.wrong("saxpy", why)(kernel(body, before))


wrong(
    "one thread does all",
    f"if ({THREAD} == 0) for (long long i = first; i < n; ++i) y[i] = a * x[i] + y[i];",
)
wrong("no guard", f"const long long i = first + {THREAD}; y[i] = a * x[i] + y[i];")
wrong(
    "wrong beyond one grid",
    f"const long long i = first + {THREAD}; if (i < n) y[i] = a * x[i] + y[i];",
)
wrong(
    "int overflow above 2^31 (index check with a fake base)",
    "for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < n; "
    "i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];",
)
wrong(
    "reads y twice",
    f"T sum = 0; {LOOP} sum += y[i]; if (sum != sum) return; {LOOP} y[i] = a * x[i] + y[i];",
)
wrong("begins at 0", f"{LOOP.replace('first + ', '')} y[i] = a * x[i] + y[i];")
wrong(
    "walks from 0 to first",
    f"{LOOP.replace('first + ', '')} if (i >= first) y[i] = a * x[i] + y[i];",
)
wrong(
    "remembers the answer of the first random case and returns it for all later cases",
    f"""if (!have) {{ for (long long i = first; i < n; ++i) kept[i - first] = a * x[i] + y[i]; }}
    __syncthreads();
    have = 1;
    {LOOP} y[i] = kept[(i - first) % 512];""",
    "__device__ double kept[512]; __device__ int have;",
)
wrong(
    "is right in forward thread and queue order only and fails in a reversed or shuffled order",
    f"""__shared__ T factor;
    if (threadIdx.x == 0) factor = a;
    {LOOP} y[i] = factor * x[i] + y[i];""",
)
wrong(
    "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    f"{LOOP} {{ const float product = a * x[i]; y[i] = product + y[i]; }}",
)


@pytest.mark.parametrize(
    "body",
    [
        f"const long long each = (n - first + {THREADS} - 1) / ({THREADS});\n"
        f"const long long from = first + ({THREAD}) * each;\n"
        "for (long long i = from; i < from + each && i < n; ++i) y[i] = a * x[i] + y[i];",
        f"{LOOP} y[i] = a * x[i] + y[i]; y[n] = 0;",
        "y[1LL << 40] = 1;",
        "this is no C++",
    ],
    ids=["a stretch per thread", "writes y[n]", "wild", "no C++"],
)
def test_other_kernels_fail_too_and_nothing_breaks(body):
    exercise = first_kernel.saxpy
    inputs = ("float", 3, [0.5] * 300, [1.0] * 300, 5, 2, 64, "reverse")
    assert exercise.drive(kernel(body), *inputs) != exercise.expected(*inputs)
    right = exercise.drive(kernel(f"{LOOP} y[i] = a * x[i] + y[i];"), *inputs)
    assert right == exercise.expected(*inputs)


@answers.right("predict_sectors")
def predict_sectors(index, b, warp, threads, itemsize, start):
    lanes = range(32 * warp, min(32 * warp + 32, threads))
    elements = {eval(index, {"t": t, "b": b}) for t in lanes}
    touched = {
        byte // 32
        for e in elements
        for byte in range(start + e * itemsize, start + (e + 1) * itemsize)
    }
    return len(touched), -(-len(elements) * itemsize // 32)


@answers.right("predict_sectors")
def predict_with_numpy(index, b, warp, threads, itemsize, start):
    t = np.arange(32 * warp, min(32 * warp + 32, threads))
    elements = np.unique(np.broadcast_to(eval(index, {"t": t, "b": b}), t.shape))
    return len(np.unique((start + elements * itemsize) // 32)), (
        len(elements) * itemsize + 31
    ) // 32


@answers.wrong("predict_sectors", "always 4")
def always_4(*request):
    return 4, 4


@answers.wrong("predict_sectors", "counts distinct cache lines of 128 bytes")
def counts_lines(index, b, warp, threads, itemsize, start):
    lanes = range(32 * warp, min(32 * warp + 32, threads))
    lines = {(start + eval(index, {"t": t, "b": b}) * itemsize) // 128 for t in lanes}
    return len(lines), predict_sectors(index, b, warp, threads, itemsize, start)[1]


@answers.wrong("predict_sectors", "ignores item size")
def ignores_item_size(index, b, warp, threads, itemsize, start):
    return predict_sectors(index, b, warp, threads, 4, start)


@answers.wrong("predict_sectors", "ignores alignment")
def ignores_alignment(index, b, warp, threads, itemsize, start):
    return predict_sectors(index, b, warp, threads, itemsize, 0)


def wanted(index, b, warp, threads):
    return [eval(index, {"t": t, "b": b}) for t in range(32 * warp, min(32 * warp + 32, threads))]


@answers.wrong("predict_sectors", "counts a number once for each lane that wants it")
def counts_lanes(index, b, warp, threads, itemsize, start):
    right, _ = predict_sectors(index, b, warp, threads, itemsize, start)
    return right, -(-len(wanted(index, b, warp, threads)) * itemsize // 32)


@answers.wrong("predict_sectors", "rounds the fewest down")
def rounds_down(index, b, warp, threads, itemsize, start):
    right, _ = predict_sectors(index, b, warp, threads, itemsize, start)
    return right, max(1, len(set(wanted(index, b, warp, threads))) * itemsize // 32)


@answers.wrong("predict_sectors", "counts all sectors between the first and the last")
def counts_between(index, b, warp, threads, itemsize, start):
    elements = wanted(index, b, warp, threads)
    first, last = ((start + itemsize * one) // 32 for one in (min(elements), max(elements)))
    return last - first + 1, predict_sectors(index, b, warp, threads, itemsize, start)[1]


@answers.wrong(
    "predict_sectors",
    "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
)
def calls_labkit(index, b, warp, threads, itemsize, start):
    from labkit.widgets.cuda.warp_request import ideal_sectors, sectors

    lanes = range(32 * warp, min(32 * warp + 32, threads))
    addresses = {t: start + eval(index, {"t": t, "b": b}) * itemsize for t in lanes}
    return len(sectors(addresses, itemsize)), ideal_sectors(addresses, itemsize)


@answers.wrong("predict_sectors", LITERAL)
def the_example(*request):
    return 8, 4


test_answers = answers.tests()


def test_a_slip_earns_the_hint_about_it():
    exercise = first_kernel.predict_sectors
    for slip, words in (
        (counts_lanes, "wanted once"),
        (rounds_down, "the whole of it"),
        (counts_between, "from the first to the last"),
        (ignores_alignment, "`start`, the last argument"),
    ):
        assert words in first_hint(exercise, slip), slip.__name__
    begins = kernel(f"{LOOP.replace('first + ', '')} y[i] = a * x[i] + y[i];")
    walks = kernel(f"{LOOP.replace('first + ', '')} if (i >= first) y[i] = a * x[i] + y[i];")
    assert "Nothing before `first`" in first_hint(first_kernel.saxpy, begins)
    assert "walks from 0" in first_hint(first_kernel.saxpy, walks)
    far = next(one for one in outcomes(first_kernel.saxpy, walks, 7) if one.name == "beyond 2^31")
    hints = [hint for hint in map(first_kernel.saxpy.hint, range(10)) if hint.fits(far.failures[0])]
    assert "does it walk there from 0" in hints[0].text


@pytest.mark.parametrize("seed", range(5))
def test_a_slip_in_the_first_lines_earns_the_hint_about_it(seed):
    index, guard = (answers.exercises[name] for name in ("index", "guard"))
    front = WHO.replace("LINE", PLACE).replace("i >= 0", "i < n")
    assert "in brackets" in first_hint(index, who(f"n - 1 - {PLACE}"), seed)
    assert "This is rule 1" in first_hint(index, lambda: front, seed)
    assert "x has n elements" in first_hint(guard, guarded("if (i <= n - 1)"), seed)
    assert "too many threads" in first_hint(guard, guarded("if (i + 2 < n)"), seed)


def test_the_truth_is_that_of_a_kernel_with_the_expression_in_it():
    """What the check gathers through a table of indices, a compiled expression does too."""
    code = """extern "C" __global__ void f(const float* x, float* y) {
        const int t = threadIdx.x, b = 3;
        y[t] = x[INDEX];
    }"""
    for index in ("2 * t + 1", "1023 - t", "(5 * t + 3) % 24 + b * 32", "t % 8 * 32 + (t - t % 8)"):
        x, y = np.zeros(2048, np.float32), np.zeros(64, np.float32)
        done = kernel_bench.launch(
            code, "f", 1, 64, (Slab(x, -2), y), options=[f"-DINDEX=({index})"], trace=True
        )
        both = [first_kernel._expected_sectors(index, 3, warp, 64, 4, 8) for warp in (0, 1)]
        assert done.report.total("sectors", array="x") == sum(sectors for sectors, _ in both)
        assert done.report.total("ideal_sectors", array="x") == sum(ideal for _, ideal in both)


def test_a_kernel_that_fails_is_a_sentence_and_not_an_error():
    x = np.zeros(8, np.int32)
    for body, words in (
        ("while (true) {}", "did not end within"),
        ("x[1LL << 40] = 1;", "touched memory that does not exist"),
        ("x[0] = y;", "it does not compile: "),
    ):
        code = f'extern "C" __global__ void f(int* x) {{ {body} }}'
        done = kernel_bench.launch(code, "f", 1, 32, (x,), trace=True)
        assert words in done.failure, done.failure
        assert done.report is None
    over = kernel_bench.launch(
        'extern "C" __global__ void f(int* x) { x[-1] = 7; }', "f", 1, 1, (x,), trace=True
    )
    assert over.outside == "written around x"
    few = 'extern "C" __global__ void f(int* x) { x[0] = 1; }'
    refused = kernel_bench.launch(few, "f", 1, 1, (x, x.copy()))
    assert refused.failure and refused.outside == "untouched" and not refused.arrays[0].any()
    assert over.findings[0].startswith("line 1: out of bounds: ")
    assert not x.any()


def test_a_failing_kernel_is_drawn():
    exercise = first_kernel.guard
    case = exercise.make(3, 5, 2)
    drawn = exercise.picture(case, exercise.drive(guarded("if (i < n)"), *case.inputs), None)
    assert drawn.page == "findings" and "out of bounds" in drawn.runs[0]["findings"][0]["kind"]
    asked = first_kernel.predict_sectors.picture(Case(("2 * t", 0, 0, 32, 4, 0)), 4, 8)
    assert "read x" in asked.step_texts()[asked.frame]


def test_a_right_kernel_is_scored_by_its_sectors():
    body = f"{LOOP} y[i] = a * x[i] + y[i];"
    assert first_kernel.saxpy.score(kernel(body)) == "yours 4 sectors per request, ideal 4"


def test_two_sketches_compile():
    verdicts = {one.name: one for one in sketches.judge()}
    assert len(verdicts) == 10
    accepted = [name for name, one in verdicts.items() if one.accepted]
    assert accepted == ["MemoryPool", "CUDAStream"]
    words = " ".join(text for _, text in verdicts["conv2d_kernel"].errors)
    assert all(f"'{name}'" in words for name in ("c", "out_h", "out_w"))
    assert verdicts["MixedPrecision"].errors[0][0] == 3


def test_the_page_survives_the_repair_it_asks_for():
    root = Path(__file__).parents[2]
    page = json.loads((root / f"notebooks/{first_kernel.NOTEBOOK}.ipynb").read_text())
    cells = {cell["id"]: "".join(cell["source"]) for cell in page["cells"]}
    names = {"course": course, "re": re, "wild": SimpleNamespace(findings=[])}
    for cell in ("fk-p9", "fk-r9"):
        exec(cells[cell], names)
    assert names["guess"].actual == "none"
