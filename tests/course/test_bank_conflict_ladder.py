"""Right and wrong answers to the exercises of the bank-conflict ladder."""

import itertools

import numpy as np
import pytest

from labkit import cli, course
from labkit.course.benches import kernel_bench
from labkit.course.exercise import Rng
from labkit.course.exercises import _column_sums, bank_conflict_ladder
from tests.course.answers import Answers, first_hint

answers = Answers("bank_conflict_ladder")


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


# --- place

answers.right("place")(lambda row, column: column ^ row)
answers.right("place")(lambda row, column: (column + row) % 32)
answers.right("place")(lambda row, column: (column + 5 * row + 3) % 32)
for why, answer in [
    ("as it is", lambda row, column: column),
    ("padding instead", lambda row, column: column + row),
    ("loses elements", lambda row, column: column * row % 32),
    ("loses elements", lambda row, column: column & row),
    ("meets in a column", lambda row, column: column ^ (row // 2)),
    ("shifts by 2", lambda row, column: (column + 2 * row) % 32),
]:
    answers.wrong("place", why)(answer)


@answers.wrong("place", "counts its calls", make=True)
def call_counter():
    calls = itertools.count()
    return lambda row, column: next(calls) % 32


# --- wavefronts


def counting(item_size=True, words=True, whole=True, groups=True, fullest=True):
    """An answer that leaves something out."""

    def wavefronts(index, itemsize):
        size = itemsize if item_size else 4
        together = 32 if size <= 4 or not groups else 128 // size
        total = 0
        for first in range(0, 32, together):
            wanted = []
            for t in range(first, first + together):
                start = eval(index, {"t": t}) * size
                ends = start + (size if whole else 1)
                wanted += range(start // 4, (ends - 1) // 4 + 1)
            banks = [word % 32 for word in (set(wanted) if words else wanted)]
            total += max(map(banks.count, banks)) if fullest else len(set(banks))
        return total

    return wavefronts


answers.right("wavefronts")(counting())
answers.right("wavefronts")(counting(whole=False))  # the other words of an item meet as it does
for why, answer in [
    ("ignores the item size", counting(item_size=False)),
    ("counts lanes and not words", counting(words=False)),
    ("serves wide items together", counting(groups=False)),
    ("counts the banks in use", counting(fullest=False)),
    ("column pitch only", lambda index, itemsize: int(np.gcd(int("0" + index.split()[0]), 32))),
]:
    answers.wrong("wavefronts", why)(answer)

# --- column_sum

SUM = r"""extern "C" __global__
void column_sum(const float* dy, float* out, int rows, int cols) {
    __shared__ float tile[33 * 32];
    int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32;
    float v = 0;
    if (left + tx < cols)
        for (int row = ty; row < rows; row += 32) v += dy[row * cols + left + tx];
    tile[ty * 33 + tx] = v;
    __syncthreads();
    v = tile[tx * 33 + ty];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
    if (tx == 0 && left + ty < cols) out[left + ty] = v;
}
"""
SWIZZLED = (
    ("33 * 32", "32 * 32"),
    ("ty * 33 + tx", "ty * 32 + (tx ^ ty)"),
    ("tx * 33 + ty", "tx * 32 + (ty ^ tx)"),
)
answers.right("column_sum")(lambda: SUM)
answers.right("column_sum")(changed(SUM, *SWIZZLED))
answers.right("column_sum")(
    changed(SUM, ("ty * 33 + tx]", "ty][tx]"), ("tx * 33 + ty]", "tx][ty]"), ("33 * 32", "32][33"))
)

LOSES = (
    ("ty * 33 + tx", "ty * 32 + (tx & ty)"),
    ("tx * 33 + ty", "tx * 32 + (ty & tx)"),
)
MEETS = ("tx * 33 + ty", "tx * 32 + (ty ^ tx / 2)")
EARLY = ("    float v = 0;\n", "    float v = 0;\n    if (left + tx >= cols) return;\n")
UNGUARDED = (("    if (left + tx < cols)\n", ""), (" && left + ty < cols", ""))
ONE_FLOAT = ("row = ty; row < rows; row += 32", "row = 0; row < rows && ty == 0; ++row")
INSIDE = (
    "    tile[ty * 33 + tx] = v;\n    __syncthreads();\n",
    "    if (left + tx < cols) { tile[ty * 33 + tx] = v;\n        __syncthreads(); }\n",
)
TREE = (
    SUM[SUM.index("    v = tile[tx * 33") :],
    """    for (int step = 16; step > 0; step /= 2) {
        if (ty < step) tile[ty * 33 + tx] += tile[(ty + step) * 33 + tx];
        __syncthreads();
    }
    if (ty == 0 && left + tx < cols) out[left + tx] = tile[tx];
}
""",
)
ATOMICS = (
    SUM[SUM.index("    tile[ty * 33") :],
    """    tile[ty * 33 + tx] = v;
    if (ty == 0 && left + tx < cols) out[left + tx] = 0;
    __syncthreads();
    if (left + tx < cols) atomicAdd(&out[left + tx], v);
}
""",
)
ONE_WARP = r"""extern "C" __global__
void column_sum(const float* dy, float* out, int rows, int cols) {
    int column = blockIdx.x * 32 + threadIdx.x;
    float v = 0;
    if (threadIdx.y || column >= cols) return;
    for (int row = 0; row < rows; ++row) v += dy[row * cols + column];
    out[column] = v;
}
"""
AT = "dy[row * cols + left + tx]"
ADD = f"v += {AT};"
END = "    if (left >= 64) return;\n    float v = 0;"
DOWN = r"""extern "C" __global__
void column_sum(const float* dy, float* out, int rows, int cols) {
    __shared__ float tile[33 * 32];
    int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32;
    float v = 0;
    if (left + ty < cols)
        for (int row = tx; row < rows; row += 32) v += dy[row * cols + left + ty];
    tile[ty * 33 + tx] = v;
    __syncwarp();
    v = tile[ty * 33 + tx];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
    if (tx == 0 && left + ty < cols) out[left + ty] = v;
}
"""
for why, answer in [
    (
        "padding declared but not indexed",
        changed(SUM, ("ty * 33 + tx", "ty * 32 + tx"), ("tx * 33 + ty", "tx * 32 + ty")),
    ),
    ("swizzle that collides", changed(SUM, SWIZZLED[0], *LOSES)),
    ("swizzle that collides", changed(SUM, *SWIZZLED[:2], MEETS)),
    ("full mask in a partial warp", changed(SUM, EARLY)),
    ("barrier inside the guard", changed(SUM, INSIDE)),
    ("atomics instead of a tree", changed(SUM, ATOMICS)),
    ("multiples of 32 only", changed(SUM, *UNGUARDED)),
    ("a tree with a barrier in each round", changed(SUM, TREE)),
    ("one warp adds all rows", lambda: ONE_WARP),
    ("one float for many rows", changed(SUM, ONE_FLOAT)),
    ("no barrier", changed(SUM, ("    __syncthreads();\n", ""))),
    ("writes to dy", changed(SUM, (ADD, "{ v += " + AT + "; ((float*)dy)[" + AT[3:] + " = 0; }"))),
    ("writes to dy", changed(SUM, ("v = tile[", "((float*)dy)[0] = 99; v = tile["))),
    ("two blocks only", changed(SUM, ("    float v = 0;", END))),
    ("lanes down a column", lambda: DOWN),
    ("adds to what was in out", changed(SUM, ("out[left + ty] = v", "out[left + ty] += v"))),
]:
    answers.wrong("column_sum", why)(answer)

# --- regression_test


@answers.right("regression_test")
def one_shape(run):
    found = run(70, 45)
    assert found.right
    assert found.passes == 1
    assert found.barriers <= 2


@answers.wrong("regression_test", "asks for right sums alone")
def sums_alone(run):
    assert run(70, 45).right


@answers.wrong("regression_test", "asks for passes alone")
def passes_alone(run):
    assert run(64, 64).passes == 1


@answers.wrong("regression_test", "takes whole tiles")
def whole_tiles(run):
    assert run(64, 64) == (True, 1.0, 1.0)


@answers.wrong("regression_test", "takes few rows")
def few_rows(run):
    assert run(20, 45) == (True, 1.0, 1.0)


@answers.wrong("regression_test", "forgets the barriers")
def no_barriers(run):
    assert run(70, 45)[:2] == (True, 1.0)


test_answers = answers.tests()


def test_a_declared_pitch_gets_its_own_hint():
    slip = changed(SUM, ("ty * 33 + tx", "ty * 32 + tx"), ("tx * 33 + ty", "tx * 32 + ty"))
    assert "which number multiplies" in first_hint(bank_conflict_ladder.column_sum, slip)


def test_a_missing_barrier_is_told_of_it():
    without = changed(SUM, ("    __syncthreads();\n", ""))
    assert "a barrier" in first_hint(bank_conflict_ladder.column_sum, without)


READ = """
template <int size> struct alignas(size) Item { char bytes[size]; };
template <int size> __global__ void read(Item<size>* out, const int* at) {
    __shared__ Item<size> tile[8192 / size * 4];
    for (int i = threadIdx.x; i < 8192 / size * 4; i += 32) tile[i] = Item<size>{};
    __syncwarp();
    out[threadIdx.x] = tile[at[threadIdx.x] % (8192 / size * 4)];
}
"""


@pytest.mark.parametrize("seed", range(12))
def test_the_emulator_counts_the_same_passes(seed):
    index, item = bank_conflict_ladder._an_index(Rng(seed), 8)
    at = np.array([eval(index, {"t": t}) for t in range(32)], np.int32)
    if at.max() >= 8192 // item * 4:
        at %= 32
        index = "t" if len(set(at)) == 32 else "5"
        at = np.array([eval(index, {"t": t}) for t in range(32)], np.int32)
    done = kernel_bench.launch(
        READ, f"read<{item}>", 1, 32, (np.zeros(32 * item, np.uint8), at),
        names=[f"read<{n}>" for n in bank_conflict_ladder.ITEMS], trace=True,
    )  # fmt: skip
    counted = done.report.total("wavefronts", space="shared", access="read")
    assert counted == bank_conflict_ladder._passes(index, item)


# --- what the chapter shows


def test_conformance_is_red_for_the_slip_twice_and_for_the_padding_once():
    assert len(course.conformance("kernels", _column_sums.SLIP).red) == 2
    padded = _column_sums.changed(_column_sums.SLIP, _column_sums.PADDED)
    assert course.conformance("kernels", padded).red == ["sums down the columns"]


def test_conformance_is_green_for_the_repair_in_a_file_of_its_own(tmp_path, capsys):
    file = tmp_path / "sum.py"
    file.write_text(f"column_sum = {_column_sums.FINISHED!r}")
    assert cli.main(["conformance", "kernels", "--system", str(file), "--seed", "2"]) == 0
    file.write_text("column_sum = 'no kernel'")
    assert cli.main(["conformance", "kernels", "--system", str(file)]) == 1
    assert "raises CompileError" in capsys.readouterr().out


def test_conformance_of_the_shelf_is_green():
    assert cli.main(["conformance", "kernels", "--seed", "3"]) == 0
