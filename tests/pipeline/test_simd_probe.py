"""What is said about vector instructions, with a compiler and without."""

import platform

import pytest

from labkit.core import host_compiler
from labkit.pipeline.probes import simd_probe

HAS_COMPILER = platform.machine() == "x86_64" and host_compiler.installed("c")


@pytest.mark.parametrize("flags", list(simd_probe.RECORDED_MACROS))
@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler for x86-64")
def test_this_compiler_says_what_was_recorded(flags):
    here, recorded = simd_probe.macros(*flags), simd_probe.RECORDED_MACROS[flags]
    assert "recorded" not in here.by
    for name in ("__SSE2__", "__AVX__", "__AVX2__", "__FMA__", "__AVX512F__"):
        assert (name in here.value) == (name in recorded)


@pytest.mark.parametrize("flags", list(simd_probe.RECORDED_WIDTHS))
@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler for x86-64")
def test_the_registers_of_a_loop_are_found(flags):
    assert simd_probe.widest(*flags).value == simd_probe.RECORDED_WIDTHS[flags]


def test_without_a_compiler_a_recording_answers(monkeypatch):
    monkeypatch.setattr(host_compiler, "installed", lambda language: [])
    assert "__AVX2__" in simd_probe.macros("-mavx2", "-mfma").value
    assert simd_probe.widest("-O3").value == 128
    assert "recorded" in simd_probe.widest("-O3", "-mavx2").by


def test_a_compiler_that_refuses_is_no_compiler(monkeypatch):
    monkeypatch.setattr(host_compiler, "compiler", lambda language: "false")
    assert "recorded" in simd_probe.macros("-mavx2", "-mfma").by


PROGRAM = "import json, os; print(json.dumps(os.environ.get('ATEN_CPU_CAPABILITY')))"


def test_the_level_goes_to_the_program(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert simd_probe.at_level("default", PROGRAM) == "default"
    assert simd_probe.at_level(None, PROGRAM) is None


def test_a_program_that_fails_says_why():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        simd_probe.at_level(None, "1 / 0")
