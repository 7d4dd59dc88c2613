"""Compiling: errors at the learner's line, refusals by name, a cache that notices changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.emulator import build
from labkit.cuda.errors import CompileError, UnsupportedFeatureError

KERNEL = 'extern "C" __global__ void k(int* x) {\n%s\n}'
REFUSED = {
    'asm volatile("nop;" : "=r"(x[0]));': "inline PTX: nop",
    "x[0] = __activemask();": "__activemask",
    "auto g = cooperative_groups::this_cluster();": "thread block clusters",
    "x[0] = tex2D<int>(0, 1, 2);": "textures",
    "cudaTextureObject_t t;": "textures",
    "surf2Dwrite(1, 2, 3, 4);": "surfaces",
    "k<<<1, 1>>>(x);": "dynamic parallelism",
    "int* p; cudaMalloc(&p, 4);": "host API",
    "static __managed__ int m;": "managed memory",
    "bool s = __isShared(x);": "address space",
    "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 4, float> f;": "wmma fragment",
}


@pytest.mark.parametrize("text", REFUSED, ids=REFUSED.values())
def test_what_is_not_emulated_is_refused_by_name_and_line(emulator, text):
    code = "#include <cooperative_groups.h>\n#include <mma.h>\n" + KERNEL % text
    with pytest.raises(UnsupportedFeatureError) as refused:
        cuda.RawModule(code).compile()
    assert REFUSED[text] in str(refused.value)
    assert "kernel.cu:4" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("#include <cuda/semaphore>\n", "libcu"),
        ("int main() { return 0; }\n", "host API"),
    ],
)
def test_headers_of_what_is_not_emulated_are_refused(emulator, text, feature):
    with pytest.raises(UnsupportedFeatureError, match=feature):
        cuda.RawModule(text + KERNEL % "").compile()


def test_the_words_in_a_comment_or_string_are_not_refused(emulator):
    cuda.RawModule(KERNEL % '// asm tex2D <<<1, 1>>>\nprintf("asm <<< %d", x[0]);').compile()


def test_an_error_names_the_learners_line(emulator, tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL % "x[0] = 1;\nx[1] = nonsense;")
    with pytest.raises(CompileError, match=r"mine\.cu:3:8: error: 'nonsense'") as refused:
        cuda.RawModule(path=path).compile()
    assert "unit.cpp" not in str(refused.value)


def test_a_name_expression_that_matches_nothing_is_told(emulator):
    code = "template <class T> __global__ void k(T* x) { *x = 1; }"
    with pytest.raises(CompileError, match=r"no kernel matches.*\['k<floot>'\]"):
        cuda.RawModule(code, name_expressions=["k<floot>"]).compile()


def test_options_define_macros_as_for_nvrtc(emulator):
    x = np.zeros(1, np.int32)
    module = cuda.RawModule(KERNEL % "x[0] = SIZE;", options=("-DSIZE=7", "--std=c++17"))
    module.get_function("k")(1, 1, (x,))
    assert x[0] == 7


def test_a_changed_header_is_noticed(emulator, tmp_path):
    header, path = tmp_path / "mine.cuh", tmp_path / "mine.cu"
    path.write_text('#include "mine.cuh"\n' + KERNEL % "x[0] = answer();")
    results = []
    for answer in (1, 2):
        header.write_text(f"__device__ int answer() {{ return {answer}; }}")
        x = np.zeros(1, np.int32)
        cuda.RawModule(path=path).get_function("k")(1, 1, (x,))
        results.append(x[0])
    assert results == [1, 2]


def test_char_is_signed_whatever_the_compiler_takes_it_for(emulator, tmp_path, monkeypatch):
    """A compiler for arm64 takes it for unsigned."""
    other = tmp_path / "g++"
    other.write_text(f'#!/bin/sh\nexec {build.find_compiler().path} -funsigned-char "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    assert build.find_compiler().path == str(other)
    x = np.zeros(1, np.int32)
    cuda.RawModule(KERNEL % "char c = -1; x[0] = c;").get_function("k")(1, 1, (x,))
    assert x[0] == -1


def test_a_compiler_that_checks_its_calls_keeps_what_a_kernel_prints(
    emulator, tmp_path, monkeypatch
):
    """Ubuntu's makes __printf_chk of printf and __memcpy_chk of memcpy: a trace saw neither."""
    other = tmp_path / "g++"
    asks = "-D_FORTIFY_SOURCE=2"
    other.write_text(f'#!/bin/sh\nexec {build.find_compiler().path} {asks} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    body = 'printf("one %d\\n", x[1]); memcpy(x + 2, x, 8);'
    kernel = cuda.RawModule("#include <cstring>\n" + KERNEL % body).get_function("k")
    x = np.array([0, 7, 0], np.int32)  # room for one number more, and two are copied
    report = kernel(1, 1, (x,), trace=cuda.Trace())
    assert report.printed == "one 7\n"
    assert "writes bytes 8 to 15 of x, which has 12" in str(report)


def test_the_second_compile_comes_from_the_cache(emulator):
    first = build.compile_cuda(KERNEL % "x[0] = 3;", "a.cu")
    before = first.stat().st_mtime_ns
    assert build.compile_cuda(KERNEL % "x[0] = 3;", "a.cu") == first
    assert first.stat().st_mtime_ns == before


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerMissing, match=r"sudo apt install g\+\+"):
        build.find_compiler()


def test_a_fresh_cache_directory_is_made_where_it_is_asked_for(tmp_path):
    script = (
        "from labkit.cuda.emulator import build\n"
        "print(build.compile_cuda('extern \"C\" __global__ void k(int* x) { *x = 1; }', 'a.cu'))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2], env={**os.environ, "LABKIT_CACHE": str(tmp_path / "new")},
    )  # fmt: skip
    assert told.stdout.startswith(str(tmp_path / "new" / "compiled" / "emulator-"))


@pytest.mark.skipif(build.find_compiler().is_clang, reason="clang reads the header each time")
@pytest.mark.parametrize("trace", [False, True], ids=["fast", "trace"])
def test_the_header_is_read_once_for_all_kernels_and_the_same_bytes_come_out(
    trace, tmp_path, monkeypatch
):
    code, calls, run = KERNEL % "x[0] = __ldg(x + 1) + 4;", [], build.run_compiler

    def tells_what_it_reads(compiler, arguments):
        folder = Path(arguments[arguments.index("-o") + 1]).parent  # another one in each build
        alike = ["-Wl,--build-id=none", f"-fdebug-prefix-map={folder}=/"]
        done = run(compiler, [*arguments, "-H", *alike])
        calls.append(done.stderr)
        return done

    monkeypatch.setattr(build, "run_compiler", tells_what_it_reads)
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "read"))
    for options in ([], ["-DSOMETHING=1"]):
        once = build.compile_cuda(code, "a.cu", options=options, trace=trace)
    headers = [reading for reading in calls if "cuemu/types.h" in reading]
    assert len(headers) == 1, "one call reads the header"
    assert sum(reading.startswith("! ") for reading in calls) == 2, "and both kernels use that"

    monkeypatch.setattr(build, "precompiled", lambda *given: [])
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "unread"))
    anew = build.compile_cuda(code, "a.cu", options=["-DSOMETHING=1"], trace=trace)
    assert once.read_bytes() == anew.read_bytes()


def test_another_checkouts_build_is_not_taken(emulator, tmp_path, monkeypatch):
    """Its line table names the other checkout's shims, which would be blamed for every fault."""
    code = 'extern "C" __global__ void moved(int* x) { x[0] = 1; }'
    here = build.compile_cuda(code, "moved.cu")
    shutil.copytree(build.INCLUDE, tmp_path / "include")
    monkeypatch.setattr(build, "INCLUDE", tmp_path / "include")
    assert build.compile_cuda(code, "moved.cu") != here


HEADERS = [
    "cmath",
    "cstdlib",
    "algorithm",
    "string",
    "vector",
    "iostream",
    "chrono",
    "memory",
    "random",
    "limits",
    "functional",
    "array",
    "utility",
    "complex",
    "map",
    "cstdint",
    "cassert",
    "thread",
    "math.h",
    "stdlib.h",
    "stdio.h",
    "time.h",
    "cstdio",
    "cstring",
]
USES_MANY = """
__noinline__ __device__ float same(float x) { return x; }
extern "C" __global__ void k(float* y) {
    const long began = clock();
    y[0] = sqrt(4.f) + exp(0.f) + pow(2.f, 3.f) + pow(2., 3) + abs(-3) + abs(-2.5f) + abs(-5ll)
         + min(1, 2) + max(1.f, 2.f) + min(1u, 2ll) + fmin(1.f, 2.f) + rsqrtf(4.f) + floor(2.5f)
         + isnan(y[0]) + isinf(2.) + fma(1.f, 2.f, 3.f) + log2(8) + same(1) + (clock() > began);
    y[1] = sizeof(exp(1.f)) + sizeof(abs(1.f)) + sizeof(pow(1.f, 2.f)) + sizeof(min(1, 2));
}
"""


@pytest.mark.parametrize(
    ("headers", "using"), [([], ""), (HEADERS, ""), (HEADERS[::-1], "using namespace std;\n")]
)
def test_standard_headers_change_nothing(emulator, headers, using):
    included = "".join(f"#include <{name}>\n" for name in headers)
    y = np.zeros(2, np.float32)
    cuda.kernel(included + using + USES_MANY)((1,), (1,), [y])
    assert y.tolist() == [47.0, 16.0]


def test_a_parameter_without_a_name_leaves_the_others_theirs():
    code = "#include <type_traits>\n" + (
        "template <bool On> __global__ void k(int* counts, std::bool_constant<On>, int n) {\n"
        "    counts[threadIdx.x] = n;\n}"
    )
    module = cuda.RawModule(code, name_expressions=["k<true>"])
    names = [one.name for one in module.get_function("k<true>").function.signature.params]
    assert names == ["counts", "#1", "n"]
