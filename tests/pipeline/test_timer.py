"""What a timer adds up, and when two series of times say nothing."""

import math
import random

import pytest

from labkit.pipeline.timer import Timer, difference, in_turns


def clock_of(*seconds):
    readings = iter(seconds)
    return lambda: next(readings)


def test_names_add_up():
    timer = Timer(clock_of(0, 2, 2, 3, 10, 11))
    for name in ("a", "b", "a"):
        with timer(name):
            pass
    assert timer.totals() == {"a": 3, "b": 1}
    assert timer.seconds["a"] == [2, 1]


def test_each_counts_what_the_source_took_and_nothing_else():
    timer = Timer(clock_of(0, 1, 50, 52, 90))
    assert list(timer.each("read", "xy")) == ["x", "y"]
    assert timer.seconds == {"read": [1, 2]}


def test_a_block_that_raises_is_counted():
    timer = Timer(clock_of(0, 4))
    with pytest.raises(ZeroDivisionError), timer("a"):
        raise ZeroDivisionError
    assert timer.totals() == {"a": 4}


def test_a_constant_ratio_is_real():
    found = difference([2.0] * 9, [1.0] * 9)
    assert (found.ratio, found.low, found.high, found.is_noise) == (2, 2, 2, False)


def test_nine_pairs_leave_one_outlier_out_on_either_side():
    found = difference([100, 2, 3, 4, 5, 6, 7, 8, 0.01], [1] * 9)
    assert (found.ratio, found.low, found.high) == (5, 2, 8)


def test_too_few_pairs_say_nothing():
    assert difference([2] * 5, [1] * 5).high == math.inf
    assert difference([2] * 5, [1] * 5).is_noise
    assert not difference([2] * 6, [1] * 6).is_noise


def test_equal_programs_are_called_noise_as_often_as_promised():
    """The times of one program, drifting and with outliers, taken for two: 95 of 100 are noise."""
    rng, noise = random.Random(0), 0
    for _ in range(1000):
        load = [rng.lognormvariate(0, 1) for _ in range(15)]  # the machine's, the same for a pair
        first, second = ([each * rng.lognormvariate(0, 0.2) for each in load] for _ in range(2))
        noise += difference(first, second).is_noise
    assert 940 <= noise <= 1000


@pytest.mark.parametrize("times", [([], []), ([1], [1, 2]), ([0], [1]), ([math.nan], [1])])
def test_what_is_no_series_of_pairs_is_refused(times):
    with pytest.raises(ValueError, match=r"pairs|positive"):
        difference(*times)


def test_turns_alternate():
    calls = []
    in_turns(lambda: calls.append("a"), lambda: calls.append("b"), 3, clock_of(*range(12)))
    assert "".join(calls) == "ab" * 4
