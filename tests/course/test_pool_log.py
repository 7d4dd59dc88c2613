"""What the log of a pool says is what happened, in a form that `show.memory` reads."""

from labkit import show
from labkit.course.benches.pool_log import PoolLog
from labkit.memory.device import SimulatedDevice

MIB = 1 << 20


def a_log():
    log = PoolLog(SimulatedDevice(4 * MIB))
    start = log.malloc(2 * MIB)
    log.lent(start + MIB, 512)
    log.lent(start, 1024)
    log.returned(start)
    return log, start


def test_the_map_has_every_byte_once_in_use_or_free():
    log, start = a_log()
    [segment] = log.snapshot()["segments"]
    blocks = [(b["address"] - start, b["size"], b["state"]) for b in segment["blocks"]]
    assert blocks == [
        (0, MIB, "inactive"),
        (MIB, 512, "active_allocated"),
        (MIB + 512, MIB - 512, "inactive"),
    ]
    assert segment["allocated_size"] == 512


def test_a_refusal_is_counted_and_takes_nothing():
    log, start = a_log()
    assert log.malloc(4 * MIB) is None
    assert (log.calls, log.held) == (2, 2 * MIB)
    log.returned(start + MIB)
    log.free(start)
    assert log.held == log.driver.used == 0


def test_the_steps_can_be_shown():
    log, _ = a_log()
    actions = [entry["action"] for entry in log.trace]
    assert actions == ["segment_alloc", "alloc", "alloc", "free_requested", "free_completed"]
    assert "1 segments, 512 bytes live" in repr(show.memory(log.snapshot(), what_if=()))


def test_all_else_is_asked_of_the_driver():
    log, _ = a_log()
    assert log.memory_info() == (2 * MIB, 4 * MIB)
