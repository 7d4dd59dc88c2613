"""Whole programs: what they print, how they end, and what is found in them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit.cuda.programs.builds import Program
from labkit.cuda.programs.program import run_program

PROGRAMS = Path(__file__).with_name("programs")
FILES = sorted(path for path in PROGRAMS.glob("*.cu") if path.name != "several_b.cu")


def said(text, word):
    return re.findall(rf"^// {word}: (.*)$", text, re.MULTILINE)


def marked(text):
    """(kind, line) of every `// finds race, uninitialised` behind a line."""
    ends = ((n, re.search(r"// finds (.*)$", line)) for n, line in enumerate(text.splitlines(), 1))
    return {(kind, n) for n, match in ends if match for kind in match[1].split(", ")}


def run(path, tmp_path, *, trace, options=()):
    """(result, what the program printed)"""
    text = path.read_text()
    sources = (said(text, "sources") or [path.name])[0].split()
    arguments = " ".join(said(text, "arguments")).split()
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        program = Program(tuple(PROGRAMS / name for name in sources), options)
        result = run_program(program, arguments, trace=trace, output=file.fileno())
    return result, printed.read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_program_does_what_its_first_lines_say(path, tmp_path):
    text = path.read_text()
    result, printed = run(path, tmp_path, trace=True)
    assert printed.splitlines() == said(text, "expect")
    assert result.status == int((said(text, "status") or ["0"])[0])
    found = {(finding.kind, finding.line) for finding in result.findings}
    assert found == marked(text), result
    assert all(Path(finding.file).name == path.name for finding in result.findings)
    assert not [note for note in result.notes if "never freed" in note] or result.findings


def test_memory_that_was_freed_is_called_that(tmp_path):
    result, _ = run(PROGRAMS / "defect_freed.cu", tmp_path, trace=True)
    told = [finding.message for finding in result.findings]
    assert told[0].endswith("reads 4 bytes at byte 0 of an allocation of 128 that was freed")


@pytest.mark.parametrize("name", ["saxpy", "streams", "symbols", "defect_host_pointer"])
def test_unwatched_it_prints_the_same(name, tmp_path):
    path = PROGRAMS / f"{name}.cu"
    result, printed = run(path, tmp_path, trace=False)
    assert printed.splitlines() == said(path.read_text(), "expect")
    assert result.traced == 0


def test_a_program_that_fails_watched_is_told_what_fresh_memory_holds(tmp_path):
    text = """#include <cuda_runtime.h>
    int main() {
        float *unwritten, host[4];
        cudaMalloc(&unwritten, sizeof(host));
        cudaMemcpy(host, unwritten, sizeof(host), cudaMemcpyDeviceToHost);
        cudaFree(unwritten);
        return host[0] != 0;
    }
    """
    program = Program((Path("unwritten.cu"),), text=text)
    with (tmp_path / "printed").open("wb") as file:
        results = [run_program(program, trace=trace, output=file.fileno()) for trace in (0, 1)]
    assert [(one.status, len(one.notes)) for one in results] == [(0, 0), (1, 1)]
    assert "holds -875836469 (as a float -26711958)" in results[1].notes[0]


def test_sobol_points_are_torchs(tmp_path):
    # Ten dimensions of 64 points each, one dimension after the other.
    text = """#include <cstdio>
    #include <curand.h>
    int main() {
        curandGenerator_t generator;
        static double points[640];
        curandCreateGeneratorHost(&generator, CURAND_RNG_QUASI_SOBOL64);
        curandSetQuasiRandomGeneratorDimensions(generator, 10);
        curandGenerateUniformDouble(generator, points, 640);
        for (double one : points) std::printf("%.12f\\n", one);
    }
    """
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        run_program(Program((Path("points.cu"),), text=text), output=file.fileno())
    points = np.array(printed.read_text().split(), dtype=np.float64).reshape(10, 64).T
    theirs = torch.quasirandom.SobolEngine(10).draw(64, dtype=torch.float64).numpy()
    assert np.allclose(points, theirs, rtol=0, atol=1e-9)
