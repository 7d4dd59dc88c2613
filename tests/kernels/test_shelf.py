"""Every rung: right values for any shape, the promised counters, nothing found by the trace."""

import re
import zlib

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.table import README, table
from labkit.cuda.source import KERNELS
from tests.seeds import seeds

RUNGS = [rung for rungs in LADDERS.values() for rung in rungs]
each_file = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
each_rung = pytest.mark.parametrize(  # for the others see test_gpu_only
    "rung", [rung for rung in RUNGS if not rung.gpu_only], ids=lambda rung: rung.name
)


@each_rung
def test_values_equal_float64(rung):
    generator = np.random.default_rng(zlib.crc32(rung.name.encode()))
    for shape in rung.shapes:
        problem = rung.problem(generator, shape)
        rung.run(problem)
        problem.check(f"{shape}")


@each_rung
@pytest.mark.parametrize("order", ["forward", *seeds(5, "reverse")])
def test_the_trace_finds_nothing(rung, order):
    problem = rung.problem(np.random.default_rng(0), rung.shapes[-1])
    for report in rung.run(problem, trace=cuda.Trace(requests=1), order=order):
        assert not report.findings, str(report)
    problem.check()


@each_rung
def test_the_header_keeps_its_promises(rung):
    assert rung.predictions, f"{rung.path} promises nothing"
    for prediction, counted in rung.measured():
        assert counted == pytest.approx(prediction.value, rel=1e-6), f"{rung.name}: {prediction}"


@each_file
def test_the_file_follows_the_shelf(rung):
    text = rung.path.read_text()
    kernels = re.findall(r"\b__global__\b[^(]*\b(\w+)\s*\(", text)
    assert rung.name in kernels
    assert all(name == rung.name or name.startswith(f"{rung.name}_") for name in kernels)
    includes = re.findall(r"#include\s+(\S+)", text)
    assert includes
    for include in includes:  # device code only: the shelf's own headers, and three of CUDA's
        own = include.startswith('"') and (KERNELS / include.strip('"')).exists()
        assert own or include in {"<cuda_fp16.h>", "<cuda_bf16.h>", "<mma.h>"}
    assert not re.search(r"\bmain\b|<<<|\bstd::", text)
    assert int(rung._title["of"]) == len(LADDERS[rung.op])
    assert all(len(line) <= 100 for line in text.splitlines())


def test_every_file_is_on_the_shelf():
    files = {path for path in KERNELS.rglob("*.cu")}
    assert {rung.path for rung in RUNGS} == files


def test_the_readme_is_the_generated_one():
    assert README.read_text() == table(), "run: python -m labkit.cuda.shelf.table"
