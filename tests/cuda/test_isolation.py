"""Whatever a kernel does, this process lives, memory is kept, and nothing leaks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import labkit
import labkit.cuda as cuda
from labkit.cuda.emulator import arena, build
from labkit.cuda.emulator.worker import Command
from labkit.cuda.errors import KernelFailure
from labkit.cuda.trace import Trace

CODE = r"""extern "C" __global__ void hangs(int* x) {
    while (*(volatile int*)x == 0) { }
}
extern "C" __global__ void wild(int* x) {
    x[1ll << 40] = 3;
}
extern "C" __global__ void deadlocks(int* x) {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncwarp();
    __syncthreads();
}
extern "C" __global__ void asserts(int* x) {
    assert(x[threadIdx.x] < 3);
}
extern "C" __global__ void divides(int* x) {
    x[0] = 5 / x[1];
}
extern "C" __global__ void recurses(int* x) {
    volatile int large[200000];
    large[threadIdx.x] = x[0];
    x[0] = large[5];
}
extern "C" __global__ void traps(int* x) {
    if (threadIdx.x == 5) __trap();
}
extern "C" __global__ void adds(int* x) {
    x[threadIdx.x] += 1;
}
extern "C" __global__ void says(int* x) {
    printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
}
extern "C" int fork();
extern "C" __global__ void forks(int* x) {
    if (threadIdx.x == 3) x[3] = fork();
}
extern "C" int vfork();
extern "C" __global__ void forks_sharing(int* x) {
    if (threadIdx.x == 3) x[3] = vfork();
}
"""


@pytest.fixture
def module(small_device):
    return cuda.RawModule(CODE)


@pytest.mark.parametrize(
    ("kernel", "code", "line", "message"),
    [
        ("hangs", "cudaErrorLaunchTimeout", 2, r"did not end within 0\.3 s of running"),
        ("wild", "cudaErrorIllegalAddress", 5, "memory that does not exist, at address 0x"),
        ("deadlocks", "cudaErrorLaunchFailure", 9, r"\(16\) wait at line 9 for __syncthreads"),
        ("asserts", "cudaErrorAssert", 15, r"thread \(3, 0, 0\).*`x\[threadIdx\.x\] < 3` failed"),
        ("divides", "cudaErrorLaunchFailure", 18, "divided by zero"),
        ("recurses", "cudaErrorLaunchFailure", 22, "more than 256 KiB of local memory"),
        ("traps", "cudaErrorLaunchFailure", 26, r"thread \(5, 0, 0\).*__trap"),
        ("forks", "cudaErrorLaunchFailure", 36, r"thread \(3, 0, 0\).*and can start no process"),
        ("forks_sharing", "cudaErrorLaunchFailure", 40, "and can start no process"),
    ],
)  # fmt: skip
def test_a_broken_kernel_ends_with_its_line_and_the_device_goes_on(
    module, small_device, kernel, code, line, message
):
    memory = small_device.malloc(4096)
    pointer = cuda.DevicePointer(memory)
    values = np.zeros(32, np.int32)
    values[2:] = np.arange(30)
    if kernel == "asserts":
        values = np.arange(32, dtype=np.int32)
    small_device.memcpy(memory, values.ctypes.data, 128)
    module.get_function(kernel)(1, 32, (pointer,), timeout_s=0.3)
    with pytest.raises(KernelFailure, match=message) as failed:
        small_device.synchronize()
    report = failed.value.report
    assert (failed.value.code, report["kernel"]) == (code, kernel)
    # a frame that does not fit is noticed as the function is entered, on whichever line that is
    assert report["line"] in ((20, 21, 22) if kernel == "recurses" else (line,))
    # `deadlocks` waits at 8 and 10 as calls end; its line is checked above through the message
    module.get_function("adds")(1, 32, (pointer,))
    back = np.zeros_like(values)
    small_device.memcpy(back.ctypes.data, memory, 128)
    if kernel != "recurses":
        np.testing.assert_array_equal(back, values + 1)


def test_a_division_by_zero_is_told_where_the_processor_does_not(small_device, monkeypatch):
    """Of arm64 that is; what the compiler then asks before a division is the same everywhere."""
    monkeypatch.setattr(build, "FAST_FLAGS", ("-O2", build.ASK_DIVISORS))
    pointer = cuda.DevicePointer(small_device.malloc(4096))
    cuda.RawModule(CODE).get_function("divides")(1, 32, (pointer,))
    with pytest.raises(KernelFailure, match="divided by zero") as failed:
        small_device.synchronize()
    assert failed.value.report["line"] == 18


DEEP = r"""__device__ __noinline__ int down(int depth, const int* x) {
    volatile char large[40000];
    large[0] = x[0] + depth;
    return depth ? down(depth - 1, x) + large[0] : large[0];
}
extern "C" __global__ void descends(int* x) {
    __syncthreads();  // from here each thread has a stack, and they lie one behind the other
    x[1] = down(7, x);  // 313 KiB
    __syncthreads();
}
"""


def test_no_frame_steps_over_the_end_of_a_threads_stack(small_device):
    """On arm64 a compiler may leave up to 64 KiB of a frame untouched."""
    pointer = cuda.DevicePointer(small_device.malloc(4096))
    cuda.RawModule(DEEP).get_function("descends")(1, 32, (pointer,))
    with pytest.raises(KernelFailure, match="more than 256 KiB of local memory"):
        small_device.synchronize()


def test_printf_is_seen_in_order(module, small_device, capsys):
    module.get_function("says")(2, 2, (None,))
    small_device.synchronize()
    expected = [f"thread {t} of block {b}\n" for b in range(2) for t in range(2)]
    assert capsys.readouterr().out == "".join(expected)


def descriptors_of(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_ten_thousand_launches_leave_memory_and_handles_flat(module, small_device):
    kernel = module.get_function("adds")
    array = np.zeros(32, np.int32)

    def used():
        pid = small_device.worker.pid
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return descriptors_of(pid), descriptors_of("self"), pages

    for _ in range(500):
        kernel(1, 32, (array,))
    descriptors, ours, pages = used()
    pointer = cuda.DevicePointer(small_device.malloc(128))
    for i in range(9_500):
        kernel(1, 32, (pointer,))
        if i % 100 == 0:
            small_device.synchronize()
    small_device.synchronize()
    assert used()[:2] == (descriptors, ours)
    assert used()[2] - pages < 256  # 1 MiB
    assert array.tolist() == [500] * 32


def test_a_killed_worker_is_replaced(module, small_device):
    kernel, array = module.get_function("adds"), np.zeros(32, np.int32)
    kernel(1, 32, (array,))
    os.kill(small_device.worker.pid, 9)
    with pytest.raises(KernelFailure, match="SIGKILL"):
        kernel(1, 32, (array,))
    kernel(1, 32, (array,))
    assert array.tolist() == [2] * 32


def in_a_forked_child(use):
    """What `use` raises there, as text; "nothing" when it raises nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use()
            os.write(writing, b"nothing")
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return told.read()


def test_a_forked_child_is_told_not_to_use_the_device(module, small_device):
    kernel, array = module.get_function("adds"), np.zeros(32, np.int32)
    kernel(1, 32, (array,))
    address = small_device.malloc(512)
    uses = {
        "launch": lambda: kernel(1, 32, (array,)),
        "trace": lambda: kernel(1, 32, (array,), trace=Trace()),
        "malloc": lambda: small_device.malloc(512),
        "memcpy": lambda: small_device.memset(address, 0, 512),
        "compile": lambda: cuda.RawModule("__global__ void k() {}").compile(),
        "synchronize": small_device.synchronize,
        "reset": small_device.reset,
    }
    for name, use in uses.items():
        told = in_a_forked_child(use)
        assert told.startswith("cudaErrorInitializationError: this process was forked"), name
        assert "spawn" in told
    kernel(1, 32, (array,))
    assert array.tolist() == [2] * 32


def test_a_forked_child_gets_no_tensors_from_the_device(small_device):
    ones = labkit.ones(4, device="cuda")
    for use in (
        lambda: labkit.ones(4, device="cuda"),
        lambda: ones + 1,
        ones.tolist,
        ones.cpu,
        ones.sum().item,
    ):
        assert "forked" in in_a_forked_child(use)
    assert (ones + 1).tolist() == [2.0] * 4


def test_a_child_forked_before_the_device_was_opened_may_open_it():
    script = (
        "import os, labkit.cuda\n"
        "if os.fork() == 0:\n"
        "    assert labkit.cuda.select.current_driver().malloc(512)\n"
        "    os._exit(0)\n"
        "print(os.wait()[1])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "LABKIT_CUDA": "emulator"}, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert told.stdout == "0\n", told.stderr


def test_the_worker_ends_with_its_parent(tmp_path):
    script = (
        "import os, numpy as np, labkit.cuda as cuda\n"
        "x = np.zeros(1, np.int32)\n"
        "module = cuda.RawModule('extern \"C\" __global__ void f(int* x) { *x = 1; }')\n"
        'module.get_function("f")(1, 1, (x,))\n'
        "print(cuda.current_driver().worker.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2], env={**os.environ, "LABKIT_CUDA": "emulator"},
    )  # fmt: skip
    pid = int(told.stdout)
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"worker {pid} outlived its parent"
        time.sleep(0.05)


def is_running(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # ended while it was read
        return False


def test_an_interrupted_wait_leaves_a_device_that_works(small_device):
    """As by Ctrl-C, or by the time limit of an exercise: any exception, at any moment."""

    class Alarm(BaseException):
        pass

    def ring(*_):
        raise Alarm

    module = cuda.RawModule(
        'extern "C" __global__ void spin(volatile int* x, int on) { do { x[0] = 7; } while (on); }'
    )
    kernel, x = module.get_function("spin"), np.zeros(1, np.int32)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            kernel(1, 1, (x, 1))
        kernel(1, 1, (x, 0), timeout_s=2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert x[0] == 7


def test_no_device_lies_where_chance_may_put_the_worker_itself(small_device):
    """With hundreds of devices in a process one came to lie there, and its worker did not start."""
    small_device.worker.request(Command.PING)
    maps = Path(f"/proc/{small_device.worker.pid}/maps").read_text(encoding="utf-8").splitlines()
    starts = [int(line.partition("-")[0], 16) for line in maps]
    before = arena.GRANULARITY  # bytes of memory in front of the first array
    own = [start for start in starts if not small_device.arena.contains(start + before)]
    assert min(own) >= arena.LAST_BASE
