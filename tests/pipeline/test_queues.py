"""Lines in front of a worker: by hand, against queueing theory, and in a real pipeline."""

import random
import time
import zlib
from itertools import accumulate

import pytest

from labkit.pipeline.profiling.queues import drop_rate, little, smallest_room, through
from labkit.pipeline.staged import prefetch


def test_a_line_by_hand():
    line = through([0, 1, 2, 3, 9], [4, 4, 4, 4, 1], room=1)
    assert (line.entered, line.left, line.dropped) == ((0, 1, 9), (0, 4, 9), 2)
    assert (line.waits, line.drop_rate) == ([0, 3, 0], 0.4)


def test_without_room_nobody_waits():
    line = through([0, 1, 4], [4, 4, 4], room=0)
    assert (line.waits, line.dropped) == ([0, 0], 1)
    assert through([], [], 3).drop_rate == 0


def randomly(load, count, seed=0):
    rng = random.Random(seed)
    arrivals = list(accumulate(rng.expovariate(1) for _ in range(count)))
    return arrivals, [rng.expovariate(1 / load) for _ in range(count)]


@pytest.mark.parametrize("load", [0.5, 0.9, 1.0, 1.5])
@pytest.mark.parametrize("room", [0, 1, 4, 12])
def test_drops_are_those_of_queueing_theory(load, room):
    found = through(*randomly(load, 60_000), room).drop_rate
    assert found == pytest.approx(drop_rate(load, room), abs=0.012)


def test_littles_law_holds_for_every_line():
    for seed in range(20):
        arrivals, work = randomly(random.Random(seed).uniform(0.3, 2), 200, seed)
        line = through(arrivals, work, room=6)
        three = little(line.entered, line.left)
        assert three.length == pytest.approx(three.rate * three.wait)


def test_littles_law_holds_for_a_real_queue():
    entered, left = [], []

    def source():
        for _ in range(60):
            zlib.compress(bytes(20_000))
            entered.append(time.perf_counter())
            yield bytes(40_000)

    for item in prefetch(source(), depth=4):
        left.append(time.perf_counter())
        zlib.compress(item)
    three = little(entered, left)
    assert three.length == pytest.approx(three.rate * three.wait)
    assert 0 < three.length <= 6  # 4 in the queue, one in each hand


def test_the_smallest_room_is_enough_and_one_less_is_not():
    frames = randomly(0.8, 5_000, seed=3)
    room = smallest_room(*frames, most_dropped=0.01, most=1_000)
    assert through(*frames, room).drop_rate <= 0.01 < through(*frames, room - 1).drop_rate
    assert smallest_room(*frames, most_dropped=0.01, most=room - 1) is None
    assert smallest_room([0, 9], [1, 1], 0, most=5) == 0


def test_no_room_helps_a_worker_that_is_too_slow():
    frames = randomly(2, 20_000)
    assert smallest_room(*frames, most_dropped=0.3, most=200) is None
