"""What a host compiler would do otherwise than a GPU, and what it would hide from a trace."""

import os
import signal
import threading

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.errors import CompileError, KernelFailure, UnsupportedFeatureError
from labkit.cuda.source import stored_results

TEXT = r"""
#include <cassert>
#include <cstdio>
namespace inner { __device__ int hidden; }
__constant__ float c[4];
__device__ int s = 5, f;
__device__ const int table[3] = {1, 2, 3};

extern "C" __global__ void variables(float* y) {
    y[threadIdx.x] = c[threadIdx.x] + s + table[2] + inner::hidden;
    if (threadIdx.x == 0) s += 100, inner::hidden += 1000;
}
extern "C" __global__ void says(int n) {
    for (int i = 0; i < n; ++i) printf("thread %d says %d\n", threadIdx.x, i), printf("done\n");
}
extern "C" __global__ void demands(int n) { assert(n > 3 && "n is small"); }
extern "C" __global__ void spins(volatile int* y) {
    if (blockIdx.x == 0) while (y[0] == 0) {}
    y[0] = 1;
}
extern "C" __global__ void divides(const int* a, const long long* b, int* y, long long* z) {
    y[0] = a[0] / a[1], y[1] = a[0] % a[1];
    z[0] = b[0] / b[1], z[1] = b[0] % b[1];
}
"""


@pytest.fixture(scope="module")
def text():
    return cuda.RawModule(TEXT)


def test_both_builds_of_a_file_have_one_set_of_variables(text):
    address = text.get_global("c").address
    text.driver.memcpy(address, np.arange(4, dtype=np.float32).ctypes.data, 16)
    kernel, y = text.get_function("variables"), np.zeros(4, np.float32)
    seen = []
    for trace in (cuda.Trace(), None, cuda.Trace(), None):
        kernel((1,), (4,), [y], trace=trace)
        seen.append(y.tolist())
    first = np.arange(4) + 5 + 3
    later = first + 1100 * (np.arange(4) > 0)  # thread 0 reads, then adds; the others come after
    expected = [(later + 1100 * launch).tolist() for launch in range(4)]
    assert seen == expected


def test_variables_with_short_names_keep_them(text):
    report = text.get_function("variables")((1,), (1,), [np.zeros(1, "f4")], trace=cuda.Trace())
    assert {one.array for one in report.select(space="variable")} == {"c", "s", "hidden"}
    assert text.get_global("f").size_bytes == text.get_global("s").size_bytes == 4


def test_printf_is_kept_whatever_headers_are_included(text, capsys):
    kernel = text.get_function("says")
    kernel((1,), (2,), [1])
    text.driver.stream_synchronize(0)
    assert capsys.readouterr().out == "thread 0 says 0\ndone\nthread 1 says 0\ndone\n"
    assert kernel((1,), (1,), [1], trace=cuda.Trace()).printed == "thread 0 says 0\ndone\n"


def test_printf_says_what_it_does_not_keep(text):
    printed = text.get_function("says")((1,), (32,), [2000], trace=cuda.Trace(blocks=1)).printed
    assert printed.endswith(" bytes are not]\n")
    lost = int(printed.rsplit("\n", 2)[-2].split()[-4])
    whole = sum(len(f"thread {t} says {i}\ndone\n") for t in range(32) for i in range(2000))
    assert len(printed[: printed.rindex("\n[")]) + lost == whole


def test_an_assertion_of_the_c_library_gives_its_text_and_line(text):
    line = TEXT[: TEXT.index("assert(n")].count("\n") + 1
    with pytest.raises(KernelFailure, match="n > 3 && ") as failure:
        text.get_function("demands")((1,), (1,), [2])
        text.driver.stream_synchronize(0)
    assert failure.value.report["line"] == line
    report = text.get_function("demands")((1,), (1,), [2], trace=cuda.Trace())
    assert [(one.kind, one.line) for one in report.findings] == [("assert", line)]


@pytest.mark.parametrize("trace", [None, cuda.Trace()])
def test_the_time_a_launch_is_given_holds_and_a_wait_for_a_later_block_is_named(text, trace):
    named = r"within 0\.5 s.*a block with a higher number"
    with pytest.raises(KernelFailure, match=named) as failure:
        text.get_function("spins")((2,), (1,), [np.zeros(1, "i4")], trace=trace, timeout_s=0.5)
        text.driver.stream_synchronize(0)
    line = TEXT[: TEXT.index("while")].count("\n") + 1
    assert failure.value.report["line"] == line, failure.value.report


def test_a_hanging_kernel_says_where_though_its_process_gets_no_turn_for_long(text, monkeypatch):
    ask = os.kill

    def ask_a_starved_process(pid, number):
        if number == signal.SIGUSR1:
            ask(pid, signal.SIGSTOP)
            threading.Timer(2.0, ask, (pid, signal.SIGCONT)).start()
        ask(pid, number)

    monkeypatch.setattr("labkit.cuda.emulator.worker._GRACE_S", 1.0)
    monkeypatch.setattr("labkit.cuda.emulator.worker.os.kill", ask_a_starved_process)
    with pytest.raises(KernelFailure, match=r"within 0\.2 s") as failure:
        text.get_function("spins")((2,), (1,), [np.zeros(1, "i4")], timeout_s=0.2)
        text.driver.stream_synchronize(0)
    line = TEXT[: TEXT.index("while")].count("\n") + 1
    assert failure.value.report["line"] == line, failure.value.report


def test_the_least_integer_divided_by_minus_one_is_itself(text):
    y, z = np.zeros(2, np.int32), np.zeros(2, np.int64)
    least, wide = np.array([-(2**31), -1], np.int32), np.array([-(2**63), -1])
    for trace in (None, cuda.Trace()):
        text.get_function("divides")((1,), (1,), [least, wide, y, z], trace=trace)
        assert (y.tolist(), z.tolist()) == ([-(2**31), 0], [-(2**63), 0])


def test_more_static_shared_memory_than_ptxas_allows_is_refused():
    fits = """extern "C" __global__ void k(float* y) {
        __shared__ float t[%d];
        t[threadIdx.x] = 1;
        __syncthreads();
        y[0] = t[1];
    }"""
    cuda.RawModule(fits % 12288).compile()
    with pytest.raises(CompileError, match=r"49156 bytes.*at most 49152.*extern __shared__"):
        cuda.RawModule(fits % 12289).compile()


@pytest.mark.parametrize("word", ["__asm__", "__asm", "asm"])
def test_assembly_is_refused_in_every_spelling(word):
    with pytest.raises(UnsupportedFeatureError, match=r"kernel\.cu:2: .*inline PTX: nop"):
        cuda.RawModule(f'extern "C" __global__ void k() {{\n{word}("nop;"); }}').compile()


CALLS = [
    ("s[i] = f(x);", "s[i] = cuemu::stored(f(x));"),
    ("if (i < n) y->p = f(g(x), 2);", "if (i < n) y->p = cuemu::stored(f(g(x), 2));"),
    ("else *q = f<int, 3>(x);", "else *q = cuemu::stored(f<int, 3>(x));"),
    ("a.b[i][j] = (T)f(x); // = g(x);", "a.b[i][j] = cuemu::stored((T)f(x)); // = g(x);"),
    ("s[i]\n  = f(x);", "s[i]\n  = cuemu::stored(f(x));"),
]
LEFT = [
    "T t = f(x);", "T* p = f(x);", "t = f(x);", "s[i] += f(x);", "s[i] = x;",
    "a[i] = f(x), b = g(x);", "#define SET(i) s[i] = f(i);",
    "#define SET(i) \\\n  s[i] = f(i);", "s[i] == f(x);", "P p[2] = {f(x), g(x)};",
    '"s[i] = f(x);";',
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), [*CALLS, *((code, code) for code in LEFT)])
def test_only_results_that_go_to_memory_are_marked(code, expected):
    assert stored_results(f"{{\n{code}\n}}") == f"{{\n{expected}\n}}"
