"""Streams are queues: order is what was asked for, and nothing more."""

import threading

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CaptureError, CudaError, InvalidValueError, KernelFailure

CODE = r"""
extern "C" __global__ void set(int* x, int value) { *x = value; }
extern "C" __global__ void add(int* x, const int* y) { *x += *y; }
extern "C" __global__ void fails(int* x) { assert(*x == 12345); }
"""


@pytest.fixture
def device():
    driver = EmulatorDriver(capacity=8 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()
    driver.arena.close()


@pytest.fixture
def kernels(device):
    module = cuda.RawModule(CODE)
    return {name: module.get_function(name) for name in ("set", "add", "fails")}


@pytest.fixture
def cells(device):
    address = device.malloc(64)
    device.memset(address, 0, 64)
    return [cuda.DevicePointer(address + 4 * i, 4) for i in range(8)]


def value(device, cell):
    """What the memory holds this moment, waiting for nothing."""
    return int.from_bytes(device.peek(cell.address, 4), "little", signed=True)


def test_work_waits_until_someone_waits_for_it(device, kernels, cells):
    stream = cuda.Stream()
    kernels["set"](1, 1, (cells[0], 5), stream=stream)
    assert not stream.query()
    assert value(device, cells[0]) == 0 or stream.query()
    stream.synchronize()
    assert value(device, cells[0]) == 5
    assert stream.query()


def test_a_stream_keeps_its_order_under_every_seed(device, kernels, cells):
    stream, other = cuda.Stream(), cuda.Stream()
    for seed in range(20):
        device.queue.reseed(seed)
        for i in range(5):
            kernels["set"](1, 1, (cells[0], i), stream=stream)
            kernels["set"](1, 1, (cells[1], i), stream=other)
        device.synchronize()
        assert (value(device, cells[0]), value(device, cells[1])) == (4, 4)


def outcome(device, kernels, cells, seed, ordered):
    device.queue.reseed(seed)
    producer, consumer = cuda.Stream(), cuda.Stream()
    device.memset(cells[0].address, 0, 8)
    kernels["set"](1, 1, (cells[0], 7), stream=producer)
    if ordered:
        consumer.wait_stream(producer)
    kernels["add"](1, 1, (cells[1], cells[0]), stream=consumer)
    device.synchronize()
    return value(device, cells[1])


def test_a_missing_event_shows_under_some_seed_and_repeats(device, kernels, cells):
    results = [outcome(device, kernels, cells, seed, ordered=False) for seed in range(12)]
    assert set(results) == {0, 7}
    assert results == [outcome(device, kernels, cells, seed, ordered=False) for seed in range(12)]


def test_an_event_orders_two_streams_under_every_seed(device, kernels, cells):
    results = [outcome(device, kernels, cells, seed, ordered=True) for seed in range(30)]
    assert set(results) == {7}


def test_waiting_for_one_stream_leaves_the_other_alone(device, kernels, cells):
    first, second = cuda.Stream(), cuda.Stream()
    kernels["set"](1, 1, (cells[0], 1), stream=first)
    kernels["set"](1, 1, (cells[1], 2), stream=second)
    second.synchronize()
    assert (value(device, cells[0]), value(device, cells[1])) == (0, 2)


def test_wait_stream_does_not_wait_for_later_work(device, kernels, cells):
    first, second = cuda.Stream(), cuda.Stream()
    kernels["set"](1, 1, (cells[0], 1), stream=first)
    second.wait_stream(first)
    kernels["set"](1, 1, (cells[2], 9), stream=first)
    kernels["add"](1, 1, (cells[1], cells[0]), stream=second)
    second.synchronize()
    assert (value(device, cells[1]), value(device, cells[2])) == (1, 0)


def test_the_default_stream_is_ordered_with_blocking_streams_only(device, kernels, cells):
    for seed in range(10):
        device.queue.reseed(seed)
        device.memset(cells[0].address, 0, 8)
        blocking = device.stream_create()
        kernels["set"](1, 1, (cells[0], 3), stream=blocking)
        kernels["add"](1, 1, (cells[1], cells[0]), stream=0)
        device.synchronize()
        assert value(device, cells[1]) == 3
        device.stream_destroy(blocking)


def test_a_copy_to_the_host_is_stale_until_waited_for(device, kernels, cells):
    stream, host = cuda.Stream(), np.zeros(1, np.int32)
    kernels["set"](1, 1, (cells[0], 42), stream=stream)
    device.memcpy_async(host.ctypes.data, cells[0].address, 4, stream.handle)
    assert host[0] == 0
    stream.synchronize()
    assert host[0] == 42


def test_event_query_becomes_true_without_a_wait(device, kernels, cells):
    event = cuda.Event()
    assert event.query()
    for i in range(3):
        kernels["set"](1, 1, (cells[0], i))
    event.record()
    answers = [event.query() for _ in range(6)]
    assert answers[0] is False
    assert answers[-1] is True


def test_elapsed_time_counts_steps_and_needs_both_events(device, kernels, cells):
    start, end = cuda.Event(), cuda.Event()
    start.record()
    kernels["set"](1, 1, (cells[0], 1))
    kernels["set"](1, 1, (cells[0], 2))
    end.record()
    with pytest.raises(CudaError, match="cudaErrorNotReady"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) == 3.0
    with pytest.raises(CudaError, match="must be recorded"):
        start.elapsed_time(cuda.Event())


def test_a_failure_is_raised_by_whoever_waits(device, kernels, cells):
    stream = cuda.Stream()
    kernels["fails"](1, 1, (cells[0],), stream=stream)
    kernels["set"](1, 1, (cells[1], 1), stream=stream)
    with pytest.raises(KernelFailure, match="assertion"):
        stream.synchronize()
    stream.synchronize()
    assert value(device, cells[1]) == 1


def test_the_thirty_third_stream_is_the_first_again(device):
    streams = [cuda.Stream() for _ in range(33)]
    assert len(set(streams)) == 32
    assert streams[32] == streams[0]
    assert cuda.Stream(priority=-1) not in streams
    assert cuda.Stream(priority=-9).priority == -3
    with pytest.raises(InvalidValueError, match="0 or negative"):
        cuda.Stream(priority=1)


def test_the_current_stream_keeps_its_name_and_priority(device):
    with cuda.Stream(priority=-2) as stream:
        current = cuda.current_stream()
        assert current == stream and current.priority == -2
        assert current.stream_id == stream.stream_id
    assert cuda.current_stream().priority == 0


def test_the_current_stream_is_each_threads_own(device):
    stream, seen = cuda.Stream(), []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
        assert cuda.current_stream() == stream
        with cuda.Stream() as inner:
            assert cuda.current_stream() == inner
        assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream() == seen[0]


def test_the_current_stream_survives_an_error(device):
    with pytest.raises(ZeroDivisionError), cuda.Stream():
        1 / 0  # noqa: B018
    assert cuda.current_stream() == cuda.default_stream()


def test_a_captured_graph_replays_and_nothing_runs_before(device, kernels, cells):
    stream = cuda.Stream()
    with cuda.capture(stream) as graph:
        kernels["set"](1, 1, (cells[0], 2))
        kernels["add"](1, 1, (cells[1], cells[0]))
    device.synchronize()
    assert (len(graph.nodes), value(device, cells[1])) == (2, 0)
    executable = graph.instantiate()
    for _ in range(3):
        executable.replay()
    device.synchronize()
    assert value(device, cells[1]) == 6


def test_capture_follows_events_into_other_streams(device, kernels, cells):
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.capture(first) as graph:
        kernels["set"](1, 1, (cells[0], 1))
        second.wait_stream(first)
        kernels["set"](1, 1, (cells[1], 2), stream=second)
        kernels["set"](1, 1, (cells[2], 3))
        first.wait_stream(second)
        kernels["add"](1, 1, (cells[0], cells[1]))
    assert [node.after for node in graph.nodes] == [(), (0,), (0,), (1, 2)]
    for seed in range(10):
        device.queue.reseed(seed)
        graph.instantiate().replay()
        device.synchronize()
        assert value(device, cells[0]) == 3


def test_a_branch_that_is_not_joined_is_refused(device, kernels, cells):
    first, second = cuda.Stream(), cuda.Stream()
    with pytest.raises(CaptureError, match="never joined"), cuda.capture(first):
        kernels["set"](1, 1, (cells[0], 1))
        second.wait_stream(first)
        kernels["set"](1, 1, (cells[1], 2), stream=second)


def test_waiting_inside_a_capture_makes_it_void(device, kernels, cells):
    stream = cuda.Stream()
    with pytest.raises(CaptureError, match="waiting for the device"), cuda.capture(stream):
        device.synchronize()
    kernels["set"](1, 1, (cells[0], 1), stream=stream)
    stream.synchronize()
    assert value(device, cells[0]) == 1


def test_an_explicit_graph_runs_by_its_edges(device, kernels, cells):
    graph = cuda.Graph()
    one = graph.add_kernel(kernels["set"], 1, 1, (cells[0], 10))
    two = graph.add_kernel(kernels["set"], 1, 1, (cells[1], 20))
    graph.add_kernel(kernels["add"], 1, 1, (cells[0], cells[1]), after=[one, two])
    executable = graph.instantiate()
    for seed in range(10):
        device.queue.reseed(seed)
        executable.replay()
        device.synchronize()
        assert value(device, cells[0]) == 30
    with pytest.raises(InvalidValueError, match=r"nodes 0 to 2, not \[9\]"):
        graph.add_kernel(kernels["set"], 1, 1, (cells[0], 1), after=[9])


def test_module_variables_can_be_read_and_written(device):
    module = cuda.RawModule(
        "__constant__ int factor; __device__ int seen[2] = {1, 2};\n"
        'extern "C" __global__ void use(int* out) { *out = factor; seen[1] = 9; }'
    )
    out, host = np.zeros(1, np.int32), np.array([11], np.int32)
    factor, seen = module.get_global("factor"), module.get_global("seen")
    assert (factor.size_bytes, seen.size_bytes) == (4, 8)
    device.memcpy(factor.address, host.ctypes.data, 4)
    module.get_function("use")(1, 1, (out,))
    back = np.zeros(2, np.int32)
    device.memcpy(back.ctypes.data, seen.address, 8)
    assert (out[0], back.tolist()) == (11, [1, 9])
    with pytest.raises(InvalidValueError, match=r"no variable 'other', only \['factor', 'seen'\]"):
        module.get_global("other")


def test_the_log_is_a_timeline(device, kernels, cells):
    first, second = cuda.Stream(), cuda.Stream()
    kernels["set"](1, 1, (cells[0], 1), stream=first)
    second.wait_stream(first)
    kernels["add"](1, 1, (cells[1], cells[0]), stream=second)
    device.synchronize()
    rows = [work.record() for work in device.queue.log]
    kernels_ran = {row["name"]: row for row in rows if row["kind"] == "kernel"}
    assert kernels_ran["set"]["ran_as"] < kernels_ran["add"]["ran_as"]
    assert all(set(row) == {"id", "stream", "kind", "name", "after", "ran_as"} for row in rows)


def test_an_unknown_stream_or_event_is_refused(device):
    with pytest.raises(InvalidValueError, match="there is no stream 999"):
        device.stream_synchronize(999)
    with pytest.raises(InvalidValueError, match="there is no event 999"):
        device.event_record(999, 0)
