"""`labkit trace`: a learner's file from the shell."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from labkit.cli import main

CORPUS = Path(__file__).with_name("corpus")


def test_a_sound_kernel_is_told_so(capsys):
    arguments = ["--grid", "4", "--arg", "f32[100]", "--arg", "f32[100]=0", "--arg", "100"]
    status = main(["trace", str(CORPUS / "clean_blocks.cu"), "guarded_add", *arguments])
    out = capsys.readouterr().out
    assert status == 0
    assert "0 findings" in out
    assert " read   global   x" in out


def test_a_defect_is_told_with_its_line_and_fails(capsys, tmp_path):
    target = tmp_path / "report.json"
    arguments = ["--grid", "4", "--arg", "f32[100]", "--arg", "f32[100]=0", "--json", str(target)]
    status = main(["trace", str(CORPUS / "bounds.cu"), "no_guard", *arguments])
    assert status == 1
    assert "bounds.cu:6: out of bounds" in capsys.readouterr().out
    report = json.loads(target.read_text())
    assert report["findings"][0]["line"] == 6
    assert report["findings"][0]["thread"] == [4, 0, 0]


def test_templates_and_files_are_arguments_too(capsys, tmp_path):
    source, data = tmp_path / "scale.cu", tmp_path / "x.npy"
    source.write_text(
        "template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }"
    )
    np.save(data, np.arange(32.0))
    status = main(
        ["trace", str(source), "scale<double>", "--arg", str(data), "--arg", "2.0", "--order", "3"]
    )
    assert status == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_guard", "--arg", "q32[3]"], "a dtype is one of f16, f32"),
        (["no_guard", "--arg", "hello"], "'hello' is no number, array such as f32[64,64] or .npy"),
        (["no_guard", "--grid", "4x"], "sizes look like 4, 4x2 or 4x2x1, not '4x'"),
        (["no_guard"], "no_guard takes 2 arguments (const float* x, float* y), got 0"),
        (["nothing"], "has no kernel 'nothing'"),
        (["no_guard", "--arg", "missing.npy"], "missing.npy"),
        (["no_guard", "--order", "sideways", "--arg", "f32[1]", "--arg", "f32[1]"], "'sideways'"),
    ],
)
def test_what_cannot_run_says_why(capsys, arguments, message):
    assert main(["trace", str(CORPUS / "bounds.cu"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_says_so(capsys):
    assert main(["trace", "nowhere.cu", "k"]) == 2
    assert "nowhere.cu" in capsys.readouterr().err


def test_the_help_says_that_a_process_is_no_sandbox(capsys):
    with pytest.raises(SystemExit):
        main(["trace", "--help"])
    assert "no sandbox" in " ".join(capsys.readouterr().out.split())


BLUR = """#include <algorithm>
namespace my { namespace deep {
__global__ void blur(const float* x, float* y, int n) {
    __shared__ float s[34];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    s[t + 1] = i < n ? x[i] : 0;
    y[i] = (s[t] + s[t + 1] + s[t + 2]) / 3;
}
}}
"""


@pytest.mark.parametrize("name", [[], ["blur"], ["my::deep::blur"]])
def test_a_plain_kernel_is_found_by_itself_and_drawn(name, capsys, tmp_path):
    source, page = tmp_path / "blur.cu", tmp_path / "blur.html"
    source.write_text(BLUR)
    arguments = ["--grid", "4", "--arg", "f32[100]", "--arg", "f32[100]=0", "--arg", "100"]
    assert main(["trace", str(source), *name, *arguments, "--html", str(page)]) == 1
    out = capsys.readouterr().out
    assert "my::deep::blur, grid (4, 1, 1)" in out
    assert "blur.cu:7: out of bounds" in out
    assert "element 100 of y, which has 100" in out
    assert "my::deep::blur" in page.read_text()


@pytest.mark.parametrize("name", [[], ["third"]])
def test_a_file_of_several_kernels_says_which(name, capsys, tmp_path):
    source = tmp_path / "two.cu"
    source.write_text(
        "template <class T> __global__ void first(T* x) {}\n__global__ void second() {}"
    )
    assert main(["trace", str(source), *name]) == 2
    assert "first<...>, second" in capsys.readouterr().err
    assert main(["trace", str(source), "second"]) == 0


def test_a_page_that_cannot_be_written_says_so(capsys, tmp_path):
    source = tmp_path / "one.cu"
    source.write_text("__global__ void one() {}")
    assert main(["trace", str(source), "--html", str(tmp_path / "no" / "where.html")]) == 2
    told = capsys.readouterr()
    assert "one, grid" in told.out
    assert "where.html" in told.err


def test_a_finding_in_an_inlined_function_names_the_line_that_calls_it(capsys, tmp_path):
    (tmp_path / "add.cuh").write_text(
        "__device__ inline void add(int* y, int v) {\n    y[0] += v;\n}\n"
        "__device__ inline void raise(int* y) {\n    y[64] = 1;\n}\n"
    )
    source = tmp_path / "sums.cu"
    source.write_text(
        '#include "add.cuh"\n__global__ void sums(int* y) {\n'
        "    if (threadIdx.x < 32) add(y, 1);\n    else add(y, 2);\n    raise(y);\n}\n"
    )
    assert main(["trace", str(source), "--block", "64", "--arg", "i32[8]=0"]) == 1
    told = capsys.readouterr().out
    races = [line for line in told.splitlines() if "race: " in line]
    assert any("add.cuh:2: race: called at" in one and "sums.cu:3: thread" in one for one in races)
    assert re.search(r"it at line 2, called at \S*sums\.cu:[34], and nothing", told)
    assert re.search(r"add\.cuh:5: out of bounds: called at \S*sums\.cu:5: thread", told)


def test_a_kernel_in_an_included_file_is_found_by_its_name(capsys, tmp_path):
    (tmp_path / "kernels.cuh").write_text(
        'extern "C" __global__ void c_kernel() {}\nnamespace my { __global__ void plain() {} }\n'
    )
    source = tmp_path / "main.cu"
    source.write_text('#include "kernels.cuh"\n')
    for name in ("c_kernel", "my::plain"):
        assert main(["trace", str(source), name]) == 0, capsys.readouterr().err
