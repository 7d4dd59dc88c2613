"""Every kernel through NVIDIA's compiler, for three GPU generations; no GPU is needed."""

import os

import pytest

from labkit.cuda import inspect
from labkit.cuda.inspect.shelf import ARCHS, recorded, resources_of
from labkit.cuda.shelf import LADDERS

RUNGS = [rung for ladder in LADDERS.values() for rung in ladder]
COMMAND = "run: python -m labkit.cuda.inspect.shelf"

if not inspect.is_available() and os.environ.get("CI") != "true":  # in CI its absence is a failure
    pytest.skip("NVRTC is not installed: pip install -e '.[inspect]'", allow_module_level=True)


@pytest.fixture(scope="module")
def version():
    return inspect.compile_source("", ARCHS[0]).compiler


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_it_compiles_without_spills_and_takes_what_is_recorded(rung, version):
    recorded_version, kernels = recorded()
    found = resources_of(rung)
    assert rung.name in found
    for name, archs in found.items():
        assert list(archs) == list(rung.archs or ARCHS)
        for arch, used in archs.items():
            assert used["spill_bytes"] == 0, f"{name} spills registers on {arch}: {used}"
            assert used["stack_bytes"] == 0, f"{name} keeps an array in local memory on {arch}"
        assert name in kernels, f"{name} is not recorded; {COMMAND}"
        if version == recorded_version:  # another patch may allocate registers otherwise
            assert archs == kernels[name], COMMAND


def test_nothing_else_is_recorded():
    of_the_shelf = tuple(rung.name for rung in RUNGS)
    assert [name for name in recorded()[1] if not name.startswith(of_the_shelf)] == [], COMMAND
