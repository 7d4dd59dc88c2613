"""The launch lines of kernel headers: sizes in, grid and block out."""

import pytest

from labkit.cuda import RawModule
from labkit.cuda.errors import InvalidLaunchError, InvalidValueError
from labkit.cuda.launch_line import launch_line, launch_lines
from labkit.cuda.shelf import LADDERS
from labkit.cuda.source import parse

FILE = """// A kernel.
// launch: grid (ceil(N / 32), K C / groups (R + 1)), block (8, 32), shared memory (C + R) floats
// launch of sum: grid (anything, splits),
//         block (whole warps)
//
// launch of other: grid (1), block (1)
#include "lab.cuh"
// launch of late: grid (2), block (2)
"""
SIZES = {"N": 65, "K": 6, "C": 4, "groups": 2, "R": 3, "splits": 5}


def test_names_side_by_side_are_multiplied_and_ceil_rounds_up():
    line = launch_line(FILE, "op_1_rung")
    assert line.extents(SIZES) == ((3, 6 * 4 // 2 * 4), (8, 32))
    assert line.shared_bytes(SIZES) == 4 * 7


def test_every_extent_is_at_least_one():
    assert launch_line(FILE, "op_1_rung").extents(SIZES | {"N": 0, "K": 0}) == ((1, 1), (8, 32))


def test_a_step_has_the_line_of_its_name_and_others_the_kernels_own():
    assert set(launch_lines(FILE)) == {"", "sum", "other"}  # a line after the header is none
    sums = launch_line(FILE, "op_1_rung_sum")
    assert sums.extents(SIZES, grid=7, block=64) == ((7, 5), (64,))
    assert launch_line(FILE, "op_1_rung_half") is launch_line(FILE, "op_1_rung")


def test_what_is_missing_is_named():
    line, sums = launch_line(FILE, "op_1_rung"), launch_line(FILE, "op_1_rung_sum")
    with pytest.raises(InvalidValueError, match=r"wants \['N'\]; given: \['K'\]"):
        line.extents({"K": 1})
    with pytest.raises(InvalidValueError, match=r"leaves the grid open \(anything\): give grid="):
        sums.extents(SIZES, block=32)
    with pytest.raises(InvalidLaunchError, match="a multiple of 32; not 48"):
        sums.extents(SIZES, grid=1, block=48)
    with pytest.raises(InvalidValueError, match="the header of f has no line"):
        launch_line("// Nothing.\n", "f")


@pytest.mark.parametrize("text", ["n; m", "n ** 9", "n.real", "'n'", "n, 1)("])
def test_only_products_are_computed(text):
    with pytest.raises(InvalidValueError):
        launch_line(f"// launch: grid ({text}), block (1)\n", "f").extents({"n": 1, "m": 1})


def test_a_name_is_a_size_and_never_a_function():
    line = launch_line("// launch: grid (exit(n)), block (1)\n", "f")
    with pytest.raises(InvalidValueError, match="'exit'"):
        line.extents({"n": 1})
    assert line.extents({"n": 2, "exit": 3}) == ((6,), (1,))


@pytest.mark.parametrize(
    "rung", [one for rungs in LADDERS.values() for one in rungs], ids=lambda one: one.name
)
def test_each_file_of_the_shelf_says_how_all_its_kernels_are_launched(rung):
    lines = launch_lines(rung.code)
    steps = {kernel.name.removeprefix(rung.name).lstrip("_") for kernel in parse(rung.code).kernels}
    assert "" in lines
    assert set(lines) <= steps | {""}  # no line for a kernel that is not there
    for line in lines.values():
        line.shared_bytes(dict.fromkeys(("C", "R", "cached", "slice", "warps", "patch",
                                         "halo_h", "halo_w"), 1))  # fmt: skip


def test_a_kernel_of_ones_own_has_its_geometry():
    code = """// launch: grid (ceil(n / 64)), block (64)
    extern "C" __global__ void fill(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = 1.0f;
    }"""
    kernel = RawModule(code).get_function("fill")
    assert kernel.geometry(n=100) == ((2,), (64,))
