"""Right and wrong answers to the exercises on vector instructions."""

import math

import numpy as np

from labkit.course.checking.stages import stage_exercises
from tests.course.answers import Answers, first_hint

answers = Answers("simd")

answers.right("lanes_of")(lambda bits, itemsize: bits // (8 * itemsize))
for why, wrong in {
    "bits as bytes": lambda bits, itemsize: bits // itemsize,
    "always float32": lambda bits, itemsize: bits // 32,
    "bytes of the register": lambda bits, itemsize: bits // 8,
}.items():
    answers.wrong("lanes_of", why)(wrong)

answers.right("instructions")(lambda count, lanes: count // lanes + count % lanes)
for why, wrong in {
    "rounds up": lambda count, lanes: -(-count // lanes),
    "forgets the rest": lambda count, lanes: count // lanes,
    "one by one": lambda count, lanes: count,
}.items():
    answers.wrong("instructions", why)(wrong)


def summed(numbers, dtype=np.float32):
    total = dtype(0)
    for number in numbers:
        total = dtype(total + dtype(number))
    return total


@answers.right("lane_sum")
def lane_sum(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    partial = [summed(numbers[lane:whole:lanes]) for lane in range(lanes)]
    return summed([*partial, *numbers[whole:]])


@answers.right("lane_sum")
def as_vectors(numbers, lanes):
    values, partial, at = np.array(numbers, np.float32), np.zeros(lanes, np.float32), 0
    while at + lanes <= len(values):
        partial += values[at : at + lanes]
        at += lanes
    return float(summed([*partial, *values[at:]]))


@answers.wrong("lane_sum", "float64")
def in_float64(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    partial = [sum(numbers[lane:whole:lanes]) for lane in range(lanes)]
    return sum([*partial, *numbers[whole:]])


@answers.wrong("lane_sum", "rounds at the end")
def rounds_late(numbers, lanes):
    return np.float32(math.fsum(numbers))


@answers.wrong("lane_sum", "one lane")
def one_lane(numbers, lanes):
    return summed(numbers)


@answers.wrong("lane_sum", "a block for each lane")
def blocks(numbers, lanes):
    each = len(numbers) // lanes
    partial = [summed(numbers[lane * each : (lane + 1) * each]) for lane in range(lanes)]
    return summed([*partial, *numbers[lanes * each :]])


@answers.wrong("lane_sum", "forgets the rest")
def forgets(numbers, lanes):
    return lane_sum(numbers[: len(numbers) - len(numbers) % lanes], lanes)


@answers.wrong("lane_sum", "the rest goes into the lanes")
def rest_in_lanes(numbers, lanes):
    return summed([summed(numbers[lane::lanes]) for lane in range(lanes)])


@answers.wrong("lane_sum", "np.sum")
def of_numpy(numbers, lanes):
    return np.sum(np.array(numbers, np.float32))


@answers.wrong("lane_sum", "the lanes backwards")
def backwards(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    partial = [summed(numbers[lane:whole:lanes]) for lane in range(lanes)]
    return summed([*partial[::-1], *numbers[whole:]])


@answers.wrong("lane_sum", "the lanes in pairs")
def in_pairs(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    partial = [summed(numbers[lane:whole:lanes]) for lane in range(lanes)]
    while len(partial) > 1:
        even = len(partial) // 2 * 2
        pairs = zip(partial[0:even:2], partial[1:even:2], strict=True)
        partial = [*(a + b for a, b in pairs), *partial[even:]]
    return summed([*partial, *numbers[whole:]])


@answers.wrong("lane_sum", "the rest first")
def rest_first(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    partial = [summed(numbers[lane:whole:lanes]) for lane in range(lanes)]
    return summed([*numbers[whole:], *partial])


@answers.wrong("lane_sum", "adds a column by np.add.reduce")
def by_reduce(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    rows = np.array(numbers[:whole], np.float32).reshape(-1, lanes)
    return summed([*np.add.reduce(rows, axis=0), *numbers[whole:]])


@answers.wrong("lane_sum", "the last full register goes to the rest")
def one_register_less(numbers, lanes):
    values, partial, at = np.array(numbers, np.float32), np.zeros(lanes, np.float32), 0
    while at + lanes < len(values):
        partial += values[at : at + lanes]
        at += lanes
    return summed([*partial, *values[at:]])


@answers.wrong("lane_sum", "adds the lanes in double precision")
def rounds_the_total_late(numbers, lanes):
    whole = len(numbers) - len(numbers) % lanes
    total = sum(float(summed(numbers[lane:whole:lanes])) for lane in range(lanes))
    return summed([np.float32(total), *numbers[whole:]])


def test_mistakes_get_their_hints():
    exercise = answers.exercises["lane_sum"]
    stages = dict(stage_exercises(exercise))
    assert "64 bits" in first_hint(exercise, in_float64)
    assert "np.sum" in first_hint(exercise, of_numpy)
    assert "lane 0 first" in first_hint(stages["full vectors"], in_pairs)
    assert "lane 0 first" in first_hint(stages["full vectors"], backwards)
    lanes_of, count = (answers.exercises[name] for name in ("lanes_of", "instructions"))
    assert "itemsize" in first_hint(lanes_of, lambda bits, itemsize: bits // 32)
    assert "in pairs" in first_hint(exercise, by_reduce)
    assert "//" in first_hint(lanes_of, lambda bits, itemsize: bits / 8 / itemsize)
    assert "//" in first_hint(count, lambda count, lanes: count // lanes / 1 + count % lanes)
    assert "Lane 0 adds" in first_hint(exercise, blocks)
    assert "goes to the end" in first_hint(exercise, rest_in_lanes)
    assert "another number of lanes" in first_hint(
        exercise, lambda numbers, lanes: lane_sum(numbers, 8)
    )
    assert "last full register" in first_hint(stages["full vectors"], one_register_less)
    assert "Round the total" in first_hint(stages["full vectors"], rounds_the_total_late)
    assert "alone" in first_hint(count, lambda count, lanes: max(1, count // lanes) + count % lanes)
    assert set(stages) == {"one lane", "full vectors", "a rest"}


test_answers = answers.tests()
