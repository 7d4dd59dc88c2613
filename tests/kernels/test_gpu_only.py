"""Rungs that need a GPU: refused here with a reason, and right where PTX is stood in for."""

import zlib
from pathlib import Path

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.errors import UnsupportedFeatureError
from labkit.cuda.shelf import LADDERS

STAND_IN = Path(__file__).with_name("ptx_stand_in.cuh")
RUNGS = [rung for ladder in LADDERS.values() for rung in ladder if rung.gpu_only]
each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@each_rung
def test_the_emulator_refuses_it_and_says_why(rung):
    with pytest.raises(UnsupportedFeatureError, match=rf"{rung.name} runs on a GPU only.*PTX"):
        rung.kernel()
    with pytest.raises(UnsupportedFeatureError, match=r"ptx\.cuh:\d+: .*On a GPU"):
        cuda.RawModule(path=rung.path).compile()


def launched(rung, problem, monkeypatch, **options):
    code = rung.path.read_text().replace('"ptx.cuh"', f'"{STAND_IN}"')
    module = cuda.RawModule(code=code)

    def kernel(self, step=""):
        return module.get_function(f"{self.name}_{step}" if step else self.name)

    monkeypatch.setattr(type(rung), "kernel", kernel)
    return rung.run(problem, **options)


@each_rung
def test_its_indices_are_right_for_any_shape(rung, monkeypatch):
    generator = np.random.default_rng(zlib.crc32(rung.name.encode()))
    for shape in rung.shapes:
        problem = rung.problem(generator, shape)
        launched(rung, problem, monkeypatch)
        problem.check(f"{shape}")


@each_rung
def test_nothing_is_found_and_the_counters_hold(rung, monkeypatch):
    problem = rung.problem(np.random.default_rng(0), rung.probe_shape)
    trace = cuda.Trace(requests=1, blocks=1)
    reports = launched(rung, problem, monkeypatch, trace=trace)
    problem.check()
    for report in reports:
        assert not report.findings, str(report)
    for prediction in rung.predictions:
        counted = prediction.measure(reports[0], problem)
        assert counted == pytest.approx(prediction.value, rel=1e-6), str(prediction)


def test_a_rung_knows_the_gpus_it_is_for():
    wgmma = next(rung for rung in RUNGS if rung.name == "hgemm_4_wgmma")
    assert [wgmma.runs_on(version) for version in ((8, 0), (9, 0), (10, 0))] == [False, True, False]
    mma = next(rung for rung in RUNGS if rung.name == "hgemm_3_mma")
    assert [mma.runs_on(version) for version in ((7, 5), (8, 0), (8, 6), (9, 0), (12, 0))] == [
        False, True, True, True, True,
    ]  # fmt: skip
