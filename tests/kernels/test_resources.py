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


def cases():
    """Each rung on one of its archs in turn; `lab.py test --all` asks the others too."""
    for place, rung in enumerate(RUNGS):
        archs = rung.archs or ARCHS
        for number, arch in enumerate(archs):
            marks = [] if number == place % len(archs) else [pytest.mark.full]
            yield pytest.param(rung, arch, marks=marks, id=f"{rung.name}-{arch}")


@pytest.mark.parametrize(("rung", "arch"), cases())
def test_it_compiles_without_spills_and_takes_what_is_recorded(rung, arch, version):
    recorded_version, kernels = recorded()
    found = resources_of(rung, arch)
    assert rung.name in found
    for name, used in found.items():
        assert used["spill_bytes"] == 0, f"{name} spills registers on {arch}: {used}"
        assert used["stack_bytes"] == 0, f"{name} keeps an array in local memory on {arch}"
        assert list(kernels.get(name, ())) == list(rung.archs or ARCHS), COMMAND
        if version == recorded_version:  # another patch may allocate registers otherwise
            assert used == kernels[name][arch], COMMAND


def test_nothing_else_is_recorded():
    of_the_shelf = tuple(rung.name for rung in RUNGS)
    assert [name for name in recorded()[1] if not name.startswith(of_the_shelf)] == [], COMMAND
