"""The queue with a clock: who works when, and what the bytes are meanwhile."""

import numpy as np
import pytest

from labkit import cuda
from labkit.cuda.emulator.clocked import ClockedQueue
from labkit.cuda.emulator.driver import EmulatorDriver

UP, ON = "memcpy host to device", "memcpy device to device"


@pytest.fixture
def device():
    return EmulatorDriver(
        capacity=1 << 20, why="to have a clock", queue=ClockedQueue({UP: 4, ON: 6})
    )


def spans(device, lane):
    return [(one["start"], one["end"]) for one in device.queue.spans if one["lane"] == lane]


def uploads(device, count, two_streams):
    """Copies and uses of one number each, with an event between the two."""
    copying, working = (cuda.Stream(driver=device) for _ in range(2))
    working = working if two_streams else copying
    numbers = np.arange(count, dtype=np.int64)
    there = [device.malloc(8) for _ in range(2 * count)]
    for n in range(count):
        device.memcpy_async(there[n], numbers[n:].ctypes.data, 8, copying.handle)
        working.wait_event(copying.record_event())
        device.memcpy_async(there[count + n], there[n], 8, working.handle)
    device.synchronize()
    return there[count:]


def read(device, address):
    return int.from_bytes(device.peek(address, 8), "little")


def test_one_stream_does_one_thing_after_the_other(device):
    uploads(device, 2, two_streams=False)
    assert spans(device, "copies") == [(0, 4), (10, 14)]
    assert spans(device, "work") == [(4, 10), (14, 20)]
    assert device.queue.now == 20


def test_two_streams_overlap_and_an_event_holds_one_back(device):
    results = uploads(device, 3, two_streams=True)
    assert spans(device, "copies") == [(0, 4), (4, 8), (8, 12)]
    assert spans(device, "work") == [(4, 10), (10, 16), (16, 22)]
    assert [read(device, one) for one in results] == [0, 1, 2]


def test_what_the_host_writes_before_a_copy_ends_is_what_arrives(device):
    stream, number = cuda.Stream(driver=device), np.array([7], np.int64)
    there = device.malloc(8)
    device.memcpy_async(there, number.ctypes.data, 8, stream.handle)
    device.queue.host(3)
    number[0] = 8  # a microsecond too early
    stream.synchronize()
    assert (read(device, there), device.queue.now) == (8, 4)
    device.memcpy_async(there, number.ctypes.data, 8, stream.handle)
    device.queue.host(4)
    number[0] = 9  # it has ended
    stream.synchronize()
    assert read(device, there) == 8


def test_a_waiting_host_is_seen_and_one_that_need_not_wait_is_not(device):
    stream, number = cuda.Stream(driver=device), np.array([7], np.int64)
    device.memcpy_async(device.malloc(8), number.ctypes.data, 8, stream.handle)
    event = stream.record_event()
    event.synchronize()
    event.synchronize()
    assert spans(device, "host") == [(0, 4)]


def test_asking_whether_it_is_done_takes_time(device):
    stream, number = cuda.Stream(driver=device), np.array([7], np.int64)
    device.memcpy_async(device.malloc(8), number.ctypes.data, 8, stream.handle)
    event = stream.record_event()
    asked = 0
    while not event.query():
        asked += 1
    assert (asked, device.queue.now) == (4, 4)


@pytest.mark.parametrize(("asks", "takes"), [(5, 2), (2, 5), (3, 3)])
def test_a_graph_is_asked_for_once(asks, takes):
    queue = ClockedQueue({ON: takes}, asks)
    device = EmulatorDriver(capacity=1 << 20, why="to have a clock", queue=queue)
    stream, (one, other) = cuda.Stream(driver=device), (device.malloc(8) for _ in range(2))

    def nine():
        for _ in range(9):
            device.memcpy_async(other, one, 8, stream.handle)

    nine()
    stream.synchronize()
    assert queue.now == (9 * asks + takes if asks >= takes else asks + 9 * takes)
    with cuda.capture(stream) as graph:
        nine()
    executable = graph.instantiate()
    queue.restart()
    executable.replay(stream)
    stream.synchronize()
    assert queue.now == asks + 9 * takes


def test_a_full_queue_makes_the_host_wait():
    queue = ClockedQueue({ON: 1})
    device = EmulatorDriver(capacity=1 << 20, why="to have a clock", queue=queue)
    one, other = (device.malloc(8) for _ in range(2))
    for _ in range(1025):
        device.memcpy_async(other, one, 8, 0)
    assert queue.now == 1
    queue.restart()
    assert (queue.now, queue.pending, queue.spans) == (0, 0, [])
