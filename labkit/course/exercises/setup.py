"""Setup: an honest timer, the reason why no GPU is seen, and rates out of measured times."""

from collections.abc import Callable, Iterator
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._matmul_rates import gflops_of_a_matmul
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.course.exercises._queue_device import QueueDevice
from labkit.course.exercises._setup_steps import (
    RUNGS,
    near,
    one_call_picture,
    per_call,
    read_build,
    why_picture,
)

NOTEBOOK = "1_fundamentals/2_setup"


# honest_timer


def _a_script(rng: Rng, size: int) -> tuple[dict[str, float], str]:
    """Durations in microseconds, and what counts; at size 0 only launch and work are not zero."""

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    launch = between(3, 20)
    work = launch * (between(0.2, 3) if rng.chance(0.4) else between(3, 3000))
    steady = max(launch, work)
    return (
        {
            "launch": launch,
            "work": work,
            "start_up": 0.0 if size == 0 else steady * between(300, 30_000),
            "earlier": 0.0 if size < 2 or rng.chance(0.2) else steady * between(100, 10_000),
            "copy": steady * between(30, 3000),
        },
        "all",
    )


def _only_time(**zero: float) -> Callable[[Rng, int], tuple[dict[str, float], str]]:
    """Scripts in which some durations are as given, and what was left out does not count."""

    def case(rng: Rng, size: int) -> tuple[dict[str, float], str]:
        return _a_script(rng, 3)[0] | zero, "time"

    case.__module__ = __name__
    return case


TOLERANCE = 0.01


def _as_script(script: dict[str, float], counts: str) -> str:
    return "a device with " + ", ".join(f"{name} {value:.5g}" for name, value in script.items())


def _drive_timer(answer: Any, script: dict[str, float], counts: str) -> Any:
    device = QueueDevice(**script)
    value = answer(device.launch, device)
    only_time = counts == "time" and isinstance(value, tuple | list) and value
    return value[0] if only_time else value


def _honest(script: dict[str, float], counts: str) -> Any:
    steady = max(script["launch"], script["work"])
    if counts == "time":
        return steady
    first = script["start_up"] + script["launch"] + script["work"]
    return steady, [("earlier work", script["earlier"]), ("first call", first)]


def _per_call(evidence: Evidence) -> float:
    """What the answer took for the time of a call; -1 where it gave none."""
    value = evidence.value
    value = value[0] if isinstance(value, tuple | list) and value else value
    return float(value) if isinstance(value, int | float) else -1.0


def _right_per_call(evidence: Evidence) -> float:
    right = evidence.right
    return float(right[0] if isinstance(right, tuple) else right)


def _right_time(evidence: Evidence) -> bool:
    right = _right_per_call(evidence)
    return abs(_per_call(evidence) - right) <= TOLERANCE * right


def _holds_a_copy(evidence: Evidence) -> bool:
    """Whether one of the two that were left out is too long by the copy of this device."""
    (given, said), right = evidence.inputs, evidence.right
    if said == "time" or not isinstance(evidence.value, tuple) or len(evidence.value) != 2:
        return False
    try:
        pairs = zip(dict(evidence.value[1]).values(), dict(right[1]).values(), strict=True)
        return any(near(mine - theirs, given["copy"]) for mine, theirs in pairs)
    except (TypeError, ValueError):
        return False


def _too_much(evidence: Evidence) -> bool:
    return _per_call(evidence) > _right_per_call(evidence) and not _right_time(evidence)


def _is_launch(evidence: Evidence) -> bool:
    script = evidence.inputs[0]
    return near(_per_call(evidence), script["launch"]) and script["work"] > script["launch"]


honest_timer = Exercise(
    id="setup.honest_timer",
    stages=(
        Stage("waits", case=_only_time(start_up=0.0, earlier=0.0)),
        Stage("warms up", case=_only_time(earlier=0.0)),
        Stage("empties the queue", case=_only_time()),
        Stage("says what it left out"),
    ),
    picture=one_call_picture,
    rules=("wait through the device, not by sleeping; its clock is the only one",),
    case=_a_script,
    expected=_honest,
    drive=_drive_timer,
    show=_as_script,
    tolerance=TOLERANCE,
    cases=60,
    sizes=3,
    minutes=15,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Warm up, drain, start, n calls, drain, stop, divide. One call is launched while another "
        "one runs, so n must be large: more than a hundred.",
        Hint(
            "Your number equals the launch cost in case {number}: the host was asked, not the "
            "device.",
            when=_is_launch,
        ),
        Hint(
            "The time per call is right, but you waited by read_back(): its copy is in what you "
            "left out. synchronize() only waits.",
            when=lambda evidence: _right_time(evidence) and _holds_a_copy(evidence),
        ),
        Hint(
            "The time per call is right, what you left out is not. Read the clock after each of "
            "two waits: for the queue you found, and for the first call, up to an empty queue.",
            when=_right_time,
        ),
        Hint(
            "The first call starts things up: time it by itself, up to an empty queue, and then "
            "start a second clock for the others.",
            when=lambda evidence: evidence.inputs[0]["start_up"] > 0 and _too_much(evidence),
        ),
        Hint(
            "A little too much. Was the queue empty when your clock started, of your own warm-up "
            "too? And what ends the interval should only wait, as synchronize() does.",
            when=_too_much,
        ),
        "Three intervals in all: the wait for the queue you found, the first call up to an empty "
        "queue, and n further calls up to an empty queue.",
    ),
    must_fail=(
        "no synchronisation",
        "synchronises before stop but not before start",
        "includes the first call",
        "takes the minimum of one run",
        "reads back one element to wait (times the copy too)",
        "says nothing of earlier work",
        "does not wait for the first call",
        "sleeps",
        FIRST,
        CONSTANT,
    ),
)


# why_not_available

BUILDS = ("+cpu", "+cpu", "+cu118", "+cu126", "+cu126", "+cu130", "+cu130", "+rocm7.0", "+xpu")
VARIABLES = (None, None, None, "", "0", "1", "0,1", "-1", "-1,0", "0,-1", "3", "7,0")
DRIVERS = (None, "11.4", "11.8", "12.2", "12.6", "12.9", "13.0", "13.0")


def _a_machine(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    machine = {
        "build": "2." + rng.choice(("7.1", "9.0", "13.0")) + rng.choice(BUILDS),
        "variable": rng.choice(VARIABLES),
        "driver": rng.choice(DRIVERS),
        "cards": rng.choice((0, 1, 1, 1, 2, 4)),
    }
    if rng.chance(0.4):  # one cause alone, so that each is met with everything else in order
        machine |= {"build": "2.13.0+cu126", "variable": None, "driver": "12.9", "cards": 2}
        part = rng.choice(RUNGS)
        machine[part] = {
            "build": "2.13.0+cpu",
            "variable": rng.choice(("", "-1", "2", "1", "0,-1")),
            "driver": rng.choice((None, "11.8", "12.0", "13.0")),
            "cards": rng.choice((0, 1)),
        }[part]
    for question in RUNGS:
        if size > 0 and rng.chance(0.15):
            del machine[question]
    order = list(machine)
    rng.shuffle(order)
    return ({name: machine[name] for name in order},)


def _diagnosed(seen: dict[str, Any]) -> tuple[str, str]:
    for place, question in enumerate(RUNGS):
        if question not in seen:
            return "unknown", question
        if _is_to_blame(question, seen):
            later = [name for name in RUNGS[place + 1 :] if name not in seen]
            return question, later[0] if later else "is_available"
    return "none", "is_available"


def _is_to_blame(question: str, seen: dict[str, Any]) -> bool:
    tag = seen["build"].partition("+")[2]
    if question == "build":
        return not tag.startswith("cu")
    if question == "variable":
        if seen["variable"] is None:
            return False
        first = seen["variable"].partition(",")[0]
        outside = first != "" and 0 < seen.get("cards", 0) <= int(first)
        return first in ("", "-1") or outside
    if question == "driver":
        return seen["driver"] is None or int(seen["driver"].partition(".")[0]) < int(tag[2:4])
    return bool(seen["cards"] == 0)


def _all_seen(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    return _a_machine(rng, 0)


def _ends_at(rung: str) -> Callable[[dict[str, Any]], bool]:
    return lambda seen: _diagnosed(seen)[0] == rung


def _fewer_observations(seen: dict[str, Any]) -> Iterator[tuple[dict[str, Any]]]:
    for gone in seen:
        yield ({name: value for name, value in seen.items() if name != gone},)


def _blames(cause: str) -> Callable[[Evidence], bool]:
    """Whether the answer names this cause."""
    return lambda evidence: isinstance(evidence.value, tuple) and evidence.value[:1] == (cause,)


def _cause_is(cause: str) -> Callable[[Evidence], bool]:
    return lambda evidence: isinstance(evidence.right, tuple) and evidence.right[0] == cause


why_not_available = Exercise(
    id="setup.why_not_available",
    stages=(
        *(Stage(rung, case=_all_seen, only=_ends_at(rung)) for rung in RUNGS),
        Stage("not all is known"),
    ),
    picture=why_picture,
    rules=("decide from the dictionary alone: no torch, no labkit",),
    case=_a_machine,
    expected=_diagnosed,
    smaller=_fewer_observations,
    cases=300,
    sizes=4,
    minutes=15,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Order the questions: build, variable, driver, cards. Stop at the first that is to blame, "
        "or was not asked yet.",
        Hint(
            "The cause is right, next is not. It is the first name behind the cause that was not "
            "observed, or is_available; for unknown, the one you came to.",
            when=lambda evidence: _blames(evidence.right[0])(evidence),
        ),
        Hint(
            "In the failing case the build string has a tag that does not start with cu: such a "
            "build holds no CUDA code, however good the driver is.",
            when=_cause_is("build"),
        ),
        Hint(
            "An empty variable hides everything, and so does one whose first entry names no card. "
            "Unset is something else: None.",
            when=_cause_is("variable"),
        ),
        Hint(
            "You blame the variable. Only its first entry decides; and where the number of cards "
            "is not known, or is 0, only -1 and an empty text do.",
            when=_blames("variable"),
        ),
        Hint(
            "A driver serves builds of its own major version and of older ones: 12.2 runs cu126, "
            "11.8 does not.",
            when=lambda evidence: (
                _blames("driver")(evidence) or evidence.inputs[0].get("driver") is not None
            ),
        ),
        Hint(
            "Here nothing that was asked is to blame, and a question is left open: which is the "
            "first?",
            when=_cause_is("unknown"),
        ),
        "One loop over the four names: not in seen -> unknown; to blame -> the cause.",
    ),
    must_fail=(
        "always blames the driver",
        "always says reinstall",
        "takes what was not asked for the cause",
        "ignores the build string",
        "treats an empty visible-devices variable as unset",
        "lets any entry of the variable decide",
        "names what was observed as the next",
        FIRST,
        READS,
        CONSTANT,
    ),
)

EXERCISES = (per_call, honest_timer, read_build, why_not_available, gflops_of_a_matmul)
