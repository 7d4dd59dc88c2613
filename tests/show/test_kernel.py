"""Reports of real launches as the plain data a widget steps through."""

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.report import element
from labkit.cuda.witness import find_witness
from labkit.show.kernel import kernel
from labkit.widgets.base import unpack_columns

CODE = r"""
extern "C" __global__ void other(const double* y) {}
extern "C" __global__ void column(const float* x, float* y) {
    __shared__ float tile[32][32];
    tile[threadIdx.x][3] = x[threadIdx.x * 8];
    __syncwarp();
    if (threadIdx.x < 16) y[threadIdx.x] = tile[threadIdx.x][3];
}
extern "C" __global__ void count(int* y) {
    y[0] += 1;
}
extern "C" __global__ void late(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[63 - threadIdx.x];
}
"""

WINDOW = """
extern "C" __global__ void window(const float* x, float* y, int channels) {
    __shared__ float tile[66];
    const int i = threadIdx.x;
    float sum = 0;
    for (int c = 0; c < channels; ++c) {
        for (int j = i; j < 66; j += 64) tile[j] = x[c * 66 + j];
        __syncthreads();
        sum += tile[i] + tile[i + 1] + tile[i + 2];
    }
    y[i] = sum;
}
"""

TEMPLATE = """template <typename T> __global__ void twice(T* y) { y[threadIdx.x] *= 2; }"""


@pytest.fixture(scope="module")
def module(emulator):
    return cuda.RawModule(CODE)


def traced(module, name, grid=1, block=32, args=()):
    return module.get_function(name)(grid, block, args, trace=cuda.Trace())


@pytest.fixture
def column(module):
    return traced(module, "column", args=(np.zeros(256, np.float32), np.zeros(32, np.float32)))


def by_line(run):
    return {(one["line"], one["array"]): one for one in run["accesses"]}


def test_every_access_has_its_counters(column):
    view = kernel(column)
    accesses = by_line(view.runs[0])
    assert accesses[5, "x"]["sectors"] == 32
    assert accesses[5, "tile"]["wavefronts"] == 32
    assert accesses[7, "tile"]["wavefronts"] == 16
    assert (accesses[7, "y"]["sectors"], accesses[7, "y"]["ideal_sectors"]) == (2, 2)
    lines = {one["line"]: one["efficiency"] for one in view.runs[0]["lines"]}
    assert lines[7] < 1 == lines[5]
    assert view.runs[0]["findings"] == []
    assert repr(view).startswith("KernelView(column: ")


def test_requests_are_lanes_and_offsets_and_shared_ones_begin_at_bank_0(column):
    view = kernel(column)
    columns = unpack_columns(view.schema, view.data)
    accesses = view.runs[0]["accesses"]
    arrays = [accesses[n]["array"] for n in columns["0.access"]]
    offsets = columns["0.offset"].reshape(-1, 32)
    assert offsets[arrays.index("x")].tolist() == list(range(0, 1024, 32))
    tile = arrays.index("tile")
    assert columns["0.phase"][tile] == 0
    assert offsets[tile].tolist() == [12 + 128 * lane for lane in range(32)]
    last = len(arrays) - 1 - arrays[::-1].index("tile")
    assert columns["0.mask"][last] == 0xFFFF
    assert np.all(offsets[last][16:] == 0)


def test_what_the_compiler_repeated_is_one_access(emulator):
    code = """extern "C" __global__ void sums(const float* x, float* y) {
        float sum = 0;
        #pragma unroll
        for (int k = 0; k < 4; ++k) sum += x[threadIdx.x + 32 * k];
        y[threadIdx.x] = sum;
    }"""
    report = traced(
        cuda.RawModule(code), "sums", args=(np.zeros(128, np.float32), np.zeros(32, np.float32))
    )
    (reads,) = (one for one in kernel(report).runs[0]["accesses"] if one["array"] == "x")
    assert (reads["requests"], reads["sectors"]) == (4, 16)


def test_a_race_is_played_back_from_its_witness(module):
    y = np.zeros(1, np.int32)
    report = traced(module, "count", block=64, args=(y,))
    witness = find_witness(module.get_function("count"), 1, 64, (np.zeros(1, np.int32),))
    view = kernel(report, witness=witness)
    (play,) = view.runs[0]["plays"]
    assert view.runs[0]["findings"][play["finding"]]["kind"] == "race"
    assert play["words"] == ["y[0]"]
    assert (view.page, view.finding, view.word) == ("findings", play["finding"], 0)
    first = play["steps"][0]
    assert (first["access"], first["before"], first["line"]) == ("read", "0", 10)
    assert play["result"].startswith(f"At the end y[0] is {play['steps'][-1]['after']}, not 64")
    assert kernel(witness).runs[0]["plays"][0]["steps"] == play["steps"]


def test_shared_words_show_what_nobody_has_written(module):
    x = np.arange(64, dtype=np.float32)
    report = traced(module, "late", block=64, args=(x, np.zeros(64, np.float32)))
    race = next(one for one in report.findings if one.kind == "race")
    witness = find_witness(
        module.get_function("late"), 1, 64, (x, np.zeros(64, np.float32)), race,
        expected=[None, x[::-1]],
    )  # fmt: skip
    (play,) = kernel(report, witness=witness).runs[0]["plays"]
    assert set(play["words"]) <= {f"s[{i}]" for i in range(64)}
    word = play["words"][play["follow"]]
    steps = [one for one in play["steps"] if play["words"][one["word"]] == word]
    assert len({tuple(one["thread"]) for one in steps}) == 2
    writes = [one for one in play["steps"] if one["access"] == "write"]
    assert all(one["before"] == "never written" for one in writes)
    assert {one["after"] for one in writes} <= {str(i) for i in range(64)}


def test_a_bare_report_is_a_short_table(column, module):
    page = column._repr_html_()
    assert "✗ 32 sectors" in page and "✗ 32 wavefronts" in page
    assert repr(column) == "Report(column, 4 accesses, 0 findings)"
    y = np.zeros(64, np.float32)
    found = traced(module, "late", block=64, args=(y, y.copy()))
    assert "✗ kernel.cu:" in found._repr_html_()
    assert "&lt;" in traced(cuda.RawModule(TEMPLATE, name_expressions=["twice<float>"]),
                            "twice<float>", args=(y,))._repr_html_()  # fmt: skip


def test_a_race_is_told_in_elements(module):
    y = np.zeros(64, np.float32)
    report = traced(module, "late", block=64, args=(y, y.copy()))
    race = next(one for one in report.findings if one.kind == "race")
    assert f"s[{race.offset // 4}] (byte {race.offset})" in race.message
    assert element("y", 6, 4) == "y[byte 6]"
    assert element("", 8, 4) == "memory[2] (byte 8)"


def test_several_launches_are_compared(module, column):
    view = kernel(column, traced(module, "other", args=(np.zeros(1),)), title="two")
    assert [run["kernel"] for run in view.runs] == ["column", "other"]
    assert view.runs[1]["accesses"] == []
    assert "1.accesses" not in view.schema
    view.run = 1
    assert "other" in view.svg()


def test_only_reports_can_be_shown(module):
    untraced = module.get_function("other")(1, 32, (np.zeros(1),))
    with pytest.raises(TypeError, match=r"trace=Trace\(\), not None"):
        kernel(untraced)
    with pytest.raises(ValueError, match="at least one"):
        kernel()


def test_it_opens_at_the_request_worth_seeing(column):
    view = kernel(column, at="line 7: write y")
    request = view._given[0]["requests"][view.frame]
    access = view._given[0]["accesses"][request["access"]]
    assert (access["line"], access["array"], view.page) == (7, "y", "requests")
    assert view.runs[0]["places"][view.place][1] == 7


def test_the_threads_played_back_are_those_the_finding_names(module):
    late, x = module.get_function("late"), np.arange(64, dtype=np.float32)
    args = (x, np.zeros(64, np.float32))
    report = late(1, 64, args, trace=cuda.Trace())
    race = next(one for one in report.findings if one.kind == "race")
    order = find_witness(late, 1, 64, args, race, expected=[None, x[::-1]])
    view = kernel(report, witness=order, simple=True)
    (play,) = view.runs[0]["plays"]
    followed = [step["thread"] for step in play["steps"] if step["word"] == view.word]
    assert sorted(followed) == sorted([list(race.thread), list(race.other_thread)])
    assert play["words"][view.word] == "s[32]" and "s[32]" in race.message
    assert view.simple


def test_the_word_followed_is_one_that_lost_a_value(emulator):
    """Most words of a raced array are used in good order: the reader is shown one that is not."""
    window = cuda.RawModule(WINDOW).get_function("window")
    x, y = np.random.default_rng(0).standard_normal((2, 66)).astype("f"), np.zeros(64, "f")
    report = window(1, 64, (x, y, 2), trace=cuda.Trace())
    race = next(one for one in report.findings if one.kind == "race")
    right = [None, sum(x[:, j : j + 64].sum(0) for j in range(3)), None]
    order = find_witness(window, 1, 64, (x, y, 2), race, expected=right, rtol=1e-4)
    (play,) = kernel(report, witness=order).runs[0]["plays"]
    followed = [step["access"] for step in play["steps"] if step["word"] == play["follow"]]
    assert followed[:3] == ["write", "write", "read"]
