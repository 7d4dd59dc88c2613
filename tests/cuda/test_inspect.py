"""NVIDIA's compiler on a machine without a GPU: what it says, and how it refuses."""

import os
import re
import subprocess
import sys

import pytest

from labkit.cuda import inspect
from labkit.cuda.errors import CompileError, InvalidValueError, NvrtcMissingError
from labkit.cuda.inspect import libraries

in_ci = os.environ.get("CI") == "true"
needs_nvrtc = pytest.mark.skipif(
    not inspect.is_available() and not in_ci,
    reason="NVRTC is not installed: pip install -e '.[inspect]'",
)

SCALE = """\
#include <cuda_fp16.h>
__device__ float twice(float x) {
    return x + x;
}
extern "C" __global__ void scale(float* x, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = twice(x[i]) * by;
    }
}
template <class T> __global__ void copy(T* to, const T* from) {
    to[threadIdx.x] = from[threadIdx.x];
}
__global__ void shared(float* x) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[255 - threadIdx.x];
}
"""


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_resources_of_each_kernel(arch):
    compiled = inspect.compile_source(SCALE, arch, ["copy<float>", "copy<__half>"])
    assert set(compiled.kernels) == {"scale", "shared", "copy<float>", "copy<__half>"}
    for used in compiled.kernels.values():
        assert 0 < used.registers < 40
        assert used.spill_bytes == used.stack_bytes == 0
    assert compiled.kernels["scale"].shared_bytes == 0
    assert compiled.kernels["shared"].shared_bytes == 1024
    assert compiled.kernels["shared"].barriers == 1
    assert f".target {arch}" in compiled.ptx
    assert re.fullmatch(r"\d+\.\d+\.\d+", compiled.compiler)


@needs_nvrtc
def test_ptx_and_sass_know_their_source_lines():
    compiled = inspect.compile_source(SCALE, "sm_90", ["copy<float>"])
    stores = [
        line for line in compiled.ptx_lines() if line.kernel == "scale" and "st.global" in line.text
    ]
    assert [line.line for line in stores] == [8]
    assert compiled.why_no_sass == ""
    machine = [line for line in compiled.sass_lines() if line.kernel == "scale"]
    assert [line.line for line in machine if "STG" in line.text] == [8]
    assert {line.line for line in machine if line.line} <= {3, 5, 6, 7, 8, 10}
    assert any("FADD" in line.text and line.line == 3 for line in machine) or any(
        "FMUL" in line.text and line.line == 8 for line in machine
    )
    assert {line.kernel for line in compiled.sass_lines()} == {"scale", "shared", "copy<float>"}


@needs_nvrtc
def test_spills_and_local_arrays_are_counted():
    sums = "\n".join(f"    float v{i} = x[i * {i + 2}];" for i in range(100))
    uses = " + ".join(f"v{i} * v{(7 * i) % 100}" for i in range(100))
    source = (
        'extern "C" __global__ void __launch_bounds__(1024, 2) many(float* x, int i) {\n'
        f"{sums}\n    __syncthreads();\n    x[0] = {uses};\n}}\n"
        'extern "C" __global__ void local(float* x, int i) {\n'
        "    float a[64];\n"
        "    for (int j = 0; j < 64; ++j) a[j * i % 64] = x[j];\n    x[0] = a[i];\n}\n"
    )
    kernels = inspect.compile_source(source).kernels
    assert kernels["many"].spill_bytes > 0
    assert kernels["many"].registers <= 32
    assert kernels["local"].stack_bytes >= 256
    assert kernels["local"].spill_bytes == 0


@needs_nvrtc
def test_options_and_includes_reach_the_compiler(tmp_path):
    (tmp_path / "own.cuh").write_text("#define WIDTH 3\n")
    includes = '#include "own.cuh"\n#include "lab.cuh"\n'
    source = f"{includes}__global__ void f(float* x) {{ x[WIDTH * BY] = 1; }}\n"
    file = tmp_path / "k.cu"
    file.write_text(source)
    assert set(inspect.compile_source(source, path=file, options=["-DBY=7"]).kernels) == {"f"}
    with pytest.raises(CompileError, match=r"k\.cu\(3\): error: identifier \"BY\" is undefined"):
        inspect.compile_source(source, path=file)


@needs_nvrtc
def test_an_unknown_arch_is_refused_with_the_known_ones():
    with pytest.raises(InvalidValueError, match=r"'sm_80'.*not 'sm_12'"):
        inspect.compile_source(SCALE, "sm_12")


@needs_nvrtc
def test_a_name_that_fits_no_kernel_is_refused():
    with pytest.raises(CompileError, match="absent"):
        inspect.compile_source(SCALE, name_expressions=["absent<float>"])


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(libraries, "roots", lambda: iter([tmp_path]))
    with pytest.raises(NvrtcMissingError, match=r"pip install -e '.*\[inspect\]'\n.*101 MB"):
        libraries.nvrtc()


def test_nvrtc_without_headers_is_as_good_as_none(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvrtc.so.13").touch()
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda_fp16.h").touch()
    monkeypatch.setattr(libraries, "roots", lambda: iter([tmp_path]))
    with pytest.raises(NvrtcMissingError, match=r"so\.13 lacks its headers crt/mma\.h, nv/target"):
        libraries.nvrtc()


def test_without_the_disassembler_the_reason_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(libraries, "roots", lambda: iter([tmp_path]))
    monkeypatch.setenv("PATH", str(tmp_path))
    compiled = inspect.Compiled("sm_90", "k.cu", "", b"", "", {}, {})
    assert compiled.sass is None
    assert "pip install" in compiled.why_no_sass
    with pytest.raises(CompileError, match="nvdisasm"):
        compiled.sass_lines()


def test_it_loads_nothing_until_asked():
    code = "import labkit.cuda.inspect, sys; sys.exit('libnvrtc' in open('/proc/self/maps').read())"
    if sys.platform != "linux":
        pytest.skip("/proc is Linux's")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
