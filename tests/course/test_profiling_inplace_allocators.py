import ctypes
from collections import Counter

import pytest

from labkit.course.exercise import Rng
from labkit.course.exercises import find
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers, first_hint, reads_frames

answers = Answers("profiling_inplace_allocators")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CATCHES = "catches every exception and returns a default"
DEFAULT = "is right on the default stream or device and wrong on another one"

# --- grown, lowest


@answers.right("grown")
def grown_lines(before, after):
    return {line for line in after if after[line] > before.get(line, 0)}


@answers.right("grown")
def by_subtraction(before, after):
    return set(Counter(after) - Counter(before))


@answers.wrong("grown", "leaves out lines that are new")
def known_lines(before, after):
    return {line for line in before if after.get(line, 0) > before[line]}


@answers.wrong("grown", "names those that stayed as they were")
def not_smaller(before, after):
    return {line for line in after if after[line] >= before.get(line, 0)}


@answers.wrong("grown", "names the one that grew most")
def most(before, after):
    found = Counter(after) - Counter(before)
    return {line for line, _ in found.most_common(1)}


@answers.wrong("grown", "names all that are there")
def all_lines(before, after):
    return set(after)


@answers.right("lowest")
def lowest_values(seen, *, lines=None, of=min):
    lines = lines or {line for one in seen for line in one}
    return {line: of(one.get(line, 0) for one in seen) for line in lines}


@answers.wrong("lowest", "knows the lines of the first moment alone")
def first_moment(seen):
    return {line: min(one.get(line, 0) for one in seen) for line in seen[0]}


@answers.wrong("lowest", "leaves out moments where a line is missing")
def where_present(seen):
    return {line: min(one[line] for one in seen if line in one) for line in lowest_values(seen)}


@answers.wrong("lowest", "takes the last moment")
def last_moment(seen):
    return {line: seen[-1].get(line, 0) for line in lowest_values(seen)}


@answers.wrong("lowest", "takes the highest value")
def highest(seen):
    return lowest_values(seen, of=max)


# --- leak_detective


def active(snapshot):
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield block


def census(snapshot, *, of=lambda block: block["size"]):
    found = {}
    for block in active(snapshot):
        stack = tuple((frame["filename"], frame["line"]) for frame in block["frames"])
        found[stack] = found.get(stack, 0) + of(block)
    return found


def lowest(step, snapshot, steps=12, of=lambda block: block["size"]):
    seen = []
    for _ in range(steps):
        step()
        seen.append(census(snapshot(), of=of))
    stacks = {stack for one in seen for stack in one}
    return {stack: min(one.get(stack, 0) for one in seen) for stack in stacks}


def grown(before, after):
    return {stack for stack, size in after.items() if size > before.get(stack, 0)}


@answers.right("leak_detective")
def find_leak(step, snapshot):
    for _ in range(12):
        step()
    return grown(lowest(step, snapshot), lowest(step, snapshot))


@answers.wrong("leak_detective", "reports the largest allocation")
def the_largest(step, snapshot):
    for _ in range(30):
        step()
    found = census(snapshot())
    return {max(found, key=found.get)}


@answers.wrong("leak_detective", "compares first and last step only")
def first_and_last(step, snapshot):
    step()
    before = census(snapshot())
    for _ in range(40):
        step()
    return grown(before, census(snapshot()))


@answers.wrong("leak_detective", "counts Python objects not bytes")
def counts_blocks(step, snapshot):
    for _ in range(12):
        step()
    return grown(*[lowest(step, snapshot, of=lambda block: 1) for _ in range(2)])


@answers.wrong("leak_detective", "flags the bounded cache")
def two_moments(step, snapshot):
    for _ in range(20):
        step()
    before = census(snapshot())
    for _ in range(15):
        step()
    return grown(before, census(snapshot()))


@answers.wrong("leak_detective", "flags the bounded cache")
def too_early(step, snapshot):
    return grown(lowest(step, snapshot, 6), lowest(step, snapshot, 6))


@answers.wrong("leak_detective", "looks at stretches shorter than a round")
def stretches_of_five(step, snapshot):
    for _ in range(12):
        step()
    return grown(lowest(step, snapshot, 5), lowest(step, snapshot, 5))


@answers.wrong("leak_detective", "looks at stretches shorter than a round")
def late_stretches_of_five(step, snapshot):
    for _ in range(29):
        step()
    return grown(lowest(step, snapshot, 5), lowest(step, snapshot, 5))


@answers.wrong("leak_detective", "keeps tensors alive itself")
def keeps_the_losses(step, snapshot):
    losses = [step() for _ in range(12)]
    before = census(snapshot())
    losses += [step() for _ in range(12)]
    return grown(before, census(snapshot()))


@answers.wrong("leak_detective", "names no whole stack")
def innermost_frames(step, snapshot):
    return {stack[:1] for stack in find_leak(step, snapshot)}


@answers.wrong("leak_detective", "names no whole stack")
def lines_as_text(step, snapshot):
    return {f"{stack[0][0]}:{stack[0][1]}" for stack in find_leak(step, snapshot)}


@answers.wrong("leak_detective", "names what is free")
def counts_what_is_free(step, snapshot):
    def stacks():
        segments = snapshot()["segments"]
        blocks = [block for segment in segments for block in segment["blocks"]]
        return {tuple((f["filename"], f["line"]) for f in block["frames"]) for block in blocks}

    return find_leak(step, snapshot) | {stack for stack in stacks() if not stack}


@answers.wrong("leak_detective", "makes more steps than there are")
def many_steps(step, snapshot):
    return grown(lowest(step, snapshot, 120), lowest(step, snapshot, 120))


def names_the_loss(step, snapshot):
    for _ in range(12):
        _loss = step()
    return find_leak(step, snapshot)


held = []


@answers.wrong("leak_detective", "keeps tensors alive itself")
def holds_one_in_a_global(step, snapshot):
    right = find_leak(step, snapshot)
    held[:] = [step()]
    return right


@answers.wrong("leak_detective", FIRST, make=True)
def remembers_the_first():
    kept = []

    def answer(step, snapshot):
        kept.append(find_leak(step, snapshot))
        return kept[0]

    return answer


@answers.wrong("leak_detective", READS)
def looks_into_frames(step, snapshot):
    return reads_frames()


@answers.wrong("leak_detective", READS)
def asks_the_program(step, snapshot):
    """What the program can be asked for is the answer of no moment."""
    return set(step.__self__.bytes_by_stack())


@answers.wrong("leak_detective", TOO_SLOW)
def quadratic(step, snapshot):
    def slow_census():
        found = {}
        blocks = list(active(snapshot()))
        for one in blocks:
            stack = tuple((frame["filename"], frame["line"]) for frame in one["frames"])
            same = [b for b in blocks if [f["line"] for f in b["frames"]] == [n for _, n in stack]]
            found[stack] = sum(b["size"] for b in same)
        return found

    for _ in range(12):
        step()
    low = []
    for _ in range(2):
        seen = []
        for _ in range(12):
            step()
            seen.append(slow_census())
        stacks = {stack for one in seen for stack in one}
        low.append({stack: min(one.get(stack, 0) for one in seen) for stack in stacks})
    return grown(*low)


@answers.wrong("leak_detective", TOO_SLOW)
def waits_for_ever(step, snapshot):
    while not (found := find_leak(step, snapshot)):
        pass
    return found


def test_a_stage_asks_what_it_says():
    exercise = find("profiling_inplace_allocators.leak_detective")
    texts = {
        stage.name: [stage.case(Rng(number), 3)[0] for number in range(12)]
        for stage in exercise.stages[:-1]
    }
    assert all("step % 1] =" in text and "step < 0" in text for text in texts["growing"])
    assert all("step % 1 == 0" in text for text in texts["full after a while"])
    assert len({len(exercise.expected(text)["growing"]) for text in texts["growing"]}) == 2
    assert all(len(exercise.expected(text)["growing"]) > 1 for text in texts["several"])


def test_the_picture_marks_the_lines_that_were_named_wrongly_or_left_out():
    exercise = find("profiling_inplace_allocators.leak_detective")
    cases = (exercise.make(3, number, 1) for number in range(40))
    case = next(case for case in cases if "kept.append(new" in case.inputs[0])
    right = exercise.expected(*case.inputs)
    lines = case.inputs[0].splitlines()
    named = {(("train.py", lines.index("def load(step):") + 2), ("train.py", 1))}
    picture = exercise.picture(case, {"growing": named}, right)
    shown = {stop["text"]: lines[stop["lines"][0] - 1] for stop in picture.stations}
    assert "new(" in shown["you name this line, and it does not grow"]
    assert "kept.append" in shown["this line grows, and you do not name it"]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("grown", most, "others have, too"),
        ("grown", known_lines, "was not there before"),
        ("lowest", first_moment, "is missing in your answer"),
        ("leak_detective", keeps_the_losses, "you held the losses"),
        ("leak_detective", first_and_last, "stops growing"),
        ("leak_detective", stretches_of_five, "a shorter stretch may miss"),
        ("leak_detective", innermost_frames, "not the first alone"),
        ("leak_detective", lines_as_text, "no text"),
        ("leak_detective", counts_what_is_free, "blocks that are free"),
        ("leak_detective", many_steps, "more steps than there are"),
        ("leak_detective", names_the_loss, "Give it no name"),
    ],
)
def test_the_first_hint_fits_the_wrong_answer(name, answer, words):
    assert words in first_hint(find(f"profiling_inplace_allocators.{name}"), answer)


def test_every_mechanism_is_there_and_only_two_are_clean():
    exercise = find("profiling_inplace_allocators.leak_detective")
    kinds = Counter()
    for number in range(80):
        (text,) = exercise.make(3, number, 3).inputs
        growing = exercise.expected(text)["growing"]
        kinds[len(growing)] += 1
        for word in ("hooks.append", "kept.append(new", "kept.append(error", "kept.append(loss"):
            kinds[word] += word in text
            assert growing or word not in text
    assert kinds[0] > 8
    assert kinds[1] > 20
    assert sum(n for k, n in kinds.items() if isinstance(k, int) and k > 1) > 8
    assert all(n > 3 for k, n in kinds.items() if isinstance(k, str))


# --- counting_allocator


class CountingAllocator:
    rounds, spare, ignores_stream, ignores_device, raises, twice = 1, 63, False, False, False, False

    def __init__(self, limit):
        self.limit, self.live_bytes, self.log, self.buffers = limit, 0, [], {}

    def note(self, what, size, device, stream):
        size = -(-size // self.rounds) * self.rounds
        device, stream = self.ignores_device or device, self.ignores_stream or stream
        self.log.append((what, size, int(device), int(stream)))

    def alloc(self, size, device, stream):
        if self.live_bytes + size > self.limit:
            self.note("refused", size, device, stream)
            if self.raises:
                raise MemoryError(size)
            return 0
        buffer = ctypes.create_string_buffer(size + 64 + self.spare)
        start = ctypes.addressof(buffer)
        address = -(-start // 64) * 64 if self.spare == 63 else start | 8
        self.buffers[address] = buffer
        self.live_bytes += size
        self.note("alloc", size, device, stream)
        return address

    def free(self, address, size, device, stream):
        del self.buffers[address]
        self.live_bytes -= size * (1 + self.twice)
        self.note("free", size, device, stream)


answers.right("counting_allocator")(CountingAllocator)
for why, changes in [
    ("rounds sizes in the log", {"rounds": 512}),
    ("ignores the stream", {"ignores_stream": "0"}),
    ("returns unaligned memory", {"spare": 64}),
    ("limit raises MemoryError from Python inside the callback", {"raises": True}),
    ("frees twice", {"twice": True}),
    (DEFAULT, {"ignores_device": "0"}),
]:
    answers.wrong("counting_allocator", why)(type("Changed", (CountingAllocator,), changes))


@answers.wrong("counting_allocator", "frees twice")
class FreesTwice(CountingAllocator):
    def free(self, *request):
        super().free(*request)
        super().free(*request)


@answers.wrong("counting_allocator", "frees twice")
class HandsOutTwice(CountingAllocator):
    """Keeps one block for all requests of a size."""

    def alloc(self, size, device, stream):
        address = super().alloc(size, device, stream)
        if address:
            self.buffers[address] = self.buffers.pop(address)
            self.last = getattr(self, "last", None) or (size, address)
            if self.last[0] >= size:
                address = self.last[1]
        return address

    def free(self, address, size, device, stream):
        self.live_bytes -= size
        self.note("free", size, device, stream)


@answers.wrong("counting_allocator", "ignores the stream")
class OneStreamServes(CountingAllocator):
    def alloc(self, size, device, stream):
        return super().alloc(size, device, stream) if stream == 0 else 0


@answers.wrong("counting_allocator", LITERAL)
class TheExample(CountingAllocator):
    def note(self, *request):
        self.log = [("alloc", 100, 0, 0), ("free", 100, 0, 0)]


@answers.wrong("counting_allocator", CATCHES)
class CatchesAll(CountingAllocator):
    """Serves what it must refuse with whatever is at hand."""

    def alloc(self, size, device, stream):
        try:
            if self.live_bytes + size > self.limit:
                raise MemoryError(size)
            return super().alloc(size, device, stream)
        except Exception:
            return next(iter(self.buffers), 0)


@answers.wrong("counting_allocator", CATCHES)
class RefusesSilently(CountingAllocator):
    def alloc(self, size, device, stream):
        try:
            assert self.live_bytes + size <= self.limit
            return super().alloc(size, device, stream)
        except AssertionError:
            return 0


def test_the_default_allocator_is_back_after_a_check():
    from labkit.core.allocator import get_allocator

    exercise = find("profiling_inplace_allocators.counting_allocator")
    before = get_allocator("cpu")
    with pytest.raises(AttributeError):
        exercise.drive(lambda limit: object(), *exercise.make(1, 0, 2).inputs)
    assert get_allocator("cpu") is before


test_answers = answers.tests()
