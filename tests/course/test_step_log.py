"""The raw log of a step: what it holds is what `show.training_step` saw, without the answers."""

from collections import Counter

import pytest

import labkit as lab
from labkit import course
from labkit.course.exercises import one_training_step
from labkit.memory.storages import cuda_storages


@pytest.fixture(scope="module")
def log():
    cuda_storages.install()
    try:
        x = lab.tensor([[1.0, 2.0], [3.0, 4.0]]).to("cuda")
        w = lab.tensor([[1.0], [2.0]]).to("cuda").requires_grad_()

        def step():
            y = x.mm(w)
            loss = (y * y).sum()
            loss.backward()

        yield course.step_log(step)
    finally:
        cuda_storages.uninstall()


def test_every_operator_that_begins_ends_on_its_thread(log):
    depth = Counter()
    for event in log:
        depth[event.thread] += {"enter": 1, "leave": -1}.get(event.kind, 0)
        assert depth[event.thread] >= 0
    assert set(depth.values()) == {0}


def test_kernels_and_blocks_are_those_of_the_recording(log):
    recording = log.record.recording
    queued = [event for event in log if event.kind == "queue"]
    assert [(e.name, list(e.writes)) for e in queued] == [
        (launch.name, launch.writes) for launch in recording.launches
    ]
    handed_out = [entry["addr"] for entry in recording.trace if entry["action"] == "alloc"]
    assert [event.at for event in log if event.kind == "block"] == handed_out


def test_the_innermost_operator_found_in_it_is_the_one_that_was_seen(log):
    operators = {-1: ""} | dict(enumerate(c.operator for c in log.record.recording.calls))
    seen = [operators[launch.call] for launch in log.record.recording.launches]
    assert one_training_step._operators(log) == seen


def test_a_node_is_met_by_one_number(log):
    recorded = [(event.number, event.name) for event in log if event.kind == "node"]
    run = [(event.number, event.name) for event in log if event.kind == "run" and event.number]
    assert sorted(run) == recorded == [(1, "MmBackward0"), (2, "MulBackward0"), (3, "SumBackward0")]


def test_lines_are_counted_from_the_def(log):
    lines = {event.line for event in log if event.kind == "node"}
    assert lines == {"2 y = x.mm(w)", "3 loss = (y * y).sum()"}
