"""Claims about frame rates: pixels, multiply-adds, three roofs; and a benchmark of one's own."""

import copy
import itertools
import math
import random
import statistics
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CATCHES, FIRST

NOTEBOOK = "5_optimization/8_targets"
SIZES = ((640, 360), (1280, 720), (1920, 1080), (3840, 2160), (6144, 3160), (7680, 4320))

# --- pixel_rate


def _film(rng: Rng, size: int) -> tuple[int, int, float]:
    return (*rng.choice(SIZES), rng.choice((0.5, 12.5, 25, 30, 59.94, 60, 150)))


pixel_rate = Exercise(
    id="targets.pixel_rate",
    case=_film,
    expected=lambda width, height, fps: width * height * fps / 1e6,
    rung="warm-up",
    minutes=2,
    cases=40,
    tolerance=1e-9,
    show=lambda width, height, fps: f"width = {width}, height = {height}, fps = {fps}",
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A megapixel is a million pixels.",
             when=lambda e: math.isclose(e.value * 2**20, e.right * 1e6, rel_tol=1e-6)),
        "A frame has width * height pixels.",
        "width * height * fps / 1e6",
    ),
    must_fail=("pixels, not megapixels", "one frame", "counts in 1024s", "whole ones", FIRST),
)  # fmt: skip

# --- per_pixel


def _layers(rng: Rng, size: int) -> tuple[list[int], int]:
    channels = [rng.choice((1, 3, 4, 8, 16, 32)) for _ in range(rng.randint(2, 3 + size))]
    return channels, rng.choice((1, 2, 3, 4, 5))


per_pixel = Exercise(
    id="targets.per_pixel",
    case=_layers,
    expected=lambda channels, kernel: sum(
        a * b * kernel**2 for a, b in itertools.pairwise(channels)
    ),
    rung="warm-up",
    minutes=3,
    cases=60,
    stages=(Stage("one convolution", only=lambda channels, kernel: len(channels) == 2),
            Stage("several")),
    show=lambda channels, kernel: f"channels = {channels}, kernel = {kernel}",
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A multiply-add is one here: a product, and its sum.",
             when=lambda e: e.value == 2 * e.right),
        Hint("A window of kernel x kernel has kernel * kernel weights.",
             when=lambda e: e.inputs[1] > 1 and e.value * e.inputs[1] == e.right),
        Hint("{got} is one output channel's. Each pixel has all of them.",
             when=lambda e: e.value < e.right),
        "One convolution from a to b channels: for each of b outputs, a windows of weights.",
        "a * b * kernel * kernel, added up over neighbours in `channels`.",
    ),
    must_fail=("one output channel", "a row of the window", "counts two for each", "in and out "
               "of the whole network", FIRST),
)  # fmt: skip

# --- fps_claim

BYTES = {"float32": 4, "float16": 2}
CARDS = (
    {"TFLOP/s": {"float32": 35.6, "float16": 71.0}, "memory GB/s": 936, "bus Gbit/s": 252},
    {"TFLOP/s": {"float32": 66.9, "float16": 989.0}, "memory GB/s": 3350, "bus Gbit/s": 504},
    {"TFLOP/s": {"float32": 8.1, "float16": 65.0}, "memory GB/s": 320, "bus Gbit/s": 126},
)


def _roofs(claim: Any, card: Any) -> dict[str, float]:
    """Pixels per second."""
    precision = claim["precision"]
    return {
        "arithmetic": card["TFLOP/s"][precision] * 1e12 / (2 * claim["multiply_adds"]),
        "memory": card["memory GB/s"] * 1e9 / (claim["values"] * BYTES[precision]),
        "upload": card["bus Gbit/s"] * 1e9 / 8 / 3,
    }


def _rate(claim: Any) -> float:
    rate: float = claim["fps"] * claim["width"] * claim["height"]
    return rate


def _judged(claim: Any, card: Any) -> tuple[str, str]:
    roofs = _roofs(claim, card)
    binding = min(roofs, key=lambda name: roofs[name])
    share = _rate(claim) / roofs[binding]
    words = "impossible" if share > 1 else "needs proof" if share > 0.5 else "plausible"
    return words, binding


def _at_a_limit(fps: float) -> tuple[Any, Any]:
    """A claim about a card whose lowest roof is 71 million pixels a second, without rounding."""
    claim = {"fps": fps, "width": 1000, "height": 1000, "batch": 4, "precision": "float16",
             "multiply_adds": 500_000, "values": 500}  # fmt: skip
    return claim, copy.deepcopy(CARDS[0])


def _a_claim(rng: Rng, size: int, roofs: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """A claim about a card whose lowest roof is clear; the largest sizes are at the limits."""
    if size > 5 and not roofs:
        return _at_a_limit((35.5, 35.75, 71.0)[size - 6])
    while True:
        card = copy.deepcopy(rng.choice(CARDS))
        width, height = rng.choice(SIZES)
        claim: dict[str, Any] = {
            "fps": 1.0, "width": width, "height": height, "batch": rng.choice((1, 4, 16)),
            "precision": rng.choice(("float32", "float16")),
            "multiply_adds": round(10 ** rng.uniform(1.5, 5.5)),
            "values": round(10 ** rng.uniform(0.8, 3.2)),
        }  # fmt: skip
        low, second, _ = sorted(_roofs(claim, card).values())
        if second < 1.1 * low or (roofs and _judged(claim, card)[1] not in roofs):
            continue
        low_or_high = rng.choice(((0.05, 0.45), (0.55, 0.95), (1.03, 1.08), (1.1, 3)))
        share = rng.uniform(*low_or_high)
        claim["fps"] = round(share * low / (width * height), 2)
        if claim["fps"] > 0 and min(abs(_rate(claim) / low - limit) for limit in (0.5, 1)) > 0.02:
            return claim, card


def _each_roof(case: Case, got: Any, right: Any) -> Any:
    """The claim beside the three roofs."""
    from labkit import show

    claim, card = case.inputs
    rows = {"claimed": _rate(claim), **_roofs(claim, card)}
    return show.bars({name: round(rate / 1e6) for name, rate in rows.items()}, unit="MP/s")


fps_claim = Exercise(
    id="targets.fps_claim",
    case=_a_claim,
    expected=_judged,
    picture=_each_roof,
    show=lambda claim, card: f"promise = {claim}, card = {card}",
    minutes=12,
    cases=100,
    stages=(
        Stage("arithmetic", case=lambda rng, size: _a_claim(rng, size, ("arithmetic",))),
        Stage("memory", case=lambda rng, size: _a_claim(rng, size, ("memory",))),
        Stage("upload", case=lambda rng, size: _a_claim(rng, size, ("upload",))),
        Stage("together"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The roof is right. The claim is fps * width * height pixels per second: above the "
             "roof, above half of it, or below.",
             when=lambda e: e.value[1] == e.right[1]),
        Hint("Keep `promise` and `card` as they are: a roof goes into a variable of its own.",
             when=lambda e: e.kind == "mutated"),
        Hint("The bus is given in Gbit/s: eight bits are a byte, and a pixel has three bytes.",
             stage="upload"),
        Hint("Values are 4 bytes in float32 and 2 in float16: the claim says which.",
             stage="memory"),
        Hint("A multiply-add is two operations of the data sheet, and each precision has a peak of "
             "its own.", stage="arithmetic"),
        "Say each roof in pixels per second: what the card does in a second / what a pixel needs.",
        "The lowest of the three binds.",
    ),
    must_fail=(
        "always plausible",
        "ignores bandwidth",
        "ignores the bus",
        "mixes bits and bytes",
        "peak of the wrong precision",
        "bytes of the wrong precision",
        "compares frames instead of pixels",
        "a multiply-add is one operation",
        "a batch is a frame",
        "the highest roof",
        "TFLOP in 1024s",
        "the roof itself is impossible",
        "half of the roof needs proof",
        "half is 0.51",
        "changes the card",
        FIRST,
    ),
)  # fmt: skip

# --- own_benchmark


def _a_machine(rng: Rng, size: int, emulator: bool = True) -> tuple[Any, Any, int]:
    sizes = rng.sample(SIZES, rng.randint(1, 2 + (size > 4)) if size < 7 else 5)
    device = ("cpu", "cuda", "xpu")[size % 3]
    if emulator and size < 7 and rng.chance(0.25):
        device = "emulator"
    host = "emulator" if size % 2 else "lab 3"
    versions = {"torch": f"2.{rng.randint(11, 13)}", "device": device, "host": host}
    return sizes, {**versions, "load": round(rng.uniform(0, 4), 2)}, rng.randint(0, 10**6)


def _drive_benchmark(answer: Any, sizes: Any, machine: Any, seed: int) -> Any:
    """The report, and every call of the job with its true time in µs."""
    rng, log = random.Random(seed), list[tuple[tuple[int, int], int]]()
    now, met = rng.randint(10**6, 10**7), set[tuple[int, int]]()

    def job(width: int, height: int) -> None:
        nonlocal now
        if machine["device"] == "emulator":
            raise RuntimeError("the job ran on an emulator")
        pixels = width * height
        taken = round(pixels / 50 * rng.lognormvariate(0, 0.3)) + 10
        if (width, height) not in met:
            taken *= 20
            met.add((width, height))
        now += taken
        log.append(((width, height), taken))

    report = answer(job, lambda: now, sizes, machine)
    return {"report": report, "log": log}


def _judge_benchmark(case: Case, got: Any) -> Any:
    sizes, machine, _ = case.inputs
    if machine["device"] == "emulator":
        refused = isinstance(got, Raised) and type(got.error) is ValueError
        return None if refused else Wrong("an emulator is refused before any run: ValueError")
    if isinstance(got, Raised):
        return "own_benchmark returns a report"
    report, log = got["report"], got["log"]
    names = {"times", "median", "megapixels per second", "machine"}
    if not isinstance(report, dict) or set(report) != names:
        return Wrong("the report's keys", sorted(names))
    if any(size not in sizes for size, _ in log):
        return Wrong("the job runs at the sizes that are asked for, and at no other", sizes)
    calls = {size: [taken for each, taken in log if each == size] for size in sizes}
    if any(len(times) < 10 for times in calls.values()):
        return Wrong("each size runs once to warm up, and at least nine times more")
    timed = [log[at][0] for at in range(len(log)) if log[at][0] in [one for one, _ in log[:at]]]
    turns = [timed[at : at + len(sizes)] for at in range(0, len(timed), len(sizes))]
    if any(turn != turns[0] for turn in turns):
        return Wrong("behind the warm-up, the sizes take turns: a, b, a, b")
    right = {size: times[1:] for size, times in calls.items()}
    if report["times"] != right:
        return Wrong("`times`: every time of each size but the first one", right)
    medians = {size: statistics.median(times) for size, times in right.items()}
    if report["median"] != medians:
        return Wrong("`median` by size", medians)
    rates = {size: size[0] * size[1] / median for size, median in medians.items()}
    found = report["megapixels per second"]
    near = found.keys() == rates.keys() if isinstance(found, dict) else False
    if not near or not all(math.isclose(found[s], rates[s], rel_tol=1e-6) for s in rates):
        return Wrong("megapixels per second, by the median", rates)
    return None if report["machine"] == machine else Wrong("`machine` as it was given", machine)


own_benchmark = Exercise(
    id="targets.own_benchmark",
    case=_a_machine,
    judge=_judge_benchmark,
    drive=_drive_benchmark,
    show=lambda sizes, machine, seed: f"sizes = {sizes}, machine = {machine}",
    minutes=12,
    cases=40,
    stages=(
        Stage("one size", case=lambda rng, size: (
            [SIZES[size % 6]], {"torch": "2.13", "device": "cpu", "load": 0.5}, size)),
        Stage("turns", case=lambda rng, size: _a_machine(rng, size, False)),
        Stage("together"),
    ),
    rules=("statistics may be used: no torch, no labkit",),
    banned=("torch.*", "labkit.course.*"),
    hints=(
        Hint("Work on copies: `sizes` and `machine` belong to the caller.",
             when=lambda e: e.kind == "mutated"),
        Hint("The first call of a size is slow: it warms up, and is in no list.",
             when=lambda e: "but the first one" in e.property),
        Hint("In turns, a busy moment of the machine hits all sizes. The outer loop counts, the "
             "inner one goes over the sizes.", when=lambda e: "take turns" in e.property),
        Hint("Pixels per µs are megapixels per second.",
             when=lambda e: "megapixels" in e.property),
        Hint("Ask machine['device'] first.", when=lambda e: "refused" in e.property),
        "First job(*size) once for each size. Then nine times, for each size: clock(), the job, "
        "clock().",
        "statistics.median of each list.",
    ),
    must_fail=(
        "invented numbers",
        "single run",
        "warm-up counted",
        "one size after the other",
        "the mean",
        "the best",
        "other workload than named",
        "no machine",
        "no versions",
        "takes an emulator's time",
        "rate of the last run",
        "runs on the emulator, then refuses",
        "sorts the caller's sizes",
        "three sizes at most",
        "two devices only",
        "any emulator in the machine",
        CATCHES,
    ),
)  # fmt: skip

EXERCISES = (pixel_rate, per_pixel, fps_claim, own_benchmark)
