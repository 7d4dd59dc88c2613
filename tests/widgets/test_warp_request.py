"""Sectors and passes in Python against the counters of the emulator, on random requests."""

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.widgets.cuda.warp_request import groups, ideal_sectors, lanes_of, passes, sectors

CODE = r"""
template <typename T> __global__ void gather(const T* x, T* y, const int* index) {
    const int at = index[threadIdx.x];
    if (at >= 0) y[threadIdx.x] = x[at];
}
template <typename T> __global__ void gather_shared(const T* x, T* y, const int* index) {
    __shared__ T s[512];
    for (int i = threadIdx.x; i < 512; i += 32) s[i] = x[i];
    __syncthreads();
    const int at = index[threadIdx.x];
    if (at >= 0) y[threadIdx.x] = s[at];
}
"""
TYPES = {"unsigned char": 1, "short": 2, "float": 4, "float2": 8, "float4": 16}
DTYPES = {"unsigned char": np.uint8, "short": np.int16}


@pytest.fixture(scope="module")
def module(emulator):
    names = [f"{kernel}<{name}>" for kernel in ("gather", "gather_shared") for name in TYPES]
    return cuda.RawModule(CODE, name_expressions=names)


def indices(random):
    """A request as kernels make them, or any at all; -1 for a lane that takes no part."""
    lane = np.arange(32)
    index = {
        "stride": lambda: random.integers(0, 64) + lane * random.integers(0, 14),
        "backward": lambda: random.integers(31, 400) - lane,
        "pairs": lambda: lane // 2 * random.integers(1, 16),
        "any": lambda: random.integers(0, 512, 32),
    }[random.choice(["stride", "backward", "pairs", "any"])]()
    return np.where(random.random(32) < random.choice([0, 0.3]), -1, index).astype(np.int32)


@pytest.mark.parametrize("name", TYPES)
def test_the_costs_are_the_emulators(module, name):
    random, size = np.random.default_rng(TYPES[name]), TYPES[name]
    dtype = np.dtype(DTYPES.get(name, np.float32))
    x, y = (np.zeros(n * size // dtype.itemsize, dtype) for n in (512, 32))
    for _ in range(12):
        index = indices(random)
        taking = {lane: int(at) * size for lane, at in enumerate(index) if at >= 0}
        trace = cuda.Trace(races=False)
        report = module.get_function(f"gather<{name}>")(1, 32, (x, y, index), trace=trace)
        assert report.total("sectors", array="x") == len(sectors(taking, size))
        assert report.total("ideal_sectors", array="x") == ideal_sectors(taking, size)
        report = module.get_function(f"gather_shared<{name}>")(1, 32, (x, y, index), trace=trace)
        assert report.total("wavefronts", array="s", access="read") == len(passes(taking, size))
        assert report.total("ideal_wavefronts", array="s", access="read") == len(
            groups(taking, size)
        )


def test_every_lane_is_answered_once_per_word_and_a_bank_once_per_pass():
    lanes = {lane: lane * 132 for lane in range(0, 32, 3)}
    rows = passes(lanes, 8)
    answered = sorted(lane for row in rows for lanes in row.values() for lane in lanes)
    assert answered == sorted([*lanes, *lanes])  # two words of four bytes each
    assert passes({}, 4) == [] == sectors({}, 4)
    assert lanes_of({"mask": 0b101, "addresses": [7, 8, 9, *[0] * 29]}) == {0: 7, 2: 9}
