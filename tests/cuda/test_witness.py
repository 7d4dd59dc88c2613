"""A race gets a schedule that proves it; a sound kernel gets none."""

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.witness import find_witness

CODE = r"""
extern "C" __global__ void reverse(const float* x, float* y, int barrier) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (barrier) __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void tree(const float* x, float* y, int barrier) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
        if (barrier || step > 1) __syncthreads();
    }
    if (threadIdx.x == 32) y[0] = s[0];
}
extern "C" __global__ void count(int* y, int atomic) {
    if (threadIdx.x == 0) {
        if (atomic) atomicAdd(y, 1);
        else y[0] += 1;
    }
}
extern "C" __global__ void count_in_a_block(int* y, int atomic) {
    if (atomic) atomicAdd(y, 1);
    else y[0] += 1;
}
"""


@pytest.fixture(scope="module")
def module(emulator):
    return cuda.RawModule(CODE)


def cases():
    x = np.random.default_rng(0).random(64).astype(np.float32)
    return {
        "reverse": (1, 64, (x, np.zeros(64, np.float32))),
        "tree": (1, 64, (x, np.zeros(1, np.float32))),
        "count": (4, 32, (np.zeros(1, np.int32),)),
        "count_in_a_block": (1, 64, (np.zeros(1, np.int32),)),
    }


@pytest.mark.parametrize("name", cases())
def test_a_race_gets_a_witness_that_repeats(module, name):
    kernel = module.get_function(name)
    grid, block, args = cases()[name]
    args = (*args, 0)
    finding = next(
        f for f in kernel(grid, block, args, trace=cuda.Trace()).findings if f.kind == "race"
    )
    args = (*cases()[name][2], 0)
    witness = find_witness(kernel, grid, block, args, finding)
    assert witness is not None
    assert witness.wrong
    assert {step.array for step in witness.report.steps} == {finding.array}
    assert all(0 <= step.offset < 256 for step in witness.report.steps)
    np.testing.assert_array_equal(args[-2], 0)  # the search leaves no trace in the data
    again = witness.replay()
    assert str(again) == str(witness)  # text: NaN differs from itself
    assert "gives a wrong result" in str(witness)
    assert (args[-2] != 0).any()  # a replay leaves its result to be looked at


@pytest.mark.parametrize("name", cases())
def test_a_sound_kernel_has_none(module, name):
    grid, block, args = cases()[name]
    found = find_witness(module.get_function(name), grid, block, (*args, 1), tries=60)
    assert found is None, str(found)


def test_what_is_right_can_be_said(module):
    kernel = module.get_function("count_in_a_block")
    y = np.zeros(1, np.int32)
    assert find_witness(kernel, 1, 64, (y, 0), expected=[np.array([64], np.int32), None])
    witness = find_witness(kernel, 1, 64, (y, 0), expected=lambda: y[0] == 64)
    assert witness is not None
    with pytest.raises(InvalidValueError, match="1 entries for 2 arguments"):
        find_witness(kernel, 1, 64, (y, 0), expected=[None])
