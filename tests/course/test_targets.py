"""Right and wrong answers to the exercises on targets."""

import copy
import itertools
import operator
import statistics

from tests.course.answers import CATCHES, Answers, catches, first_hint

answers = Answers("targets")

answers.right("pixel_rate")(lambda width, height, fps: width * height * fps / 1e6)
for why, wrong in {
    "pixels, not megapixels": lambda width, height, fps: width * height * fps,
    "one frame": lambda width, height, fps: width * height / 1e6,
    "counts in 1024s": lambda width, height, fps: width * height * fps / 2**20,
    "whole ones": lambda width, height, fps: width * height * fps // 1e6,
}.items():
    answers.wrong("pixel_rate", why)(wrong)


@answers.right("per_pixel")
def per_pixel(channels, kernel):
    return sum(a * b * kernel * kernel for a, b in itertools.pairwise(channels))


for why, wrong in {
    "one output channel": lambda c, k: sum(a * k * k for a in c[:-1]),
    "a row of the window": lambda c, k: sum(a * b * k for a, b in itertools.pairwise(c)),
    "counts two for each": lambda c, k: 2 * per_pixel(c, k),
    "in and out of the whole network": lambda c, k: c[0] * c[-1] * k * k,
}.items():
    answers.wrong("per_pixel", why)(wrong)


# --- fps_claim


def judged(
    claim, card, memory=True, upload=True, bits=8, peak=None, bytes_of=None, pixels=True,
    operations=2, batch=False, lowest=min, tera=1e12, above=operator.gt, over=operator.gt, half=0.5,
):  # fmt: skip
    size = {"float32": 4, "float16": 2}[bytes_of or claim["precision"]]
    peaks = card["TFLOP/s"][peak or claim["precision"]]
    roofs = {"arithmetic": peaks * tera / operations / claim["multiply_adds"]}
    if memory:
        roofs["memory"] = card["memory GB/s"] * 1e9 / claim["values"] / size
    if upload:
        roofs["upload"] = card["bus Gbit/s"] * 1e9 / bits / 3
    roof = lowest(roofs, key=roofs.get)
    rate = claim["fps"] * (claim["width"] * claim["height"] if pixels else 1)
    rate *= claim["batch"] if batch else 1
    share = rate / roofs[roof]
    low = "needs proof" if over(share, half) else "plausible"
    return ("impossible" if above(share, 1) else low), roof


answers.right("fps_claim")(judged)
for why, switch in {
    "ignores bandwidth": {"memory": False},
    "ignores the bus": {"upload": False},
    "mixes bits and bytes": {"bits": 1},
    "peak of the wrong precision": {"peak": "float16"},
    "bytes of the wrong precision": {"bytes_of": "float32"},
    "compares frames instead of pixels": {"pixels": False},
    "a multiply-add is one operation": {"operations": 1},
    "a batch is a frame": {"batch": True},
    "the highest roof": {"lowest": max},
    "TFLOP in 1024s": {"tera": 2**40},
    "the roof itself is impossible": {"above": operator.ge},
    "half of the roof needs proof": {"over": operator.ge},
    "half is 0.51": {"half": 0.51},
}.items():
    answers.wrong("fps_claim", why)(lambda *case, switch=switch: judged(*case, **switch))


@answers.wrong("fps_claim", "always plausible")
def plausible(claim, card):
    return "plausible", judged(claim, card)[1]


@answers.wrong("fps_claim", "changes the card")
def changed_units(claim, card):
    found = judged(claim, card)
    card["memory GB/s"] *= 10**9
    return found


@answers.wrong("fps_claim", "changes the card")
def emptied_card(claim, card):
    found = judged(claim, card)
    card["TFLOP/s"].clear()
    card.clear()
    return found


def test_a_changed_card_changes_no_later_case():
    exercise = answers.exercises["fps_claim"]
    before = [copy.deepcopy(exercise.make(3, at, at % 9).inputs) for at in range(18)]
    assert "as they are" in first_hint(exercise, emptied_card)
    assert "as they are" in first_hint(exercise, changed_units)
    assert [exercise.make(3, at, at % 9).inputs for at in range(18)] == before


# --- own_benchmark


def benchmark(
    job, clock, sizes, machine, runs=9, warm=True, turns=True, middle=statistics.median,
    other=None, refuses=True, knows=True, last=False,
):  # fmt: skip
    if refuses and machine["device"] == "emulator":
        raise ValueError("an emulator's time is no device's")
    times = {size: [] for size in sizes}

    def timed(size):
        begin = clock()
        job(*(other or size))
        times[size].append(clock() - begin)

    for size in sizes:
        timed(size)
        if warm:
            times[size].clear()
    order = (
        [s for _ in range(runs) for s in sizes]
        if turns
        else [s for s in sizes for _ in range(runs)]
    )
    for size in order:
        timed(size)
    medians = {size: middle(each) for size, each in times.items()}
    rates = {(w, h): w * h / (times[w, h][-1] if last else medians[w, h]) for w, h in sizes}
    return {
        "times": times,
        "median": medians,
        "megapixels per second": rates,
        "machine": machine if knows else {},
    }


answers.right("own_benchmark")(benchmark)
answers.right("own_benchmark")(lambda *case: benchmark(*case, runs=12))
for why, switch in {
    "single run": {"runs": 1},
    "warm-up counted": {"warm": False},
    "one size after the other": {"turns": False},
    "the mean": {"middle": statistics.mean},
    "the best": {"middle": min},
    "other workload than named": {"other": (64, 64)},
    "no machine": {"knows": False},
    "takes an emulator's time": {"refuses": False},
    "rate of the last run": {"last": True},
}.items():
    answers.wrong("own_benchmark", why)(lambda *case, switch=switch: benchmark(*case, **switch))


@answers.wrong("own_benchmark", "no versions")
def without_versions(job, clock, sizes, machine):
    report = benchmark(job, clock, sizes, machine)
    kept = {name: value for name, value in machine.items() if name != "torch"}
    return report and {**report, "machine": kept}


@answers.wrong("own_benchmark", "runs on the emulator, then refuses")
def refuses_late(job, clock, sizes, machine):
    report = benchmark(job, clock, sizes, machine, refuses=False)
    if machine["device"] == "emulator":
        raise ValueError("an emulator's time is no device's")
    return report


answers.wrong("own_benchmark", CATCHES)(catches(benchmark))


@answers.wrong("own_benchmark", "sorts the caller's sizes")
def sorts_sizes(job, clock, sizes, machine):
    sizes.sort()
    return benchmark(job, clock, sizes, machine)


@answers.wrong("own_benchmark", "three sizes at most")
def three_sizes(job, clock, sizes, machine):
    return benchmark(job, clock, sizes[:3], machine)


@answers.wrong("own_benchmark", "two devices only")
def two_devices(job, clock, sizes, machine):
    if machine["device"] not in ("cpu", "cuda"):
        raise ValueError(machine["device"])
    return benchmark(job, clock, sizes, machine)


@answers.wrong("own_benchmark", "any emulator in the machine")
def any_emulator(job, clock, sizes, machine):
    if "emulator" in machine.values():
        raise ValueError("an emulator's time is no device's")
    return benchmark(job, clock, sizes, machine)


@answers.wrong("own_benchmark", "invented numbers")
def invented(job, clock, sizes, machine):
    report = benchmark(job, clock, sizes, machine)
    report["times"] = {size: [1000] * 9 for size in sizes}
    return report


def test_mistakes_get_their_hints():
    claims, own = answers.exercises["fps_claim"], answers.exercises["own_benchmark"]
    assert "eight bits" in first_hint(claims, lambda *case: judged(*case, bits=0.01))
    assert "two operations" in first_hint(claims, lambda *case: judged(*case, operations=0.001))
    assert "it warms up" in first_hint(own, lambda *case: benchmark(*case, warm=False))
    assert "inner one" in first_hint(own, lambda *case: benchmark(*case, turns=False))
    assert "first" in first_hint(own, lambda *case: benchmark(*case, refuses=False))


test_answers = answers.tests()
