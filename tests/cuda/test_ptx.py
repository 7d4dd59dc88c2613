"""Inline PTX: what each instruction computes, and what is refused by name and line."""

from pathlib import Path

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.errors import UnsupportedFeatureError

TEXT = Path(__file__).with_name("inline_ptx.cu")
BUILDS = pytest.mark.parametrize("trace", [None, cuda.Trace()], ids=["fast", "traced"])


@pytest.fixture(scope="module")
def text():
    return cuda.RawModule(path=TEXT)


def run(text, name, arrays, trace, threads=32):
    """What is found; the arrays hold what the kernel left."""
    report = text.get_function(name)((1,), (threads,), arrays, trace=trace)
    text.driver.stream_synchronize(0)
    assert report is None or not report.findings, report


@BUILDS
def test_integer_instructions_compute_what_ptx_says(text, trace):
    a, b = 0x12345678, 0x9ABCDEF0
    y = np.zeros(14, np.uint32)
    run(text, "integers", [np.array([a, b], np.uint32), y], trace, threads=1)
    wrapped = (a + b) % 2**32
    expected = [
        a * b >> 32, a * b % 2**32, (a * b + 7) % 2**32, (a & b) | (~a & 0xFF00FF00),
        a >> 4 & 0x1FF, (b & ~(0xFFF << 8)) | (a & 0xFFF) << 8, 0xDEF05678, 0, 2**32 - 1,
        6, wrapped ^ (wrapped - 1), (a * b >> 32) ^ (a * b % 2**32), (a - b) % 2**32, 3,
    ]  # fmt: skip
    assert y.tolist() == expected


@BUILDS
def test_float_instructions_compute_what_ptx_says(text, trace):
    y = np.zeros(8, np.float32)
    run(text, "floats", [np.array([3.0, 2.5], np.float32), y], trace, threads=1)
    assert y.tolist() == [8.5, 8.0, 4.0, 3.0, 2.0, 2.5, 3.0, 1.0 + 2.0**-10]


@BUILDS
def test_lanes_meet_as_in_cuda(text, trace):
    y = np.zeros(97, np.uint32)
    run(text, "warps", [y], trace)
    lanes = np.arange(32)
    assert y[:32].tolist() == [2**lane - 1 for lane in range(32)]
    assert y[32:64].tolist() == (lanes ^ 1).tolist()
    assert set(y[64:96]) == {0xC0000000}
    assert y[96] == lanes.sum()


@BUILDS
def test_vectors_are_loaded_and_stored_at_once(text, trace):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(text, "vectors", [x, y], trace)
    assert y.reshape(-1, 4).tolist() == x.reshape(-1, 4)[:, [1, 0, 3, 2]].tolist()


def test_a_copy_is_there_behind_its_wait_and_not_before(text):
    x, y = np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32)
    report = text.get_function("copied")((1,), (32,), [x, y, 120], trace=cuda.Trace())
    first = np.where(np.arange(128) < 120, x[:128], 0)  # of size 0: zeros are written
    assert y[:128].tolist() == first[::-1].tolist()
    assert y[129] == x[131]
    before, _, _ = TEXT.read_text().partition("not yet")
    line = before.count("\n") + 1
    assert [(one.kind, one.line) for one in report.findings] == [("uninitialised", line)]
    assert np.isnan(y[128])


@BUILDS
def test_matrix_instructions_multiply(text, trace):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-8, 8, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    c = np.zeros((16, 8), np.float32)
    run(text, "matrices", [a.ravel(), b.ravel(), c.reshape(-1)], trace)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32) + 1)


@BUILDS
def test_byte_matrices_multiply(text, trace):
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (8, 32)))
    c = np.zeros((16, 8), np.int32)
    run(text, "bytes", [a.view(np.uint32).ravel(), b.view(np.uint32).ravel(), c.reshape(-1)], trace)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)


REFUSED = {
    'asm("wgmma.fence.sync.aligned;");': "wgmma",
    'asm volatile("{\\n L: bra L;\\n}");': "labels and jumps",
    'asm("mbarrier.init.shared.b64 [%0], 1;" :: "r"(x[0]));': "mbarrier",
    'asm volatile("cp.async.bulk.commit_group;");': r"cp\.async\.bulk\.commit_group",
    'asm("bar.sync 1, 64;");': r"bar\.sync",
    'asm("activemask.b32 %0;" : "=r"(x[0]));': "which lanes are together",
    'asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x[0]));': "%cluster_ctaid",
    'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0}, {%0};" : "=d"(*y));': "mma",
    '__asm__("nop" SUFFIX ";");': "preprocessor",
}  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED, ids=list(range(len(REFUSED))))
def test_other_instructions_are_refused_by_name_and_line(statement):
    code = f'extern "C" __global__ void k(int* x, double* y) {{\n    x[0] = 1;\n    {statement}\n}}'
    with pytest.raises(UnsupportedFeatureError, match=rf"kernel\.cu:3: .*{REFUSED[statement]}"):
        cuda.RawModule(code).compile()


def test_what_the_preprocessor_takes_out_may_be_anything():
    code = """extern "C" __global__ void k(int* x) {
#if __CUDA_ARCH__ >= 900
    asm volatile("wgmma.fence.sync.aligned;");
#endif
    x[0] = 7;
}"""
    x = np.zeros(1, np.int32)
    cuda.RawModule(code).get_function("k")((1,), (1,), [x])
    assert x[0] == 7
