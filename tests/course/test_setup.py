import math
import time

import numpy as np
import pytest
import torch

from labkit.course.exercise import Case
from labkit.course.exercises import setup
from labkit.course.exercises._queue_device import WatchedDevice
from tests.course.answers import Answers, first_hint

answers = Answers("setup")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
CALLS = 400


# --- per_call and read_build


@answers.right("per_call")
def per_call(begin, launched, empty, calls):
    return (empty - begin) / calls


@answers.wrong("per_call", "times the launches")
def launches(begin, launched, empty, calls):
    return (launched - begin) / calls


@answers.wrong("per_call", "leaves the launches out")
def after_the_launches(begin, launched, empty, calls):
    return (empty - launched) / calls


@answers.wrong("per_call", "begins at zero")
def from_zero(begin, launched, empty, calls):
    return empty / calls


@answers.right("read_build")
def read_build(build):
    tag = build.partition("+cu")[2]
    return tag[:-1] + "." + tag[-1] if tag else None


@answers.wrong("read_build", "takes cpu for CUDA")
def any_tag(build):
    tag = build.partition("+c")[2].lstrip("pu")
    return tag[:-1] + "." + tag[-1] if tag else "0.0"


@answers.wrong("read_build", "splits after the first digit")
def first_digit(build):
    tag = build.partition("+cu")[2]
    return tag[0] + "." + tag[1:] if tag else None


@answers.wrong("read_build", "knows CUDA 12 alone")
def only_12(build):
    tag = build.partition("+cu12")[2]
    return "12." + tag if tag else None


# --- honest_timer


def timed(device, calls, fn, before=None, after=None):
    """The clock around some calls; `before` and `after` stand next to it."""
    if before:
        before()
    start = device.now()
    for _ in range(calls):
        fn()
    if after:
        after()
    return device.now() - start


@answers.right("honest_timer")
def time_op(fn, device):
    earlier = timed(device, 0, fn, after=device.synchronize)
    first = timed(device, 1, fn, after=device.synchronize)
    total = timed(device, CALLS, fn, after=device.synchronize)
    return total / CALLS, [("earlier work", earlier), ("first call", first)]


@answers.right("honest_timer")
def with_more_warm_up(fn, device):
    _, excluded = time_op(fn, device)
    total = timed(device, 3000, fn, before=device.synchronize, after=device.synchronize)
    return total / 3000, excluded


@answers.wrong("honest_timer", "no synchronisation")
def no_synchronisation(fn, device):
    _, excluded = time_op(fn, device)
    return timed(device, CALLS, fn) / CALLS, excluded


@answers.wrong("honest_timer", "synchronises before stop but not before start")
def not_before_start(fn, device):
    """Warm-up calls, then the clock, while both they and the earlier work still run."""
    for _ in range(10):
        fn()
    total = timed(device, CALLS, fn, after=device.synchronize)
    return total / CALLS, [("earlier work", 0.0), ("first call", 0.0)]


@answers.wrong("honest_timer", "synchronises before stop but not before start")
def knows_what_to_exclude_and_still_does_not_wait(fn, device):
    _, excluded = time_op(fn, device)
    timed(device, 50, fn)
    return timed(device, CALLS, fn, after=device.synchronize) / CALLS, excluded


@answers.wrong("honest_timer", "includes the first call")
def includes_the_first_call(fn, device):
    earlier = timed(device, 0, fn, after=device.synchronize)
    total = timed(device, CALLS, fn, after=device.synchronize)
    return total / CALLS, [("earlier work", earlier), ("first call", total / CALLS)]


@answers.wrong("honest_timer", "takes the minimum of one run")
def minimum_of_one_run(fn, device):
    _, excluded = time_op(fn, device)
    single = [timed(device, 1, fn, after=device.synchronize) for _ in range(20)]
    return min(single), excluded


@answers.wrong("honest_timer", "reads back one element to wait (times the copy too)")
def reads_back(fn, device):
    _, excluded = time_op(fn, device)
    total = timed(device, CALLS, fn, before=device.read_back, after=device.read_back)
    return total / CALLS, excluded


@answers.wrong("honest_timer", "says nothing of earlier work")
def nothing_earlier(fn, device):
    per_call, (_, first) = time_op(fn, device)
    return per_call, [("earlier work", 0.0), first]


@answers.wrong("honest_timer", "does not wait for the first call")
def first_without_its_work(fn, device):
    earlier = timed(device, 0, fn, after=device.synchronize)
    first = timed(device, 1, fn)
    total = timed(device, CALLS, fn, before=device.synchronize, after=device.synchronize)
    return total / CALLS, [("earlier work", earlier), ("first call", first)]


@pytest.mark.parametrize("answer", [nothing_earlier, first_without_its_work])
def test_a_right_time_is_said_to_be_right(answer):
    for seed in (7, 8, 9):
        hint = first_hint(answers.exercises["honest_timer"], answer, seed)
        assert "The time per call is right" in hint


@answers.wrong("honest_timer", "reads back one element to wait (times the copy too)")
def reads_back_first(fn, device):
    earlier = timed(device, 0, fn, after=device.read_back)
    total, (_, first) = time_op(fn, device)
    return total, [("earlier work", earlier), first]


def test_a_copy_in_what_was_left_out_is_named():
    for seed in (7, 8, 9):
        hint = first_hint(answers.exercises["honest_timer"], reads_back_first, seed)
        assert "its copy is in what you left out" in hint


@answers.wrong("honest_timer", "sleeps")
def sleeps(fn, device):
    _, excluded = time_op(fn, device)
    total = timed(device, CALLS, fn, after=lambda: device.sleep(1e6))
    return total / CALLS, excluded


@answers.wrong("honest_timer", "sleeps")
def sleeps_and_subtracts(fn, device):
    _, excluded = time_op(fn, device)
    total = timed(device, CALLS, fn, after=lambda: device.sleep(1e6))
    return (total - 1e6) / CALLS, excluded


@answers.wrong("honest_timer", FIRST, make=True)
def first_device():
    kept = []

    def answer(fn, device):
        kept.append(time_op(fn, device))
        return kept[0]

    return answer


@answers.wrong("honest_timer", LITERAL)
def literal_time(fn, device):
    return 60.0, [("earlier work", 0.0), ("first call", 905.0)]


@answers.wrong("honest_timer", "no synchronisation")
def asks_the_real_clock(fn, device):
    start = time.perf_counter()
    for _ in range(CALLS):
        fn()
    return (time.perf_counter() - start) * 1e6 / CALLS, time_op(fn, device)[1]


# --- why_not_available

ORDER = ["build", "variable", "driver", "cards"]


@answers.right("why_not_available")
def why_not_available(seen):
    for place, question in enumerate(ORDER):
        if question not in seen:
            return "unknown", question
        if BLAMED[question](seen):
            left = [later for later in ORDER[place:] if later not in seen]
            return question, (left or ["is_available"])[0]
    return "none", "is_available"


def hides_everything(seen):
    if seen["variable"] is None:
        return False
    first = seen["variable"].split(",")[0]
    if first in ("", "-1"):
        return True
    cards = seen.get("cards")
    return bool(cards) and int(first) >= cards


def too_old(seen):
    built_for = int(seen["build"].split("+cu")[1][:2])
    return seen["driver"] is None or int(seen["driver"].split(".")[0]) < built_for


BLAMED = {
    "build": lambda seen: "+cu" not in seen["build"],
    "variable": hides_everything,
    "driver": too_old,
    "cards": lambda seen: seen["cards"] == 0,
}


@answers.wrong("why_not_available", "always blames the driver")
def blames_the_driver(seen):
    return "driver", why_not_available(seen)[1]


@answers.wrong("why_not_available", "takes what was not asked for the cause")
def open_question_is_the_cause(seen):
    cause, following = why_not_available(seen)
    return (following, following) if cause == "unknown" else (cause, following)


@answers.wrong("why_not_available", "always says reinstall")
def reinstall(seen):
    return "build", why_not_available(seen)[1]


@answers.wrong("why_not_available", "ignores the build string")
def ignores_the_build(seen):
    return why_not_available(seen | {"build": "2.13.0+cu118"})


@answers.wrong("why_not_available", "treats an empty visible-devices variable as unset")
def empty_is_unset(seen):
    return why_not_available(seen | {"variable": None} if seen.get("variable") == "" else seen)


@answers.wrong("why_not_available", "ignores the build string")
def compares_minor_versions(seen):
    """Takes 12.2 for too old for a build for 12.6."""
    cause, following = why_not_available(seen)
    build, driver = seen.get("build", ""), seen.get("driver")
    if cause not in ("build", "variable", "unknown") and driver and "+cu" in build:
        tag = build.split("+cu")[1]
        if float(driver) < float(f"{tag[:2]}.{tag[2:]}"):
            return "driver", following
    return cause, following


@answers.wrong("why_not_available", "lets any entry of the variable decide")
def any_entry_hides(seen):
    variable = seen.get("variable")
    hidden = variable is not None and "-1" in variable.split(",")
    return why_not_available(seen | {"variable": "-1"} if hidden else seen)


@answers.wrong("why_not_available", "names what was observed as the next")
def observed_is_next(seen):
    cause, _ = why_not_available(seen)
    after = ORDER[ORDER.index(cause) :] if cause in ORDER else ORDER
    return cause, ([name for name in after if name != cause and name in seen] or ["is_available"])[
        0
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (any_entry_hides, "Only its first entry decides"),
        (compares_minor_versions, "its own major version"),
        (empty_is_unset, "An empty variable hides everything"),
        (observed_is_next, "The cause is right"),
    ],
)
def test_the_first_hint_follows_what_is_blamed(answer, words):
    for seed in (5, 6, 7, 8):
        assert words in first_hint(answers.exercises["why_not_available"], answer, seed)


@answers.wrong("why_not_available", LITERAL)
def literal_cause(seen):
    return "build", "variable"


# --- gflops_of_a_matmul


@answers.right("gflops_of_a_matmul")
def gflops_of_a_matmul(kinds, dtypes, sizes, times):
    return by_dtype(kinds, dtypes, sizes, times)


@answers.right("gflops_of_a_matmul")
def with_polyfit(kinds, dtypes, sizes, times):
    return by_dtype(kinds, dtypes, sizes, times, fit=lambda x, y: np.polyfit(x, y, 1))


def line(work, times):
    """(slope, value at zero) of the line through the points, by least squares."""
    middle = sum(work) / len(work)
    spread = sum((x - middle) ** 2 for x in work)
    slope = sum((x - middle) * y for x, y in zip(work, times, strict=True)) / spread
    return slope, sum(times) / len(times) - slope * middle


def by_dtype(
    kinds, dtypes, sizes, times, fit=line, keep=("product",), factor=2, undecided=lambda: None
):
    found = {}
    for dtype in dict.fromkeys(dtypes):
        rows = [
            (tuple(shape), time)
            for kind, name, shape, time in zip(
                kinds, dtypes, sizes.tolist(), times.tolist(), strict=True
            )
            if kind in keep and name == dtype
        ]
        work = [factor * math.prod(shape) for shape, _ in rows]
        if len(set(work)) < 2:
            found[dtype] = undecided()
            continue
        slope, start_up = (float(value) for value in fit(work, [time for _, time in rows]))
        found[dtype] = {
            "GFLOP/s": 1e-3 / slope if slope else math.inf,
            "start-up": start_up,
            "limited": [
                shape for (shape, _), x in zip(rows, work, strict=True) if start_up > slope * x
            ],
        }
    return found


@answers.wrong("gflops_of_a_matmul", "uses n**3 without the factor two")
def without_the_two(*rows):
    return by_dtype(*rows, factor=1)


@answers.wrong("gflops_of_a_matmul", "divides by total bytes")
def divides_by_bytes(*rows):
    _, _, sizes, times = rows
    right = by_dtype(*rows)
    for dtype, found in right.items():
        if found:
            moved = [(m * k + k * n + m * n) * setup.ITEMSIZES[dtype] for m, n, k in sizes.tolist()]
            found["GFLOP/s"] = max(moved) / max(times.tolist()) * 1e-3
    return right


@answers.wrong("gflops_of_a_matmul", "includes the transfer row")
def includes_transfers(*rows):
    return by_dtype(*rows, keep=("product", "transfer"))


@answers.wrong("gflops_of_a_matmul", "fits through the largest size only")
def largest_only(*rows):
    return by_dtype(*rows, fit=lambda x, y: (max(y) / max(x), 0.0))


@answers.wrong(
    "gflops_of_a_matmul",
    "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
)
def overflows(kinds, dtypes, sizes, times):
    def fit_wrapped(work, values):
        wrapped = torch.tensor(work).to(torch.int32).tolist()  # what int32 sizes multiply to
        return line(wrapped, values) if len(set(wrapped)) > 1 else (0.0, 0.0)

    return by_dtype(kinds, dtypes, sizes, times, fit=fit_wrapped)


@answers.wrong(
    "gflops_of_a_matmul", "returns NaN or an uninitialised buffer where a value is expected"
)
def nan_for_none(*rows):
    empty = lambda: {"GFLOP/s": math.nan, "start-up": math.nan, "limited": []}  # noqa: E731
    return by_dtype(*rows, undecided=empty)


test_answers = answers.tests()


def test_the_device_works_off_its_queue_in_order():
    device = setup.QueueDevice(launch=2.0, work=5.0, start_up=100.0, earlier=30.0, copy=7.0)
    device.launch()
    assert device.now() == 102.0  # the earlier work has long ended
    device.synchronize()
    assert device.now() == 107.0
    device.launch(), device.launch()
    assert device.now() == 111.0
    device.read_back()
    assert device.now() == 107.0 + 2.0 + 5.0 + 5.0 + 7.0


@pytest.mark.parametrize("seed", range(3))
def test_every_cause_is_asked_for(seed):
    exercise = setup.why_not_available
    asked = [exercise.make(seed, n, n * 5 // 300).inputs for n in range(300)]
    causes = [setup._diagnosed(*inputs)[0] for inputs in asked]
    for cause in (*setup.RUNGS, "unknown", "none"):
        assert causes.count(cause) > 8, cause


def test_the_device_that_is_watched_keeps_the_time_of_the_other():
    device, plain = WatchedDevice(), setup.QueueDevice()
    for each in (device, plain):
        each.launch(), each.launch()
    assert device.finished() == 0
    for each in (device, plain):
        each.synchronize()
    assert device.now() == plain.now() and device.finished() == 2
    device.now()
    lanes = device.picture().lanes
    assert lanes == ["host", "device", "clock"]


def test_the_pictures_say_what_is_right():
    seen = {"build": "2.13.0+cpu", "driver": "13.0"}
    ladder = setup.why_not_available.picture(Case((seen,)), ("driver", "x"), ("build", "variable"))
    assert list(ladder.frames[0]["marks"].values()) == ["error"]
    script = {"launch": 5.0, "work": 60.0}
    bars = setup.honest_timer.picture(Case((script, "time")), 5.0, 60.0)
    assert bars.lanes == ["host", "device", "right", "yours"]
