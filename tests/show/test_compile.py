"""CUDA source beside what NVIDIA's compiler made of it."""

import os
from pathlib import Path

import pytest

import labkit.cuda as cuda
from labkit import show
from labkit.cuda import inspect
from labkit.cuda.errors import InvalidValueError, NvrtcMissingError

needs_nvrtc = pytest.mark.skipif(
    not inspect.is_available() and os.environ.get("CI") != "true",
    reason="NVRTC is not installed: pip install 'labkit[inspect]'",
)
CODE = """
template <typename T> __global__ void twice(T* x) { x[threadIdx.x] += x[threadIdx.x]; }
extern "C" __global__ void first(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
"""
SPILLS = """extern "C" __global__ void __launch_bounds__(1024, 2) big(float* x, int n) {
    float a[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) a[i] = x[i * n];
    for (int k = 0; k < n; ++k)
        #pragma unroll
        for (int i = 0; i < 96; i++) a[i] = a[i] * a[(i + 7) % 96] + x[i];
    #pragma unroll
    for (int i = 0; i < 96; i++) x[i * n + threadIdx.x] = a[i];
}"""


def lines_of(view, link_line, pane):
    (group,) = (group for group in view.links if group[0] == [0, link_line, link_line])
    return [
        view.panes[pane]["lines"][number - 1]
        for where, first, last in group
        if where == pane
        for number in range(first, last + 1)
    ]


@needs_nvrtc
def test_a_line_is_linked_to_what_was_made_of_it():
    view = show.compile(CODE, "sm_80")
    assert [pane["language"] for pane in view.panes][:2] == ["cuda", "ptx"]
    assert any("ld.global" in line for line in lines_of(view, 5, 1))
    assert any("st.shared" in line for line in lines_of(view, 5, 1))
    assert any("bar.sync" in line for line in lines_of(view, 6, 1))
    if len(view.panes) == 3 and view.panes[2]["language"] == "sass":
        assert any("BAR.SYNC" in line for line in lines_of(view, 6, 2))
        assert any("STG" in line for line in lines_of(view, 7, 2))
        assert view.panes[2]["lines"][0].startswith("/*0000*/  ")
    texts = [station["text"] for station in view.stations]
    assert any(text.startswith("line 6: 1 of PTX") for text in texts)
    assert "through NVRTC 13." in view.title


@needs_nvrtc
def test_registers_and_spills_stand_on_the_kernels_line():
    (mark,) = show.compile(CODE, "sm_80").marks
    assert (mark["line"], mark["severity"]) == (3, "note")
    assert "128 bytes of shared memory, nothing spilled" in mark["text"]
    (mark,) = show.compile(SPILLS, "sm_80").marks
    assert (mark["line"], mark["severity"]) == (1, "warning")
    assert "bytes spilled to local memory" in mark["text"]


@needs_nvrtc
def test_a_kernel_is_shown_without_the_others_of_its_module(emulator):
    module = cuda.RawModule(CODE, name_expressions=["twice<float>", "twice<double>"])
    whole, one = show.compile(module), show.compile(module.get_function("twice<double>"))
    assert len(whole.marks) == 3
    (mark,) = one.marks
    assert mark["text"].startswith("twice<double>: ")
    assert not any(".entry first" in line for line in one.panes[1]["lines"])
    assert any("f64" in line for line in one.panes[1]["lines"])
    assert [group[0] for group in one.links] == [[0, 2, 2]]


@needs_nvrtc
def test_a_file_is_compiled_with_what_it_includes(tmp_path):
    (tmp_path / "size.cuh").write_text("constexpr int size = WIDTH;\n")
    file = tmp_path / "fill.cu"
    file.write_text('#include "size.cuh"\n__global__ void fill(int* x) { x[0] = size; }\n')
    view = show.compile(file, options=["-DWIDTH=7"])
    assert view.title.startswith("fill.cu through NVRTC")
    assert any("7" in line for line in lines_of(view, 2, 1))


@needs_nvrtc
def test_a_refused_source_shows_the_compilers_words():
    view = show.compile("__global__ void f(float* x) {\n    x[0] = out_h;\n    x[1] = c;\n}")
    assert [(mark["line"], mark["severity"]) for mark in view.marks] == [(2, "error"), (3, "error")]
    assert 'identifier "out_h" is undefined' in view.marks[0]["text"]
    assert view.title == "refused for sm_90: 2 errors"
    with pytest.raises(InvalidValueError, match="not 'sm_1'"):
        show.compile(CODE, "sm_1")


def test_without_the_compiler_a_pane_says_how_to_get_it(monkeypatch):
    def missing(*args, **kwargs):
        raise NvrtcMissingError("NVRTC is not installed. Install labkit[inspect]")

    monkeypatch.setattr(inspect, "compile_source", missing)
    view = show.compile(CODE, "sm_90")
    assert view.panes[0]["lines"][2].startswith('extern "C"')
    assert "Install labkit[inspect]" in view.panes[1]["lines"][0]
    assert view.title == "kernel.cu: not compiled here"


def test_only_cuda_can_be_compiled():
    with pytest.raises(TypeError, match="not 7"):
        show.compile(7)
    with pytest.raises(FileNotFoundError):
        show.compile(Path("no such file.cu"))
