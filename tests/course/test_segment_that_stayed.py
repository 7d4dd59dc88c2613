"""Right and wrong answers to the exercises on a segment that stayed; the rules, the recordings."""

import copy
import re

import pytest

from labkit.course.checks import failing_cases
from labkit.course.exercise import Rng
from labkit.course.exercises import _oversize_rules, _stayed_recordings
from labkit.course.exercises.segment_that_stayed import EXERCISES
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.replay import replay
from tests.course.answers import Answers, first_hint

answers = Answers("segment_that_stayed")
MIB = 1 << 20


# --- alone


@answers.right("alone")
def alone(segment):
    live = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
    return live[0] if len(live) == 1 else None


@answers.wrong("alone", "names the first live block of several")
def first_live(segment):
    return next((b for b in segment["blocks"] if b["state"] == "active_allocated"), None)


@answers.wrong("alone", "names the largest block")
def largest_block(segment):
    return max(segment["blocks"], key=lambda block: block["size"]) if alone(segment) else None


@answers.wrong("alone", "names a free block")
def free_block(segment):
    return next(b for b in segment["blocks"] if b["state"] == "inactive")


@answers.wrong("alone", "fails where nothing is live")
def no_default(segment):
    (block,) = (b for b in segment["blocks"] if b["state"] == "active_allocated")
    return block


# --- oversize


def takes(size, block, limit):
    if size >= limit:
        return block < size + 20 * MIB
    return block < limit


def cuts(size, block, limit):
    return size < limit and block - size > MIB


def takes_2020(size, block, limit):
    return True


def cuts_2020(size, block, limit):
    return block - size > MIB


def pair(name, why, rules):
    answers.wrong(name, why)(rules)


answers.right("oversize")((takes, cuts))
pair("oversize", "the rules of 2020", (takes_2020, cuts_2020))
pair("oversize", "cuts oversize blocks for oversize requests", (takes, cuts_2020))
BY_BLOCK = takes, lambda s, b, limit: b < limit and b - s > MIB
pair("oversize", "leaves a new oversize segment uncut", BY_BLOCK)
pair(
    "oversize",
    "lets small requests take oversize blocks whole",
    (lambda s, b, limit: takes(s, b, limit) or s < limit, lambda s, b, limit: b < limit),
)
pair(
    "oversize",
    "lets an oversize request take any larger block",
    (lambda s, b, limit: s >= limit or b < limit, cuts),
)
pair(
    "oversize",
    "calls a request of exactly the limit small",
    (
        lambda s, b, limit: takes(s, b, limit + 1),
        lambda s, b, limit: s <= limit and b - s > MIB,
    ),
)
pair(
    "oversize",
    "cuts off a rest of exactly 1 MiB",
    (takes, lambda s, b, limit: s < limit and b - s >= MIB),
)


# --- autopsy

REMEDIES = ("max_split_size_mb:20", "expandable_segments:True")


def cause_of(snapshot, failed, total):
    segments = snapshot["segments"]
    if sum(s["allocated_size"] for s in segments) + failed["size"] > total:
        return "capacity", None
    for segment in sorted(segments, key=lambda s: s["allocated_size"] - s["total_size"]):
        block, idle = alone(segment), segment["total_size"] > segment["allocated_size"]
        if block and idle and failed["device_free"] + segment["total_size"] >= failed["size"]:
            return "pinned", block["frames"][-1]["line"]
    return "scattered", None


def remedy_of(snapshot, total):
    runs = {name: replay(snapshot, name, device_total=total) for name in REMEDIES}
    helps = [name for name in REMEDIES if not runs[name].ran_out]
    return min(helps, key=lambda name: runs[name].peak_reserved, default="less memory")


@answers.right("autopsy")
def autopsy(snapshot, failed, total):
    return (*cause_of(snapshot, failed, total), remedy_of(snapshot, total))


@answers.wrong("autopsy", "always suggests expandable segments")
def always_growing(snapshot, failed, total):
    return (*cause_of(snapshot, failed, total), REMEDIES[1])


@answers.wrong("autopsy", "suggests less memory in every case")
def always_less(snapshot, failed, total):
    return (*cause_of(snapshot, failed, total), "less memory")


@answers.wrong("autopsy", "names the largest block")
def largest(snapshot, failed, total):
    cause, line, remedy = autopsy(snapshot, failed, total)
    if cause == "pinned":
        live = [b for s in snapshot["segments"] for b in s["blocks"] if b["frames"]]
        line = max(live, key=lambda block: block["size"])["frames"][-1]["line"]
    return cause, line, remedy


@answers.wrong("autopsy", "says pinned wherever one block is alone")
def any_alone(snapshot, failed, total):
    return (
        *cause_of(snapshot, {**failed, "device_free": 2**60}, total),
        remedy_of(snapshot, total),
    )


@answers.wrong("autopsy", "replays on a bigger device")
def bigger(snapshot, failed, total):
    return (*cause_of(snapshot, failed, total), remedy_of(snapshot, 2 * total))


@answers.wrong("autopsy", "drops frees from the recording")
def fewer_requests(snapshot, failed, total):
    changed = copy.deepcopy(snapshot)
    for block in (b for s in changed["segments"] for b in s["blocks"] if b["frames"]):
        changed["device_traces"][0] = [
            e for e in changed["device_traces"][0] if e.get("addr") != block["address"]
        ]
    return (*cause_of(snapshot, failed, total), remedy_of(changed, total))


@answers.wrong("autopsy", "takes the first setting that helps")
def first_helpful(snapshot, failed, total):
    runs = ((name, replay(snapshot, name, device_total=total)) for name in REMEDIES)
    helps = next((name for name, run in runs if not run.ran_out), "less memory")
    return (*cause_of(snapshot, failed, total), helps)


test_answers = answers.tests()


def test_a_new_segment_left_uncut_has_a_hint_of_its_own():
    assert "A new segment is cut" in first_hint(EXERCISES[1], BY_BLOCK)


def test_alone_says_which_block_and_in_mib():
    found = failing_cases(EXERCISES[0], first_live, seed=7)[0]
    assert found.right is None
    assert re.fullmatch(r"block \d, of \d+ MiB", found.value)


# --- what the chapter shows


def test_pytorchs_recordings_are_red_under_the_rules_of_2020_and_green_under_todays():
    red = _oversize_rules.against_recordings(takes_2020, cuts_2020, 8)
    assert red.equal == 0
    assert "recorded" in red.first_difference
    assert _oversize_rules.against_recordings(takes, cuts, 8).passed


def test_without_a_limit_the_new_rules_are_those_of_2020():
    rng = Rng("no limit")
    for _ in range(200):
        size, block, _ = _oversize_rules.drawn_request(rng, 0)
        if block >= size:
            rules = takes(size, block, 2**62), cuts(size, block, 2**62)
            assert rules == (takes_2020(size, block, 0), cuts_2020(size, block, 0))


@pytest.mark.parametrize("kind", _stayed_recordings.KINDS)
def test_the_pinning_block_is_one_whose_end_lets_the_request_in(kind):
    for number in range(12):
        rng = Rng(f"{kind} {number}")
        lines = rng.sample(range(10, 90), 6)
        maker = rng.choice(_stayed_recordings._MAKERS[kind])
        program, total, settings = maker(rng, lines)
        died = _stayed_recordings.record(program, total, settings)
        if died is None or not _stayed_recordings.is_clear(died):
            continue
        cause, line = _stayed_recordings.cause(died)
        helps = [one for one in live(program) if served_without(program, total, settings, one)]
        if cause == "scattered":
            assert set(helps) <= {"weights"}, (program, total)  # which leaves nothing idle
        elif cause == "pinned":
            owners = {name: owner for what, name, _, owner in program if what == "malloc"}
            assert line in [owners[one] for one in helps], (program, total)
        else:
            sizes = {name: size for what, name, size, _ in program if what == "malloc"}
            assert sum(sizes[one] for one in live(program)) + program[-1][2] > total


def live(program):
    freed = {name for kind, name, *_ in program if kind == "free"}
    return [name for kind, name, *_ in program[:-1] if kind == "malloc" and name not in freed]


def served_without(program, total, settings, gone):
    """Whether the last request finds room once this block is freed before it."""
    allocator, names = CachingAllocator(SimulatedDevice(total * MIB), settings), {}
    for kind, name, size, _ in [*program[:-1], ("free", gone, 0, 0), program[-1]]:
        if kind == "free":
            allocator.free(names.pop(name))
            continue
        try:
            names[name] = allocator.malloc(size * MIB)
        except OutOfMemoryError:
            return False
    return True
