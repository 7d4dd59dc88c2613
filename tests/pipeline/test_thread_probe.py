"""What calls do with the interpreter's lock: counted, not timed."""

import json
import sys
import threading
import time

import pytest
import torch

from labkit.pipeline.probes.thread_probe import cores_used, meanwhile, threads_added

NUMBERS = list(range(300_000))
TENSOR = torch.rand(4_000_000)


@pytest.fixture(autouse=True)
def torch_has_no_helpers():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sum(NUMBERS),
        lambda: [n + 1 for n in NUMBERS],
        lambda: json.dumps(NUMBERS[:50_000]),
    ],
    ids=["one call into C", "a loop", "json"],
)
def test_a_call_that_keeps_the_lock_lets_nobody_run(call):
    assert meanwhile(call) == 0


def test_a_torch_operator_lets_others_run():
    assert meanwhile(lambda: [TENSOR.sin() for _ in range(3)]) > 0


def test_a_call_that_waits_lets_others_run():
    event = threading.Event()  # on a busy machine the other one may be late
    assert any(meanwhile(lambda: event.wait(0.05)) for _ in range(100))


def test_what_the_call_raises_comes_out_and_all_is_as_before():
    interval, threads = sys.getswitchinterval(), threading.active_count()
    with pytest.raises(ZeroDivisionError):
        meanwhile(lambda: 1 / 0)
    assert (sys.getswitchinterval(), threading.active_count()) == (interval, threads)


def test_cores_are_seconds_of_cpu_per_second(monkeypatch):
    for clock, reads in {"perf_counter": (10.0, 12.0), "process_time": (1.0, 4.0)}.items():
        monkeypatch.setattr(time, clock, iter(reads).__next__)
    begun = []
    assert cores_used(lambda: begun.append(threading.current_thread()), 3) == 1.5
    assert len(set(begun)) == 3


def test_helpers_of_every_worker_are_counted():
    assert threads_added(TENSOR.sin, 3) == 3
