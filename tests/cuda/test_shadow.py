"""What a trace remembers of memory is its own: the next one at the same place starts afresh."""

from pathlib import Path

import pytest

import labkit.cuda as cuda

CODE = r"""
extern "C" __global__ void racy(int* x) { x[threadIdx.x / 2] = threadIdx.x; }
extern "C" __global__ void clean(int* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void bytes(unsigned char* x) { x[threadIdx.x] = 1; }
extern "C" __global__ void racy_bytes(unsigned char* x) { x[threadIdx.x / 2] = threadIdx.x; }
extern "C" __global__ void reads(const int* x, int* y) {
    y[threadIdx.x] = x[63 - threadIdx.x];
}
extern "C" __global__ void fill(int* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = i;
}
"""


@pytest.fixture(scope="module")
def module(emulator):
    return cuda.RawModule(CODE)


@pytest.fixture
def memory(emulator):
    addresses = [emulator.malloc(256) for _ in range(2)]
    yield [cuda.DevicePointer(address, 256) for address in addresses]
    for address in addresses:
        emulator.free(address)


def kinds(module, name, *args):
    report = module.get_function(name)(2 if name == "reads" else 1, 64, args, trace=cuda.Trace())
    return sorted({finding.kind for finding in report.findings})


def test_traces_at_one_place_do_not_see_each_other(module, memory):
    x, y = memory
    for _ in range(3):
        assert kinds(module, "racy", x) == ["race"]
        assert kinds(module, "clean", x) == []
        assert kinds(module, "racy_bytes", x) == ["race"]
        assert kinds(module, "bytes", x) == []
        assert kinds(module, "clean", x) == []
        assert kinds(module, "reads", x, y) == []  # both blocks write the same values


def test_the_memory_of_traces_is_given_back(module, emulator):
    """Each of these needs 64 MiB to watch 4 MiB; together they would need ten times that."""
    kernel, count = module.get_function("fill"), 1 << 20
    used = []
    addresses = [emulator.malloc(4 * count) for _ in range(10)]
    for address in addresses:
        report = kernel(1, 32, (cuda.DevicePointer(address, 4 * count), count), trace=cuda.Trace())
        assert not report.races_unchecked
        pages = Path(f"/proc/{emulator.worker.pid}/statm").read_text().split()[1]
        used.append(int(pages) * 4096 >> 20)
    for address in addresses:
        emulator.free(address)
    assert max(used) - used[0] < 200, f"resident MiB after each trace: {used}"
