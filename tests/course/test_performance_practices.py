"""Right and wrong answers to the exercises on differences inside the noise."""

import bisect
import itertools
import random
import statistics

import pytest

from labkit.course.checking.stages import stage_exercises
from labkit.course.exercises._noisy_machine import ENOUGH, KINDS, OF, NoisyMachine, experiments
from labkit.course.exercises._noisy_machine import _drive as asked_of
from labkit.pipeline.timer import difference
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("performance_practices")

# --- limits

answers.right("limits")(lambda ratios: (sorted(ratios)[5], sorted(ratios)[-6]))
answers.right("limits")(lambda ratios: [sorted(ratios)[5], sorted(ratios, reverse=True)[5]])


@answers.wrong("limits", "sorts the caller's list")
def sorts_it(ratios):
    ratios.sort()
    return ratios[5], ratios[-6]


for why, wrong in {
    "one place too far": lambda ratios: (sorted(ratios)[6], sorted(ratios)[-6]),
    "drops equal ratios": lambda ratios: (sorted(set(ratios))[5], sorted(set(ratios))[-6]),
    "does not sort": lambda ratios: (ratios[5], ratios[-6]),
    "the smallest and the largest": lambda ratios: (min(ratios), max(ratios)),
}.items():
    answers.wrong("limits", why)(wrong)


@answers.wrong("limits", FIRST, make=True)
def remembers_limits():
    first = []

    def answer(ratios):
        first[:] = first or [(sorted(ratios)[5], sorted(ratios)[-6])]
        return first[0]

    return answer


def test_each_limit_gets_a_hint_of_its_own():
    exercise = answers.exercises["limits"]
    equal = first_hint(exercise, lambda r: (sorted(set(r))[5], sorted(set(r))[-6]))
    assert "equal" in equal.lower()
    assert "smallest" in first_hint(exercise, lambda r: (sorted(r)[6], sorted(r)[-6]))
    assert "from the end" in first_hint(exercise, lambda r: (sorted(r)[5], sorted(r)[-5]))


def test_limits_are_those_of_labkit():
    rng = random.Random(3)
    for _ in range(20):
        ratios = [rng.uniform(0.5, 2) for _ in range(20)]
        found = difference(ratios, [1.0] * 20)
        assert (found.low, found.high) == (sorted(ratios)[5], sorted(ratios)[-6])


# --- fair_bench


def said(low, high):
    return "noise" if low <= 1 <= high else "a" if high < 1 else "b"


def in_turns(a, b, cold=10, turns=20):
    for _ in range(cold):
        a(), b()
    return [(a(), b()) for _ in range(turns)]


def limits_of(pairs):
    ratios = sorted(x / y for x, y in pairs)
    return ratios[5], ratios[-6]


def there_and_back(a, b, cold=10, turns=20):
    """Each turn in the other order than the one before it."""
    in_turns(a, b, cold, 0)
    pairs = []
    for turn in range(turns):
        if turn % 2:
            second = b()
            pairs.append((a(), second))
        else:
            pairs.append((a(), b()))
    return pairs


@answers.right("fair_bench")
def compare(a, b):
    return said(*limits_of(there_and_back(a, b)))


@answers.wrong("fair_bench", "always calls a first")
def same_order(a, b):
    return said(*limits_of(in_turns(a, b)))


@answers.wrong("fair_bench", "always calls a first, with wide limits")
def same_order_wide(a, b):
    ratios = sorted(x / y for x, y in in_turns(a, b, 10, 30))
    return said(ratios[5], ratios[24])


@answers.wrong("fair_bench", "always calls a first, with a margin of its own")
def same_order_margin(a, b):
    ratios = sorted(x / y for x, y in in_turns(a, b))
    margin = 0.9 * (ratios[14] - ratios[5])
    middle = statistics.median(ratios)
    return said(middle - margin, middle + margin)


@answers.wrong("fair_bench", "sorts the times of each alone")
def unpaired(a, b):
    first, second = map(sorted, zip(*in_turns(a, b, 10, 30), strict=True))
    if first[19] < second[10]:
        return "a"
    return "b" if second[19] < first[10] else "noise"


def usual(function):
    run = function.run
    return run.__closure__[run.__code__.co_freevars.index("ms")].cell_contents


@answers.wrong("fair_bench", "looks into the functions instead of calling them")
def peeks(a, b):
    return said(*[usual(a) / usual(b)] * 2)


@answers.wrong("fair_bench", "looks into the functions after enough idle calls")
def peeks_later(a, b):
    in_turns(a, b, 11, 0)
    return peeks(a, b)


@answers.wrong("fair_bench", "calls each function five times")
def five_calls(a, b):
    return "a" if sum(a() for _ in range(5)) < sum(b() for _ in range(5)) else "b"


@answers.right("fair_bench")
def in_any_order(a, b):
    rng = random.Random(5)
    in_turns(a, b, 10, 0)
    pairs = []
    for _ in range(20):
        times = {}
        for each in rng.sample((a, b), 2):
            times[each] = each()
        pairs.append((times[a], times[b]))
    return said(*limits_of(pairs))


@answers.right("fair_bench")
def bootstrapped(a, b):
    """The middle 95 % of the medians of 100 draws."""
    rng = random.Random(7)
    ratios = [x / y for x, y in there_and_back(a, b, 10, 30)]
    medians = sorted(statistics.median(rng.choices(ratios, k=30)) for _ in range(100))
    return said(medians[1], medians[-2])


@answers.wrong("fair_bench", "runs all of a then all of b")
def blocks(a, b):
    first = [a() for _ in range(30)][10:]
    return said(*limits_of(zip(first, [b() for _ in range(30)][10:], strict=True)))


@answers.wrong("fair_bench", "mean instead of median")
def mean(a, b):
    ratios = [x / y for x, y in there_and_back(a, b)]
    middle, error = statistics.mean(ratios), 2 * statistics.stdev(ratios) / 20**0.5
    return said(middle - error, middle + error)


@answers.wrong("fair_bench", "minimum of each")
def minimum(a, b):
    pairs = there_and_back(a, b)
    low, high = limits_of(pairs)
    ratio = min(x for x, _ in pairs) / min(y for _, y in pairs)
    return said(ratio - (high - low) / 2, ratio + (high - low) / 2)


@answers.wrong("fair_bench", "no warm-up")
def cold(a, b):
    return said(*limits_of(there_and_back(a, b, 0)))


@answers.wrong("fair_bench", "drops one call")
def drops_one(a, b):
    return said(*limits_of(there_and_back(a, b, 1)))


@answers.wrong("fair_bench", "always reports a winner")
def winner(a, b):
    ratio = statistics.median(x / y for x, y in there_and_back(a, b))
    return "a" if ratio < 1 else "b"


@answers.wrong("fair_bench", "always noise")
def coward(a, b):
    in_turns(a, b)
    return "noise"


@answers.wrong("fair_bench", "names the slower one")
def slower(a, b):
    return {"a": "b", "b": "a"}.get(word := compare(a, b), word)


@answers.wrong("fair_bench", "three percent are a difference everywhere")
def threshold(a, b):
    ratio = statistics.median(x / y for x, y in there_and_back(a, b))
    return said(ratio - 0.03, ratio + 0.03)


@answers.wrong("fair_bench", "too many calls")
def patient(a, b):
    return said(*limits_of(there_and_back(a, b, 10, 100)))


@answers.wrong("fair_bench", "warms up one of the two")
def warms_one(a, b):
    for _ in range(10):
        a()
    return said(*limits_of(there_and_back(a, b, 0)))


@answers.wrong("fair_bench", "divides the other way round in every other turn")
def turned_round(a, b):
    pairs = there_and_back(a, b)
    return said(*limits_of((y, x) if turn % 2 else (x, y) for turn, (x, y) in enumerate(pairs)))


def test_mistakes_of_a_bench_get_their_hints():
    parts = dict(stage_exercises(answers.exercises["fair_bench"]))
    assert "b begin" in first_hint(parts["drift"], same_order)
    assert "first ten of each" in first_hint(parts["quiet"], five_calls)
    assert "wider limits" in first_hint(parts["drift"], same_order_wide)
    assert "wider limits" in first_hint(parts["drift"], same_order_margin)
    assert "at most 40" in first_hint(parts["quiet"], patient)
    assert "slower one" in first_hint(parts["quiet"], slower)
    assert "name a winner" in first_hint(parts["quiet"], winner)
    assert "ten of each" in first_hint(parts["warm-up"], cold)
    assert "in turns" in first_hint(parts["drift"], blocks)
    assert "ten of each" in first_hint(parts["warm-up"], warms_one)
    assert "upside down" in first_hint(parts["quiet"], turned_round)
    assert "smallest time" in first_hint(parts["bursts"], minimum)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_bench_has_room_below_the_threshold(kind):
    found = asked_of(compare, 1, kind)
    assert all(found[truth].get(truth, 0) >= (ENOUGH + 0.05) * OF[truth] for truth in OF)


def test_each_experiment_has_a_machine_of_its_own():
    first, again = ([(t, a(), b()) for t, a, b in experiments(4, "together")] for _ in range(2))
    assert first == again and len({time for _, time, _ in first}) == len(first)


def test_drift_changes_all_functions_alike():
    machine = NoisyMachine(1, jitter=0, drift=0.01)
    a, b = machine.function(10), machine.function(10)
    times = [a(), b(), a(), b()]
    assert times == sorted(times) and times[3] / times[0] == pytest.approx(2.718281828**0.03)


# --- find_the_knee


def test_an_edge_gets_a_hint_of_its_own():
    exercise = answers.exercises["find_the_knee"]
    assert (
        "just 95 %"
        in first_hint(exercise, lambda rows, slowest: knee(rows, slowest, 0.95001)).lower()
    )
    slow = dict(stage_exercises(exercise))["slowest"]
    for wrong, said in (
        (lambda rows, slowest: knee(rows, slowest - 1), "just `slowest` ms"),
        (lambda rows, slowest: knee(rows, slowest, all_best=True), "not for the best rate"),
    ):
        for seed in range(8):
            assert said in first_hint(slow, wrong, seed)
    assert ": None" in first_hint(slow, lambda rows, slowest: knee(rows, slowest) or 0)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_cut_or_least_is_not_taken_for_an_edge(seed):
    falls = dict(stage_exercises(answers.exercises["find_the_knee"]))["falls"]
    assert "round nothing" in first_hint(falls, knee_cut, seed)
    assert "smaller" in first_hint(falls, least_ms, seed)


@pytest.mark.parametrize("seed", range(8))
def test_a_dip_is_not_taken_for_an_edge(seed):
    falls = dict(stage_exercises(answers.exercises["find_the_knee"]))["falls"]
    assert "just 95 %" not in first_hint(falls, from_the_largest, seed).lower()


def knee(rows, slowest, share=0.95, limit=True, all_best=False):
    fit = [row for row in rows if not limit or row[2] <= slowest]
    best = max((row[1] for row in (rows if all_best else fit)), default=0)
    return min((batch for batch, rate, _ in fit if rate >= share * best), default=None)


answers.right("find_the_knee")(knee)


@answers.right("find_the_knee")
def by_hand(rows, slowest):
    best = 0
    for _, rate, ms in rows:
        if ms <= slowest and rate > best:
            best = rate
    for batch, rate, ms in sorted(rows):
        if ms <= slowest and rate / best >= 0.95:
            return batch
    return None


def first_small_gain(rows, slowest):
    fit = sorted(row for row in rows if row[2] <= slowest)
    for one, more in itertools.pairwise(fit):
        if more[1] < one[1] / 0.95:
            return one[0]
    return fit[-1][0] if fit else None


@answers.wrong("find_the_knee", "halves the list, as if rates never fell")
def halved(rows, slowest):
    fit = sorted(row for row in rows if row[2] <= slowest)
    best = max((rate for _, rate, _ in fit), default=0)
    at = bisect.bisect_left(fit, True, key=lambda row: row[1] >= 0.95 * best)
    return fit[at][0] if at < len(fit) else None


def least_ms(rows, slowest):
    fit = [row for row in rows if row[2] <= slowest]
    best = max((rate for _, rate, _ in fit), default=0)
    near = [(ms, batch) for batch, rate, ms in fit if rate >= 0.95 * best]
    return min(near)[1] if near else None


def knee_cut(rows, slowest):
    fit = [row for row in rows if row[2] <= slowest]
    best = max((rate for _, rate, _ in fit), default=0)
    return min((batch for batch, rate, _ in fit if rate >= int(0.95 * best)), default=None)


def from_the_largest(rows, slowest):
    """Walks down, and stops at the first row below 95 %."""
    fit = sorted((row for row in rows if row[2] <= slowest), reverse=True)
    best = max((rate for _, rate, _ in fit), default=0)
    while fit and fit[0][1] < 0.95 * best:
        del fit[0]
    near = list(itertools.takewhile(lambda row: row[1] >= 0.95 * best, fit))
    return near[-1][0] if near else None


for why, wrong in {
    "the largest that fits": lambda rows, slowest: max(
        (batch for batch, _, ms in rows if ms <= slowest), default=None
    ),
    "the fastest": lambda rows, slowest: knee(rows, slowest, 1),
    "stops at the first small gain": first_small_gain,
    "ignores the limit": lambda rows, slowest: knee(rows, slowest, limit=False),
    "the best of all rows": lambda rows, slowest: knee(rows, slowest, all_best=True),
    "the first of the list": lambda rows, slowest: next(
        (
            b
            for b, r, ms in rows
            if ms <= slowest and r >= 0.95 * max(r for _, r, m in rows if m <= slowest)
        ),
        None,
    ),
    "stops at the first row below, from the largest": from_the_largest,
    "more than 95 %": lambda rows, slowest: knee(rows, slowest, 0.95001),
    "less than slowest": lambda rows, slowest: knee(rows, slowest - 1),
    "a number when nothing fits": lambda rows, slowest: knee(rows, slowest) or 0,
    "the least ms": least_ms,
    "95 % cut to a whole number": knee_cut,
    "no limit where slowest is 0": lambda rows, slowest: knee(rows, slowest, limit=slowest > 0),
    "returns the literal answer of the example in the statement": lambda rows, slowest: 8,
}.items():
    answers.wrong("find_the_knee", why)(wrong)


@answers.wrong("find_the_knee", FIRST, make=True)
def remembers_knee():
    first = []

    def answer(rows, slowest):
        first[:] = first or [knee(rows, slowest)]
        return first[0]

    return answer


test_answers = answers.tests()
