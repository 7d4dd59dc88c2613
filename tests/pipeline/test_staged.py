"""Stages in threads: order, back-pressure, errors and an early end; no test waits for a clock."""

import threading

import pytest

from labkit.pipeline.staged import Channel, prefetch, staged


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_every_item_comes_once_and_in_order():
    assert list(staged(range(500), lambda x: x * 3, str)) == [str(x * 3) for x in range(500)]
    assert list(staged([], str)) == []
    assert list(prefetch(iter("abc"), depth=10)) == ["a", "b", "c"]


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_source_waits_when_nobody_takes(room):
    """Behind the one item taken: `room` in each channel, one in each stage's hands."""
    taken, held = [], threading.Event()
    most = 1 + 2 * room + 2

    def source():
        for item in range(100):
            taken.append(item)
            if len(taken) == most:
                held.set()
            yield item

    items = staged(source(), str, room=room)
    assert next(items) == "0"
    assert held.wait(60)
    assert len(taken) == most
    assert [next(items) for _ in range(50)] == [str(x) for x in range(1, 51)]
    items.close()
    assert len(taken) <= 51 + most


def test_both_stages_work_at_the_same_time():
    """Each waits until the other has begun: one thread alone would never end."""
    both = threading.Barrier(2, timeout=60)

    def first(item):
        if item == 1:
            both.wait()
        return item

    def second(item):
        if item == 0:
            both.wait()
        return item

    assert list(staged(range(2), first, second)) == [0, 1]


def fails_at(number):
    def stage(item):
        if item == number:
            raise ZeroDivisionError(f"at {item}")
        return item

    return stage


@pytest.mark.parametrize("stages", [(fails_at(3), int), (int, fails_at(3))])
def test_an_error_of_a_stage_comes_behind_the_items_before_it(stages):
    found = []
    with pytest.raises(ZeroDivisionError, match="at 3"):
        for item in staged(range(10), *stages):
            found.append(item)
    assert found == [0, 1, 2]


def test_an_error_of_the_source_comes_out():
    with pytest.raises(ZeroDivisionError, match="at 2"):
        list(prefetch(map(fails_at(2), range(10))))


def test_a_reader_that_stops_closes_the_source():
    closed = []

    def source():
        try:
            yield from range(10**9)
        finally:
            closed.append(True)

    items = staged(source(), str)
    assert next(items) == "0"
    items.close()
    assert closed == [True]


def test_a_reader_that_forgets_it_leaves_no_thread():
    next(staged(range(10**9), str))


def test_an_interrupted_reader_leaves_no_thread():
    with pytest.raises(KeyboardInterrupt):
        for item in staged(range(10**9), str):
            if item == "5":
                raise KeyboardInterrupt


def test_a_channel_without_room_is_refused():
    with pytest.raises(ValueError, match="at least one item, got 0"):
        Channel(0)
