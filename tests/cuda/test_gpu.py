"""The same calls on a real GPU: what the emulator promises, the card keeps."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

CODE = r"""
extern "C" __global__ void set(int* x, int value) { *x = value; }
extern "C" __global__ void add(int* x, const int* y) { *x += *y; }
struct Pair { float scale; int shift; };
template <class T>
__global__ void affine(const T* __restrict__ x, T* y, Pair p, T more, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * p.scale + p.shift + more;
}
__constant__ int factor;
extern "C" __global__ void use(int* out) { *out = factor; }
"""


@pytest.fixture(scope="module")
def gpu():
    from labkit import cuda
    from labkit.cuda.cupy.driver import CupyDriver

    driver = CupyDriver(blocking=False)
    with cuda.use(driver):
        yield driver


@pytest.fixture(scope="module")
def module(gpu):
    from labkit import cuda

    names = ["set", "add", "affine<float>", "affine<double>", "use"]
    return cuda.RawModule(CODE, name_expressions=names, driver=gpu)


def test_it_says_what_it_is(gpu):
    from labkit import cuda

    assert cuda.device().kind == "cupy"
    assert gpu.properties().warp_size == 32
    assert gpu.memory_info()[1] == gpu.properties().total_memory


def test_values_arguments_and_refusals(gpu, module):
    from labkit.cuda.errors import ArgumentError, InvalidLaunchError, InvalidValueError

    pair = np.array([(2.0, 3)], dtype=[("scale", "f4"), ("shift", "i4")])[0]
    for name, dtype in (("affine<float>", np.float32), ("affine<double>", np.float64)):
        kernel = module.get_function(name)
        x = np.random.default_rng(0).standard_normal(1000).astype(dtype)
        y = np.full_like(x, np.nan)
        kernel((4,), (256,), (x, y, pair, 0.5, 1000))
        np.testing.assert_allclose(y, x * 2 + 3.5, rtol=1e-6)
        with pytest.raises(ArgumentError, match="argument 0 'x'"):
            kernel(1, 1, (x.astype(np.int32), y, pair, 0.5, 1))
        with pytest.raises(ArgumentError, match="takes 5 arguments"):
            kernel(1, 1, (x, y))
        with pytest.raises(InvalidLaunchError):
            kernel(1, 2000, (x, y, pair, 0.5, 1))
    with pytest.raises(InvalidValueError, match="no kernel 'nothing'"):
        module.get_function("nothing")


def test_memory_events_streams_and_virtual_memory(gpu, module):
    from labkit import cuda
    from labkit.cuda.errors import OutOfMemoryError

    with pytest.raises(OutOfMemoryError, match="asked for"):
        gpu.malloc(1 << 60)
    page = 2 << 20  # what virtual memory comes in on NVIDIA's devices
    room, handle = gpu.address_reserve(2 * page), gpu.memory_create(page)
    gpu.memory_map(room, page, handle)
    gpu.memset(room, 0, 64)
    x, y = cuda.DevicePointer(room), cuda.DevicePointer(room + 4)
    first, second = cuda.Stream(), cuda.Stream(priority=-1)
    start, end = cuda.Event(), cuda.Event()
    start.record(first)
    module.get_function("set")(1, 1, (x, 7), stream=first)
    second.wait_stream(first)
    module.get_function("add")(1, 1, (y, x), stream=second)
    first.wait_stream(second)
    end.record(first)
    end.synchronize()
    back = np.zeros(2, np.int32)
    gpu.memcpy(back.ctypes.data, room, 8)
    assert back.tolist() == [7, 7]
    assert 0 < start.elapsed_time(end) < 1000
    assert first.query()
    gpu.memory_unmap(room, page)
    gpu.memory_release(handle)
    gpu.address_free(room, 2 * page)


def test_graphs_captured_and_explicit(gpu, module):
    from labkit import cuda

    memory = gpu.malloc(64)
    x, y = cuda.DevicePointer(memory), cuda.DevicePointer(memory + 4)
    gpu.memset(memory, 0, 64)
    stream = cuda.Stream()
    with cuda.capture(stream) as graph:
        module.get_function("set")(1, 1, (x, 2))
        module.get_function("add")(1, 1, (y, x))
    executable = graph.instantiate()
    for _ in range(3):
        executable.replay(stream)
    stream.synchronize()
    back = np.zeros(2, np.int32)
    gpu.memcpy(back.ctypes.data, memory, 8)
    assert back.tolist() == [2, 6]
    graph = cuda.Graph()
    one = graph.add_kernel(module.get_function("set"), 1, 1, (x, 10))
    two = graph.add_kernel(module.get_function("set"), 1, 1, (y, 20))
    graph.add_kernel(module.get_function("add"), 1, 1, (x, y), after=[one, two])
    executable = graph.instantiate()
    executable.replay(stream)
    stream.synchronize()
    gpu.memcpy(back.ctypes.data, memory, 8)
    assert back.tolist() == [30, 20]
    gpu.free(memory)


def test_a_pool_gets_memory_while_a_stream_captures(gpu, module):
    """As PyTorch's allocator does inside a capture; the graph uses what it got."""
    from labkit import cuda
    from labkit.cuda.memory_calls import MemoryCalls

    stream, calls = cuda.Stream(), MemoryCalls(gpu)
    with cuda.capture(stream) as graph:
        memory = calls.malloc(1 << 22)
        module.get_function("set")(1, 1, (cuda.DevicePointer(memory), 7))
    graph.instantiate().replay(stream)
    stream.synchronize()
    back = np.zeros(1, np.int32)
    gpu.memcpy(back.ctypes.data, memory, 4)
    assert back.tolist() == [7]
    calls.free(memory)


def test_constants_and_compile_errors(gpu, module):
    from labkit import cuda
    from labkit.cuda.errors import CompileError

    value, out = np.array([11], np.int32), np.zeros(1, np.int32)
    gpu.memcpy(module.get_global("factor").address, value.ctypes.data, 4)
    module.get_function("use")(1, 1, (out,))
    assert out[0] == 11
    with pytest.raises(CompileError, match="nonsense"):
        cuda.RawModule('extern "C" __global__ void k(int* x) { *x = nonsense; }').compile()


def test_every_rung_gives_the_values_it_gives_on_the_emulator(gpu):
    from labkit.cuda.shelf import LADDERS

    for rungs in LADDERS.values():
        for rung in rungs:
            if not rung.runs_on(gpu.properties().compute_capability):
                continue
            for shape in rung.shapes:
                problem = rung.problem(np.random.default_rng(0), shape)
                rung.run(problem)
                problem.check(f"{rung.name} {shape}")


def test_memory_on_the_gpu_is_shared(gpu):
    import cupy

    import labkit as lab

    x = lab.arange(12.0, device="cuda").view(3, 4).t()
    seen = cupy.from_dlpack(x)
    assert seen.data.ptr == x.data_ptr()
    seen[1, 2] = 100
    again = lab.from_dlpack(seen)
    assert (again.data_ptr(), again.stride(), again[1, 2].item()) == (x.data_ptr(), (1, 4), 100.0)
    assert cupy.asarray(x).data.ptr == x.data_ptr()
