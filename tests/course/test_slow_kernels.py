"""Right and wrong answers to the exercises on slow kernels; what the chapter's programs count."""

import itertools

import pytest

from labkit.course.cases import slow
from labkit.course.exercises.slow_kernels import SLOW
from tests.course.answers import Answers, first_hint

answers = Answers("slow_kernels")


# --- busy_share


@answers.right("busy_share")
def busy_share(spans):
    return sum(end - start for start, end in spans) / (spans[-1][1] - spans[0][0])


@answers.right("busy_share")
def by_gaps(spans):
    whole = spans[-1][1] - spans[0][0]
    idle = sum(b[0] - a[1] for a, b in itertools.pairwise(spans))
    return 1 - idle / whole


@answers.wrong("busy_share", "begins at 0")
def from_zero(spans):
    return sum(end - start for start, end in spans) / spans[-1][1]


@answers.wrong("busy_share", "counts the pieces of work")
def pieces(spans):
    return len(spans) / (spans[-1][1] - spans[0][0])


@answers.wrong("busy_share", "gives the idle share")
def idle_share(spans):
    return 1 - busy_share(spans)


@answers.wrong("busy_share", "divides by the sum of the work")
def of_itself(spans):
    return 1.0


@answers.wrong("busy_share", "looks at some of the spans")
def some_spans(spans):
    return sum(end - start for start, end in spans[:64]) / (spans[-1][1] - spans[0][0])


@answers.wrong("busy_share", "knows whole numbers only")
def whole_spans(spans):
    return sum(int(end - start) for start, end in spans) / (spans[-1][1] - spans[0][0])


@answers.wrong("busy_share", "knows whole halves only")
def whole_halves(spans):
    work = sum(int(2 * (end - start)) for start, end in spans)
    return work / (2 * (spans[-1][1] - spans[0][0]))


@answers.wrong("busy_share", "leaves out short pieces")
def long_pieces(spans):
    work = sum(end - start for start, end in spans if end - start > 1e-5)
    return work / (spans[-1][1] - spans[0][0])


@answers.wrong("busy_share", "knows short programs only")
def short_programs(spans):
    return busy_share(spans) if spans[-1][1] < 400 else 1.0


# --- least_time


@answers.right("least_time")
def least_time(nbytes, flops, bandwidth, rate):
    moving, computing = nbytes / bandwidth, flops / rate
    return (moving, "bytes") if moving >= computing else (computing, "FLOPs")


@answers.wrong("least_time", "adds the two")
def added(nbytes, flops, bandwidth, rate):
    name = least_time(nbytes, flops, bandwidth, rate)[1]
    return nbytes / bandwidth + flops / rate, name


@answers.wrong("least_time", "takes the faster one")
def faster(nbytes, flops, bandwidth, rate):
    moving, computing = nbytes / bandwidth, flops / rate
    return (moving, "bytes") if moving <= computing else (computing, "FLOPs")


@answers.wrong("least_time", "compares bytes with FLOPs")
def raw(nbytes, flops, bandwidth, rate):
    return (nbytes / bandwidth, "bytes") if nbytes >= flops else (flops / rate, "FLOPs")


@answers.wrong("least_time", "names the FLOPs where both are equal")
def strict(nbytes, flops, bandwidth, rate):
    moving, computing = nbytes / bandwidth, flops / rate
    return (moving, "bytes") if moving > computing else (computing, "FLOPs")


@answers.wrong("least_time", "takes nearly equal for equal")
def nearly(nbytes, flops, bandwidth, rate):
    moving, computing = nbytes / bandwidth, flops / rate
    return max(moving, computing), "bytes" if moving >= computing * (1 - 1e-5) else "FLOPs"


@answers.wrong("least_time", "knows large GPUs only")
def large_gpus(nbytes, flops, bandwidth, rate):
    large = bandwidth > 1e9
    return least_time(nbytes, flops, bandwidth, rate) if large else (nbytes / bandwidth, "bytes")


@answers.wrong("least_time", "rounds to picoseconds")
def picoseconds(nbytes, flops, bandwidth, rate):
    seconds, name = least_time(nbytes, flops, bandwidth, rate)
    return round(seconds, 12), name


# --- slow_on_purpose

TWICE = SLOW["twice"].replace("row = i % rows, col = i / rows", "row = i / cols, col = i % cols")
TURNED = SLOW["turned"].replace("tile[32][32]", "tile[32][33]")
MIXED = """extern "C" __global__ void mixed(const float* x, float* y, int n, int a, int b) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int odd = t / 32 % 2, i = t / 64 * 64 + t % 32 * 2 + odd;
    if (i >= n) return;
    float v = x[i];
    if (odd) for (int k = 0; k < b; ++k) v = 2.0f - 0.5f * v;
    else for (int k = 0; k < a; ++k) v = 0.5f * v + 1.0f;
    y[i] = v;
}
"""


def three(twice=TWICE, turned=TURNED, mixed=MIXED):
    return (lambda: twice), (lambda: turned), (lambda: mixed)


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


answers.right("slow_on_purpose")(three())
answers.right("slow_on_purpose")(
    three(
        twice="""extern "C" __global__ void twice(const float* x, float* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[i] = x[i] + x[i];
}
""",
        turned=changed(SLOW["turned"], ("tile[k][tx] =", "tile[k][(tx + k) % 32] ="),
                       ("tile[tx][k]", "tile[tx][(k + tx) % 32]")),
    )
)  # fmt: skip
NAMED = """extern "C" __global__ void mixed(const float* x, float* y, int n, int a, int b) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    const int odds = n / 2;
    const int evens = n - odds;
    const bool even = t < evens;
    const int place = even ? t : t - evens;
    const int i = even ? 2 * place : 2 * place + 1;
    float v = x[i];
    if (even) for (int k = 0; k < a; ++k) v = 0.5f * v + 1.0f;
    else for (int k = 0; k < b; ++k) v = 2.0f - 0.5f * v;
    y[i] = v;
}
"""
answers.right("slow_on_purpose")(three(mixed=NAMED))
SELECTS = changed(
    SLOW["mixed"],
    ("float v = x[i];\n    if (i % 2 == 0)\n        for", "float v = x[i], u = v;\n    for"),
    ("    else\n        for (int k = 0; k < b; ++k) v = 2.0f - 0.5f * v;\n    y[i] = v;",
     "    for (int k = 0; k < b; ++k) u = 2.0f - 0.5f * u;\n    y[i] = i % 2 ? u : v;"),
)  # fmt: skip
ONE = "    if (blockIdx.x || threadIdx.x) return;\n"
wrongs = {
    "is as it was": [three(twice=SLOW["twice"]), three(turned=SLOW["turned"]),
                     three(mixed=SLOW["mixed"])],
    "does a part of the work": [
        three(twice=changed(TWICE, ("i >= rows * cols", "i >= rows * cols / 2"))),
        three(mixed=changed(MIXED, ("k < b", "k < b / 2"))),
    ],
    "lets one thread do all the work": [
        three(twice=changed(
            TWICE,
            ("    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n", ONE),
            ("    if (i >= rows * cols) return;\n",
             "    for (int i = 0; i < rows * cols; ++i) {\n"),
            ("col];\n}", "col];\n}}"),
        )),
    ],
    "swaps the tile for reads across rows": [
        three(turned="""extern "C" __global__ void turned(const float* x, float* y, int n) {
    const int tx = threadIdx.x, left = blockIdx.x * 32, top = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (left + k < n && top + tx < n)
            y[(left + k) * n + top + tx] = x[(top + tx) * n + left + k];
}
"""),
    ],
    "writes over x": [
        three(twice=changed(
            TWICE, ("const float* x", "float* x"), ("col];\n", "col]; x[i] = 1e9f;\n")
        )),
    ],
    "computes both branches and selects": [three(mixed=SELECTS)],
    "has another kernel name": [three(twice=TWICE.replace("void twice", "void faster"))],
    "remembers which sizes were asked for": [
        three(twice=changed(TWICE, ("rows * cols)", "64 * 64)"))),
        three(mixed=changed(MIXED, ("k < a", "k < 8"), ("k < b", "k < 20"))),
    ],
    "knows whole numbers only": [
        three(mixed=changed(MIXED, ("= x[i]", "= (int)x[i]"))),
        three(turned=changed(TURNED, ("= x[(top", "= (int)x[(top"))),
    ],
    "knows positive numbers only": [
        three(twice=changed(TWICE, ("2.0f * x[row * cols + col]", "x[i] + fabsf(x[i])"))),
    ],
    "does nothing for small sizes": [
        three(twice=changed(TWICE, ("i >= rows * cols", "i >= rows * cols || cols < 17"))),
        three(turned=changed(TURNED, ("top + tx < n)", "top + tx < n && n > 19)"))),
        three(mixed=changed(MIXED, ("i >= n", "i >= n || n < 64"))),
    ],
    "does nothing for large tiles": [
        three(turned=changed(TURNED, ("top + tx < n)", "top + tx < n && n < 97)"))),
    ],
    "does one round where none is asked for": [
        three(mixed=changed(MIXED, ("k < a", "k < a || k < 1"))),
    ],
    "drops the last elements": [
        three(mixed=changed(MIXED, ("i >= n", "i >= n / 64 * 64"))),
        three(twice=changed(TWICE, ("i >= rows * cols", "i >= rows * cols / 32 * 32"))),
    ],
    "turns square images of whole tiles only": [
        three(turned=changed(TURNED, ("if (top + k < n && left + tx < n) ", ""),
                             ("if (left + k < n && top + tx < n) ", ""))),
    ],
}  # fmt: skip
for why, several in wrongs.items():
    for answer in several:
        answers.wrong("slow_on_purpose", why)(answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (three(twice=SLOW["twice"]), "How far apart"),
        (three(turned=SLOW["turned"]), "share a bank"),
        (three(mixed=SELECTS), "a warp runs both"),
        (three(mixed=MIXED.replace("k < b", "k < b / 2")), "A faster wrong answer"),
    ],
)
def test_slow_kernels_get_the_hint_of_their_counter(answer, said):
    assert said in first_hint(answers.exercises["slow_on_purpose"], answer)


test_answers = answers.tests()


# --- the programs


def test_a_column_walk_asks_for_eight_times_the_sectors_and_the_repair_for_none_too_many():
    W = slow.patient("W")
    report, result = W.run()
    assert report.total("sectors") == 8 * report.total("ideal_sectors")
    turned = W.changed(
        "y[row * n + column] = 2.0f * x[row * n + column]",
        "y[column * n + row] = 2.0f * x[column * n + row]",
    )
    better, same = turned.run()
    assert better.total("sectors") == better.total("ideal_sectors") and (result == same).all()


def test_either_of_two_barriers_may_go_and_not_both():
    X = slow.patient("X")
    right = X.run()[1]
    fine = {}
    for lines in ((6,), (8,), (10,), (6, 10)):
        report, result = X.without(*lines).run()
        fine[lines] = not report.findings and bool((result == right).all())
    assert fine == {(6,): True, (8,): False, (10,): True, (6, 10): False}


def test_a_launch_that_is_changed_nowhere_is_refused():
    with pytest.raises(ValueError, match="has no 'goto'"):
        slow.patient("Y").changed("goto", "")


def test_the_clock_leaves_gaps_where_launching_takes_longer():
    def gaps(launch, work):
        spans = [one for one in slow.on_a_clock(6, launch, work) if one["lane"] == "GPU"]
        return sum(b["start"] - a["end"] for a, b in itertools.pairwise(spans))

    assert gaps(5.0, 1.0) == 20.0 and gaps(1.0, 5.0) == 0.0


def test_one_part_of_the_network_grows_with_the_square():
    small, large = slow.flops(64), slow.flops(128)
    assert {name: large[name] / small[name] for name in small} == {
        "embed": 2, "mix": 2, "compare": 4, "classify": 1,
    }  # fmt: skip
