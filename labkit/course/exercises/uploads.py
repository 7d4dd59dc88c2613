"""Uploads: what overlap gains at most, how many buffers it needs, and a loader that gets there."""

from fractions import Fraction
from typing import Any

import numpy as np

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._clocked_uploads import run
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "5_optimization/2b_uploads"

# --- best_gain


def _times(rng: Rng, size: int) -> tuple[list[int]]:
    return ([rng.randint(1, 12 * (1 + size)) for _ in range(rng.randint(1, 2 + 2 * size))],)


best_gain = Exercise(
    id="uploads.best_gain",
    case=_times,
    expected=lambda times: sum(times) / max(times),
    rung="warm-up",
    minutes=2,
    cases=60,
    tolerance=1e-6,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("So much would be gained if all of them took equally long.",
             when=lambda e: e.value == len(e.inputs[0])),
        "One after the other a frame takes the sum. How long does it take at best?",
        "At best, frames come at the pace of the slowest.",
    ),
    must_fail=("as many times as there are workers", "divides by the shortest",
               "knows three workers only", "without the slowest", "knows six workers only",
               "knows short times only", FIRST),
)  # fmt: skip

# --- period


def _a_loader(rng: Rng, size: int) -> tuple[float, float, float, int, int]:
    fill, copy, use = (rng.randint(1, 9) / rng.choice((1, 2)) for _ in range(3))
    return fill, copy, use, rng.randint(1, 3), rng.randint(1, 3)


def _period(fill: float, copy: float, use: float, staging: int, buffers: int) -> float:
    """As a float always: 2 and 2.0 are equal, and which one `max` returns is chance."""
    return float(max(fill, copy, use, (fill + copy) / staging, (copy + use) / buffers))


period = Exercise(
    id="uploads.period",
    case=_a_loader,
    expected=lambda *inputs: _period(*inputs),
    rung="warm-up",
    minutes=4,
    cases=120,
    tolerance=1e-6,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("One worker alone needs longer than that for a frame.",
             when=lambda e: e.value < max(e.inputs[:3])),
        Hint("A staging buffer is held while it is filled and while it is copied. How often does "
             "one become free?",
             when=lambda e: e.value < (e.inputs[0] + e.inputs[1]) / e.inputs[3]),
        Hint("A buffer on the device is held while it is copied to and while it is used. How often "
             "does one become free?",
             when=lambda e: e.value < (e.inputs[1] + e.inputs[2]) / e.inputs[4]),
        Hint("Faster is possible: nothing holds a frame up for so long.",
             when=lambda e: e.value > e.right),
        "Five numbers: three workers, two kinds of buffers. The largest is the answer.",
        "Staging buffers let a frame through every (fill + copy) / staging µs.",
    ),
    must_fail=("the slowest worker", "forgets the staging buffers", "forgets the device's buffers",
               "one buffer of each", "adds the two kinds", "whole µs only", FIRST),
)  # fmt: skip

# --- overlap_loader

ENOUGH = 8
"""Frames from which on the time counts."""
SHARE = Fraction(95, 100)


def _a_film(frames: tuple[int, int], counts: tuple[int, int]) -> Any:
    def case(rng: Rng, size: int) -> tuple[int, int, int, int, int, int]:
        number = rng.randint(*frames)
        staging, buffers = (rng.randint(*counts) for _ in range(2))
        return number, staging, buffers, *(rng.randint(1, 9) for _ in range(3))  # type: ignore[return-value]

    return case


def _drive(answer: Any, number: int, *times: int) -> dict[str, Any]:
    frames = [np.array([7 * n + 1]) for n in range(number)]
    gpu, read = run(answer, frames, *times)
    return {
        "frames read": [int(one[0]) // 7 if int(one[0]) else "nothing" for one in read],
        "races": gpu.races()[:1],
        "µs": gpu.microseconds(),
        "spans": gpu.spans(),
    }


def _said(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    if "host" in (one[0], other[0]):
        return "a staging buffer is filled while its copy may still be on its way"
    if one[3]:
        return "a buffer is used while its copy may still be on its way"
    return "a buffer is copied to while it may still be in use"


def _limit(number: int, staging: int, buffers: int, fill: int, copy: int, use: int) -> float:
    pace = _period(fill, copy, use, staging, buffers)
    return float((fill + copy + use + (number - 1) * Fraction(pace)) / SHARE)


def _judge(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "overlap_loader(number, gpu) queues all frames and returns"
    number = case.inputs[0]
    if got["races"]:
        return Wrong(f"nothing races: {_said(*got['races'][0])}")
    if got["frames read"] != list(range(number)):
        return Wrong("the network reads every frame, once, in order", list(range(number)))
    if number >= ENOUGH and got["µs"] > (limit := _limit(*case.inputs)) + 1e-6:
        return Wrong(f"{number} frames take at most {limit:.0f} µs; yours take {got['µs']:.0f}")
    return None


def _told(number: int, staging: int, buffers: int, fill: int, copy: int, use: int) -> str:
    return (
        f"{number} frames, {staging} staging buffers, {buffers} buffers; "
        f"fill {fill} µs, copy {copy} µs, use {use} µs"
    )


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """Who did what when, in the answer's run."""
    from labkit import show  # drawing is for whoever looks

    if not isinstance(got, dict) or not got["spans"]:
        return None
    return show.timeline(got["spans"], unit="us", title="your loader, on the simulated clock")


def _too_slow(evidence: Any) -> bool:
    return "at most" in evidence.property


def _host_waits(evidence: Any) -> bool:
    waits = sum(span["name"] == "waits" for span in evidence.value["spans"])
    return _too_slow(evidence) and waits >= evidence.inputs[0] - 1


overlap_loader = Exercise(
    id="uploads.overlap_loader",
    case=_a_film((ENOUGH, 20), (1, 3)),
    judge=_judge,
    drive=_drive,
    show=_told,
    picture=_drawn,
    minutes=15,
    cases=24,
    processes=True,
    stages=(
        Stage("right frames", case=_a_film((0, ENOUGH - 1), (1, 3)), cases=16),
        Stage("two of each, in time", case=_a_film((12, 20), (2, 2)), cases=12),
        Stage("any number of buffers"),
    ),
    hints=(
        Hint("`gpu.staging` and `gpu.buffers` say how many there are: one, two or three.",
             when=lambda e: e.kind == "raised" and "numbered from 0" in e.got),
        Hint("The host wrote the next frame over one that was still on its way. Before it fills a "
             "staging buffer again, it waits for the event behind that buffer's copy.",
             when=lambda e: "filled while" in e.property),
        Hint("The network may read before its frame has come: `gpu.working` has to wait for an "
             "event behind the copy.", when=lambda e: "used while its copy" in e.property),
        Hint("Some frames later the buffer is written again: is its frame used by then? "
             "`gpu.copying` has to wait for an event behind the use.",
             when=lambda e: "copied to while" in e.property),
        Hint("Frames are missing, come twice, or in another order. Frame n takes staging buffer "
             "n % gpu.staging and buffer n % gpu.buffers.", when=lambda e: "every frame" in
             e.property),
        Hint("Right, and too slow: the host waits for nearly every frame. It has to wait for the "
             "staging buffer that it is about to fill, and for nothing else.", when=_host_waits),
        Hint("Right, and too slow. Are all buffers used in turn? Is each event recorded right "
             "behind the last work on its buffer?", when=_too_slow),
        "An event for each staging buffer (copied), and one for each buffer (used).",
        "copied[s].synchronize(), fill, then gpu.copying waits for used[b], then copy.",
    ),
    must_fail=(
        "one buffer",
        "host waits",
        "drops the last",
        "reuses a buffer under copy",
        "waits on device",
        "reads before the copy has come",
        "copies into a buffer in use",
        "keeps staging until the frame is used",
        "knows two of each only",
        "waits for one event of all staging buffers",
    ),
)  # fmt: skip

EXERCISES = (best_gain, period, overlap_loader)
