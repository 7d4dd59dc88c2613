"""Right and wrong answers to the exercises on a run that died."""

from collections import Counter, defaultdict

import pytest

from labkit.course.checks import failing_cases
from labkit.course.exercise import Case
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from tests.course.answers import Answers, first_hint

answers = Answers("run_that_died")
CONSTANT = "returns the literal answer of the example in the statement"
MIB = 1 << 20

# --- unused


@answers.right("unused")
def unused(snapshot):
    return sum(s["total_size"] - s["allocated_size"] for s in snapshot["segments"])


@answers.wrong("unused", "counts segments that are free as a whole")
def whole_segments(snapshot):
    return sum(s["total_size"] for s in snapshot["segments"] if s["allocated_size"] == 0)


@answers.wrong("unused", "leaves pending blocks out")
def inactive_alone(snapshot):
    return sum(block["size"] for block in free_blocks(snapshot["segments"]))


@answers.wrong("unused", "counts what is allocated")
def allocated(snapshot):
    return sum(s["allocated_size"] for s in snapshot["segments"])


@answers.wrong("unused", "looks at the first segment alone")
def first_segment(snapshot):
    return unused({"segments": snapshot["segments"][:1]})


# --- which_number


def number(
    snapshot, question, free=("inactive",), live=("active_allocated",), whole=True, small=True
):
    segments = [s for s in snapshot["segments"] if small or s["segment_type"] == "large"]
    if question == "rounding":
        return sum(b["size"] - b["requested_size"] for b in free_blocks(segments, live))
    returnable = [s for s in segments if all(b["state"] in free for b in s["blocks"])]
    others = [s for s in segments if s not in returnable]
    asked = segments if not whole else returnable if question == "returnable" else others
    return sum(b["size"] for b in free_blocks(asked, free))


def same_stream(segments):
    return [one for one in segments if one["stream"] == segments[0]["stream"]]


NUMBERS = {
    "reserved minus allocated for everything": lambda snapshot, question: unused(snapshot),
    "adds the free blocks up for both": lambda *asked: number(*asked, whole=False),
    "ignores pools": lambda *asked: number(*asked, small=False),
    "takes a pending block for a free one": lambda *asked: number(
        *asked, free=("inactive", "active_pending_free")
    ),
    "counts the rounding of free blocks": lambda *asked: number(
        *asked, live=("active_allocated", "inactive")
    ),
    "counts the rounding of pending blocks": lambda *asked: number(
        *asked, live=("active_allocated", "active_pending_free")
    ),
    "looks at the stream of the first segment alone": lambda snapshot, question: number(
        {"segments": same_stream(snapshot["segments"])}, question
    ),
    "takes the largest of them for all of them": lambda snapshot, question: max(
        (number({"segments": [one]}, question) for one in snapshot["segments"]), default=0
    ),
    "looks at the first segment alone": lambda snapshot, question: number(
        {"segments": snapshot["segments"][:1]}, question
    ),
}
answers.right("which_number")(number)
for name, wrong in NUMBERS.items():
    answers.wrong("which_number", name)(wrong)


def test_the_three_kinds_of_waste_are_what_the_allocator_counts():
    allocator = CachingAllocator(SimulatedDevice(100 * MIB))
    kept = [allocator.malloc(nbytes) for nbytes in (300_000, 30 * MIB, 25 * MIB)]
    allocator.free(kept.pop())
    stats, snapshot = allocator.memory_stats(), allocator.snapshot()
    rounding = stats["allocated_bytes.all.current"] - stats["requested_bytes.all.current"]
    assert number(snapshot, "rounding") == rounding == 32
    assert number(snapshot, "split") == stats["inactive_split_bytes.all.current"]
    before = allocator.reserved_bytes
    allocator.empty_cache()
    assert number(snapshot, "returnable") == before - allocator.reserved_bytes > 0


# --- longest_free


def free_blocks(segments, states=("inactive",)):
    return [b for s in segments for b in s["blocks"] if b["state"] in states]


def of_stream(snapshot, stream):
    return [s for s in snapshot["segments"] if s["stream"] == stream]


@answers.right("longest_free")
def longest_free(snapshot, stream):
    return max((b["size"] for b in free_blocks(of_stream(snapshot, stream))), default=0)


@answers.wrong("longest_free", "adds the free blocks up")
def sum_of_free(snapshot, stream):
    return sum(b["size"] for b in free_blocks(of_stream(snapshot, stream)))


@answers.wrong("longest_free", "takes every stream's blocks")
def on_any_stream(snapshot, stream):
    return max((b["size"] for b in free_blocks(snapshot["segments"])), default=0)


@answers.wrong("longest_free", "takes a pending block for a free one")
def pending_counts(snapshot, stream):
    found = free_blocks(of_stream(snapshot, stream), ("inactive", "active_pending_free"))
    return max((b["size"] for b in found), default=0)


@answers.wrong("longest_free", "takes the largest segment")
def largest_segment(snapshot, stream):
    return max((s["total_size"] for s in of_stream(snapshot, stream)), default=0)


@answers.wrong("longest_free", "fails where nothing is free")
def no_default(snapshot, stream):
    return max(b["size"] for b in free_blocks(of_stream(snapshot, stream)))


# --- cause_and_cure

GROWING = "expandable_segments:True"


@answers.right("cause_and_cure")
def cause_and_cure(total):
    return halves(total, total // (160 * MIB) * 40 * MIB)


def halves(total, unit):
    """Fills the device with units, and moves a little more than half of one into each."""
    count = total // unit
    program = [("malloc", f"w{i}", unit) for i in range(count)]
    program += [("free", f"w{i}") for i in range(count)]
    program += [("malloc", f"k{i}", unit // 2 + MIB) for i in range(count)]
    return [*program, ("malloc", "last", total - count * unit + unit // 2)], GROWING


@answers.wrong("cause_and_cure", "requests of the same size on every device")
def always_40(total):
    return halves(total, 40 * MIB)


@answers.wrong("cause_and_cure", "forgets that a growing segment grows by 20 MiB")
def four_quarters(total):
    """Fits in segments of their own, and not always in one that grows by 20 MiB."""
    return halves(total, total // (8 * MIB) * 2 * MIB)


@answers.wrong("cause_and_cure", "forgets that a segment is rounded up to 2 MiB")
def odd_sevenths(total):
    """Fits as requests, and not as segments: 7 times 57 MiB in 400 take 58 each."""
    return halves(total, total // (7 * MIB) * MIB)


@answers.wrong("cause_and_cure", "asks for more than is left")
def too_much(total):
    program, cure = cause_and_cure(total)
    return [*program[:-1], ("malloc", "last", total)], cure


@answers.wrong("cause_and_cure", "frees nothing")
def frees_nothing(total):
    program = [one for one in cause_and_cure(total)[0] if one[1][0] == "w"]
    return [*program, ("malloc", "last", total)], GROWING


@answers.wrong("cause_and_cure", "a cure that changes nothing")
def no_cure(total):
    return cause_and_cure(total)[0], "garbage_collection_threshold:0.8"


@answers.wrong("cause_and_cure", "a cure that changes nothing")
def fraction(total):
    return cause_and_cure(total)[0], "per_process_memory_fraction:1.0"


@answers.wrong("cause_and_cure", "keeps too much in use")
def keeps_most(total):
    program, cure = cause_and_cure(total)
    kept = [(*one[:2], one[2] * 3 // 2) if one[1][0] == "k" else one for one in program]
    return [*kept[:-1], ("malloc", "last", program[0][2])], cure


@answers.wrong("cause_and_cure", "pins every page, so that nothing cures it")
def pinned(total):
    count = total // (20 * MIB)
    names = [(f"a{i}", f"p{i}", f"b{i}") for i in range(count)]
    sizes = (8 * MIB, 4 * MIB, 8 * MIB)
    program = [("malloc", n, s) for group in names for n, s in zip(group, sizes, strict=True)]
    program += [("free", n) for a, _, b in names for n in (a, b)]
    return [*program, ("malloc", "last", 40 * MIB)], GROWING


@answers.wrong("cause_and_cure", "the same program for every device")
def one_program(total):
    return cause_and_cure(400 * MIB)


@answers.wrong("cause_and_cure", "an operation per 512 bytes")
def too_long(total):
    program = [("malloc", i, MIB) for i in range(total // MIB)]
    return [*program, *[("free", i) for i in range(0, total // MIB, 2)]] * 4, GROWING


# --- why_oom


def small_or_large(size):
    return "small" if -(-size // 512) * 512 <= MIB else "large"


def runs_of(blocks, idle):
    """The longest stretch of neighbours in these states."""
    longest = now = 0
    for block in blocks:
        now = now + block["size"] if block["state"] in idle else 0
        longest = max(longest, now)
    return longest


def is_default(segment):
    return tuple(segment["segment_pool_id"]) == (0, 0)


IDLE = ("inactive", "active_pending_free")


@answers.right("why_oom")
def why_oom(snapshot, size, stream, free):
    wanted = -(-size // 512) * 512
    segments = snapshot["segments"]
    growing = snapshot["allocator_settings"]["expandable_segments"]
    own = [s for s in segments if is_default(s) and s["segment_type"] == small_or_large(size)]
    for segment in own:
        if segment["stream"] == stream and runs_of(segment["blocks"], IDLE) >= wanted:
            return "pending", "synchronize"
    for segment in own:
        if runs_of(segment["blocks"], IDLE[:1]) >= wanted:
            return "stream", f"stream {segment['stream']}"
    whole = sum(s["total_size"] for s in segments if s["allocated_size"] == 0)
    private = [s for s in segments if not is_default(s) and s["allocated_size"] == 0]
    needed = wanted if growing or wanted < 10 * MIB else -(-wanted // (2 * MIB)) * 2 * MIB
    if private and free + whole >= max(needed, 2 * MIB):
        return "pool", "release_pool"
    idle = free + sum(s["total_size"] - s["allocated_size"] for s in segments if is_default(s))
    if idle < wanted:
        return "capacity", "less memory"
    return "fragmentation", "less memory" if growing else GROWING


@answers.wrong("why_oom", "always fragmentation")
def always_fragmentation(*case):
    return "fragmentation", GROWING


@answers.wrong("why_oom", "always lower the batch")
def always_less(*case):
    return why_oom(*case)[0], "less memory"


@answers.wrong("why_oom", "suggests a flag already on")
def always_the_flag(*case):
    cause, remedy = why_oom(*case)
    return cause, GROWING if cause == "fragmentation" else remedy


@answers.wrong("why_oom", "counts pending blocks as free")
def pending_is_free(snapshot, size, stream, free):
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_pending_free":
                block = {**block, "state": "inactive"}
    cause, remedy = why_oom(snapshot, size, stream, free)
    return ("fragmentation", GROWING) if cause == "pending" else (cause, remedy)


@answers.wrong("why_oom", CONSTANT)
def pending_always(*case):
    return "pending", "synchronize"


# --- find_the_leak


def line_of(frames):
    return next((f["line"] for f in frames if f["filename"] == "train.py"), None)


def alive(entries, line=line_of):
    held = {}
    for entry in entries:
        if entry["action"] == "alloc":
            held[entry["addr"]] = line(entry["frames"])
        elif entry["action"] == "free_completed":
            held.pop(entry["addr"], None)
    return Counter(held.values())


@answers.right("find_the_leak")
def find_the_leak(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = alive(entries[: len(entries) // 2]), alive(entries)
    grown = {line: end[line] - half[line] for line in end}
    line, more = max(grown.items(), key=lambda pair: pair[1])
    return line if more >= 3 and end[line] > 3 else None


def bytes_by_line(snapshot):
    total = defaultdict(int)
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                total[line_of(block["frames"])] += block["size"]
    return total


@answers.wrong("find_the_leak", "names the line with the most live bytes")
def most_bytes(snapshot):
    total = bytes_by_line(snapshot)
    return max(total, key=total.get)


@answers.wrong("find_the_leak", "names the line with the most allocations")
def most_allocations(snapshot):
    entries = snapshot["device_traces"][0]
    lines = Counter(line_of(e["frames"]) for e in entries if e["action"] == "alloc")
    return lines.most_common(1)[0][0]


@answers.wrong("find_the_leak", "names the library's frame")
def innermost(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = (alive(e, lambda f: f[0]["line"]) for e in (entries[: len(entries) // 2], entries))
    grown = {line: end[line] - half[line] for line in end}
    line, more = max(grown.items(), key=lambda pair: pair[1])
    return line if more >= 3 else None


answers.wrong("find_the_leak", "never finds one")(lambda snapshot: None)


@answers.wrong("find_the_leak", "flags the optimizer state")
def grows_at_all(snapshot):
    entries = snapshot["device_traces"][0]
    early, end = alive(entries[: len(entries) // 20]), alive(entries)
    line, more = max(((n, end[n] - early[n]) for n in end), key=lambda pair: pair[1])
    return line if more >= 3 else None


@answers.wrong("find_the_leak", "flags a cache that still fills")
def any_growth(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = alive(entries[: len(entries) // 2]), alive(entries)
    line, more = max(((n, end[n] - half[n]) for n in end), key=lambda pair: pair[1])
    return line if more >= 1 else None


@answers.wrong("find_the_leak", "never says None")
def never_none(snapshot):
    entries = snapshot["device_traces"][0]
    half, end = alive(entries[: len(entries) // 2]), alive(entries)
    return max(end, key=lambda line: end[line] - half[line])


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (frees_nothing, "A request of 40 MiB has a segment of its own"),
        (keeps_most, "a little more than half is enough"),
        (too_much, "The last request is too large"),
        (no_cure, "Now the settings"),
        (pinned, "does a live block lie in each of them"),
        (always_40, "Let their size grow"),
        (four_quarters, "grows by 20 MiB at a time"),
        (odd_sevenths, "Add up the segments, not the requests"),
    ],
)
def test_a_program_and_its_cure_have_their_own_hints(answer, said):
    assert said in first_hint(answers.exercises["cause_and_cure"], answer)


def test_empty_settings_are_called_the_answers_own():
    exercise = answers.exercises["cause_and_cure"]
    first = failing_cases(exercise, lambda total: (cause_and_cure(total)[0], ""), 11)[0]
    asked = "under your settings '' every request is served"
    assert first.property == f"{asked}; the last one was not"


def test_the_map_is_that_of_the_run_which_is_at_fault():
    case, exercise = Case((190 * MIB,)), answers.exercises["cause_and_cure"]
    titles = [
        exercise.picture(case, answer(190 * MIB), None).meta["title"]
        for answer in (odd_sevenths, four_quarters)
    ]
    assert titles == ["your program, default settings", f"your program, {GROWING}"]


def test_a_line_that_is_often_asked_is_not_called_the_one_with_the_most_bytes():
    hint = first_hint(answers.exercises["find_the_leak"], most_allocations)
    assert hint.startswith("That line does not keep more in every step")


def test_a_line_of_a_library_is_named_as_one():
    def on_top(snapshot):
        frames = (event.get("frames", ()) for event in snapshot["device_traces"][0])
        lines = [f["line"] for own in frames for f in own if not f["filename"].endswith("train.py")]
        return lines[0] if lines else None

    exercise = answers.exercises["find_the_leak"]
    assert first_hint(exercise, on_top).startswith("That is a line of a library")
    assert first_hint(exercise, innermost).startswith("There is a leak")
