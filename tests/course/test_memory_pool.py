"""Right and wrong answers to the exercises of the memory pool."""

import threading

import pytest

from labkit.course.checks import outcomes, picture_of
from labkit.course.exercise import Case, Rng
from labkit.course.exercises import _pool_traces
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers

answers = Answers("memory_pool")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CATCHES = "catches every exception and returns a default"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
MIB = 1 << 20

# --- retire, idle_segments


@answers.right("retire")
def retire(pending, done):
    free = [a for a, events in pending if all(event in done for event in events)]
    return free, [(a, events) for a, events in pending if a not in free]


def retiring(is_free):
    def answer(pending, done):
        free = [a for a, events in pending if is_free(events, done)]
        return free, [(a, events) for a, events in pending if a not in free]

    return answer


for why, rule in [
    ("takes one event for all of them", lambda e, done: not e or any(x in done for x in e)),
    ("asks the last event only", lambda e, done: not e or e[-1] in done),
    ("keeps a block without events", lambda e, done: bool(e) and done.issuperset(e)),
]:
    answers.wrong("retire", why)(retiring(rule))


@answers.wrong("retire", "stops at the first that still waits")
def in_order(pending, done):
    free = []
    for address, events in pending:
        if not done.issuperset(events):
            break
        free.append(address)
    return free, pending[len(free) :]


@answers.wrong("retire", "drops what still waits")
def forgets_the_rest(pending, done):
    return retire(pending, done)[0], []


@answers.wrong("retire", "keeps addresses for pairs")
def keeps_addresses(pending, done):
    free, waiting = retire(pending, done)
    return free, [address for address, _ in waiting]


@answers.right("idle_segments")
def idle_segments(segments):
    return [blocks[0][0] for blocks in segments if all(free for _, _, free in blocks)]


for why, rule in [
    ("looks at the first block only", lambda blocks: blocks[0][2]),
    ("one free block is enough for it", lambda blocks: any(free for _, _, free in blocks)),
    ("wants a single block", lambda blocks: len(blocks) == 1 and blocks[0][2]),
]:
    answers.wrong("idle_segments", why)(
        lambda segments, rule=rule: [blocks[0][0] for blocks in segments if rule(blocks)]
    )


@answers.wrong("idle_segments", "returns every free block")
def every_free_block(segments):
    return [address for blocks in segments for address, _, free in blocks if free]


# --- record_the_stream


def steps_of(lab, image):
    source = lab.malloc(len(image), lab.main)
    lab.upload(source, image, lab.main)
    lab.wait_stream(lab.side, lab.main)
    result = lab.malloc(len(image), lab.side)
    lab.copy(result, source, len(image), lab.side)
    return source, result


@answers.right("record_the_stream")
def pipeline(lab, images):
    results = []
    for image in images:
        source, result = steps_of(lab, image)
        lab.record_stream(source, lab.side)
        lab.free(source)
        results.append(result)
    return results


@answers.right("record_the_stream")
def records_first(lab, images):
    results = [lab.malloc(len(image), lab.side) for image in images]
    for image, result in zip(images, results, strict=True):
        source = lab.malloc(len(image), lab.main)
        lab.record_stream(source, lab.side)
        lab.upload(source, image, lab.main)
        lab.wait_stream(lab.side, lab.main)
        lab.copy(result, source, len(image), lab.side)
        lab.free(source)
    return results


def varied(before_free=lambda lab, source, result: None, after_free=lambda lab, source: None):
    def answer(lab, images):
        results = []
        for image in images:
            source, result = steps_of(lab, image)
            before_free(lab, source, result)
            lab.free(source)
            after_free(lab, source)
            results.append(result)
        return results

    return answer


for why, answer in [
    ("no record_stream", varied()),
    ("records the block's own stream", varied(lambda lab, s, r: lab.record_stream(s, lab.main))),
    ("records after the free", varied(after_free=lambda lab, s: lab.record_stream(s, lab.side))),
    ("synchronises the host", varied(lambda lab, s, r: lab.synchronize())),
    ("makes the main stream wait", varied(lambda lab, s, r: lab.wait_stream(lab.main, lab.side))),
    (
        "records the result instead of the source",
        varied(lambda lab, s, r: (lab.record_stream(r, lab.side), lab.record_stream(r, lab.main))),
    ),
]:
    answers.wrong("record_the_stream", why)(answer)


@answers.wrong("record_the_stream", "frees everything at the end")
def frees_late(lab, images):
    pairs = [steps_of(lab, image) for image in images]
    for source, _ in pairs:
        lab.record_stream(source, lab.side)
        lab.free(source)
    return [result for _, result in pairs]


@answers.wrong("record_the_stream", "frees everything at the end")
def never_frees(lab, images):
    return [steps_of(lab, image)[1] for image in images]


@answers.wrong("record_the_stream", "the side stream does not wait for the upload")
def unordered(lab, images):
    results = []
    for image in images:
        source = lab.malloc(len(image), lab.main)
        lab.upload(source, image, lab.main)
        results.append(lab.malloc(len(image), lab.side))
        lab.copy(results[-1], source, len(image), lab.side)
        lab.record_stream(source, lab.side)
        lab.free(source)
    return results


@answers.wrong("record_the_stream", FIRST, make=True)
def remembers_addresses():
    kept = []

    def first(lab, images):
        kept.append(pipeline(lab, images))
        return kept[0]

    return first


# --- repair_the_pool


@answers.right("repair_the_pool")
class Pool:
    """Segments per stream, each a list of [address, size, is free]."""

    def __init__(self, driver):
        self.driver = driver
        self.segments = []
        self.pending = []

    def allocate(self, size, stream):
        self.retire()
        size = -(-size // 512) * 512
        found = self.find(size, stream)
        if found is None:
            found = self.grow(size, stream)
        blocks, at = found
        address, whole, _ = blocks[at]
        blocks[at] = [address, size, False]
        if whole > size:
            blocks.insert(at + 1, [address + size, whole - size, True])
        return address

    def find(self, size, stream):
        best = None
        for owner, blocks in self.segments:
            for at, (_, room, free) in enumerate(blocks):
                if owner == stream and free and room >= size and (best is None or room < best[0]):
                    best = room, blocks, at
        return best and best[1:]

    def grow(self, size, stream):
        wanted = -(-size // (2 * MIB)) * 2 * MIB
        address = self.driver.malloc(wanted)
        if address is None:
            self.wait()
            self.clear()
            if found := self.find(size, stream):
                return found
            address = self.driver.malloc(wanted) or self.driver.malloc(size)
        if address is None:
            raise MemoryError(f"{size} bytes wanted")
        blocks = [[address, wanted, True]]
        self.segments.append((stream, blocks))
        return blocks, 0

    def free(self, address, used_on=()):
        events = [self.driver.record_event(stream) for stream in used_on]
        if events:
            self.pending.append((address, events))
        else:
            self.merge(address)

    def retire(self):
        still = []
        for address, events in self.pending:
            events = [event for event in events if not self.driver.query_event(event)]
            if events:
                still.append((address, events))
            else:
                self.merge(address)
        self.pending = still

    def wait(self):
        for address, events in self.pending:
            for event in events:
                self.driver.synchronize_event(event)
            self.merge(address)
        self.pending = []

    def merge(self, address):
        for _, blocks in self.segments:
            for at, block in enumerate(blocks):
                if block[0] == address:
                    block[2] = True
                    for left in (at, at - 1):
                        if 0 <= left < len(blocks) - 1 and blocks[left][2] and blocks[left + 1][2]:
                            blocks[left][1] += blocks.pop(left + 1)[1]
                    return

    def clear(self):
        self.retire()
        for segment in list(self.segments):
            if len(segment[1]) == 1 and segment[1][0][2]:
                self.driver.free(segment[1][0][0])
                self.segments.remove(segment)


@answers.wrong("repair_the_pool", "exact-size keys")
class ExactSizes:
    def __init__(self, driver):
        self.driver, self.idle, self.sizes = driver, {}, {}

    def allocate(self, size, stream):
        if self.idle.get((size, stream)):
            return self.idle[size, stream].pop()
        address = self.driver.malloc(size)
        if address is None:
            self.clear()
            address = self.driver.malloc(size)
        if address is None:
            raise MemoryError(size)
        self.sizes[address] = size, stream
        return address

    def free(self, address, used_on=()):
        for stream in used_on:
            self.driver.synchronize_event(self.driver.record_event(stream))
        self.idle.setdefault(self.sizes[address], []).append(address)

    def clear(self):
        for addresses in self.idle.values():
            for address in addresses:
                self.driver.free(address)
        self.idle = {}


class Exact(Pool):
    """Reuse by exact size alone, otherwise right."""

    def find(self, size, stream):
        for owner, blocks in self.segments:
            if owner == stream and blocks[0][2] and blocks[0][1] == size:
                return blocks, 0
        return None

    def grow(self, size, stream):
        address = self.driver.malloc(size)
        if address is None:
            self.wait()
            self.clear()
            address = self.driver.malloc(size)
        if address is None:
            raise MemoryError(size)
        self.segments.append((stream, [[address, size, True]]))
        return self.segments[-1][1], 0


answers.wrong("repair_the_pool", "exact-size keys")(Exact)


@answers.wrong("repair_the_pool", "waits for the device at every free")
class Waits(Pool):
    def free(self, address, used_on=()):
        for stream in used_on:
            self.driver.synchronize_event(self.driver.record_event(stream))
        self.merge(address)


@answers.wrong("repair_the_pool", "ignores streams")
class OneStream(Pool):
    def allocate(self, size, stream):
        return super().allocate(size, 0)


@answers.wrong("repair_the_pool", "ignores streams")
class NoEvents(Pool):
    def free(self, address, used_on=()):
        self.merge(address)


@answers.wrong("repair_the_pool", "never returns memory on failure")
class Keeps(Pool):
    def grow(self, size, stream):
        address = self.driver.malloc(-(-size // (2 * MIB)) * 2 * MIB)
        if address is None:
            raise MemoryError(size)
        self.segments.append((stream, [[address, -(-size // (2 * MIB)) * 2 * MIB, True]]))
        return self.segments[-1][1], 0


@answers.wrong("repair_the_pool", "does not wait for what is pending on a full device")
class DoesNotWait(Pool):
    def wait(self):
        pass


@answers.wrong("repair_the_pool", "merges what is pending on a full device without a wait")
class MergesAtOnce(Pool):
    def wait(self):
        for address, _ in self.pending:
            self.merge(address)
        self.pending = []


@answers.wrong("repair_the_pool", "asks again on a full device, and does not search")
class AsksOnly(Pool):
    cleared = False

    def find(self, size, stream):
        return None if self.cleared else super().find(size, stream)

    def grow(self, size, stream):
        self.cleared = True
        try:
            return super().grow(size, stream)
        finally:
            self.cleared = False


@answers.wrong("repair_the_pool", "clear frees live blocks")
class ClearsAll(Pool):
    def clear(self):
        for _, blocks in self.segments:
            self.driver.free(blocks[0][0])
        self.segments = []


@answers.wrong("repair_the_pool", "clear gives a segment back and keeps it")
class GivesBackTwice(Pool):
    def clear(self):
        self.retire()
        for _, blocks in self.segments:
            if len(blocks) == 1 and blocks[0][2]:
                self.driver.free(blocks[0][0])


@answers.wrong("repair_the_pool", "loses the remainder of a split")
class LosesTheRest(Pool):
    def allocate(self, size, stream):
        address = super().allocate(size, stream)
        for _, blocks in self.segments:
            for at, block in enumerate(blocks):
                if block[0] == address and at + 1 < len(blocks) and blocks[at + 1][2]:
                    block[1] = size
                    blocks[at + 1][2] = None
        return address


@answers.wrong("repair_the_pool", "asks the events in free only")
class AsksInFree(Pool):
    def allocate(self, size, stream):
        self.retire = lambda: None
        try:
            return super().allocate(size, stream)
        finally:
            del self.retire

    def free(self, address, used_on=()):
        super().free(address, used_on)
        self.retire()


@answers.wrong("repair_the_pool", ORDERS)
class TrustsTheQueue(Pool):
    """Takes the first event for all of them."""

    def retire(self):
        still = []
        for address, events in self.pending:
            if any(self.driver.query_event(event) for event in events):
                self.merge(address)
            else:
                still.append((address, events))
        self.pending = still


@answers.wrong("repair_the_pool", FIRST, make=True)
def remembers_the_first_address():
    kept = []

    class Remembers(Pool):
        def allocate(self, size, stream):
            kept.append(super().allocate(size, stream))
            return kept[0]

    return Remembers


# --- clear_while_busy


@answers.right("clear_while_busy")
class SafePool:
    def __init__(self, driver):
        self.driver, self.lock = driver, threading.Lock()
        self.sizes, self.idle, self.pending, self.closed = {}, {}, [], False

    def allocate(self, size):
        with self.lock:
            if self.closed:
                raise RuntimeError("closed")
            self.collect()
            if self.idle.get(size):
                return self.idle[size].pop()
        address = self.driver.malloc(size)
        if address is None:
            self.wait()
            self.clear()
            address = self.driver.malloc(size)
        if address is None:
            raise MemoryError(size)
        with self.lock:
            self.sizes[address] = size
        return address

    def collect(self):
        still = []
        for address, events in self.pending:
            if all(self.driver.query_event(event) for event in events):
                self.idle.setdefault(self.sizes[address], []).append(address)
            else:
                still.append((address, events))
        self.pending = still

    def free(self, address, streams=()):
        events = [self.driver.record_event(stream) for stream in streams]
        with self.lock:
            if not self.closed:
                self.pending.append((address, events))
                return
        for event in events:
            self.driver.synchronize_event(event)
        self.driver.free(address)

    def wait(self):
        with self.lock:
            waiting = list(self.pending)
        for _, events in waiting:
            for event in events:
                self.driver.synchronize_event(event)

    def clear(self):
        with self.lock:
            self.collect()
            for addresses in self.idle.values():
                for address in addresses:
                    self.driver.free(address)
            self.idle = {}

    def close(self):
        with self.lock:
            self.closed = True
        self.wait()
        self.clear()


class NoLock:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@answers.wrong("clear_while_busy", "no lock")
class Unlocked(SafePool):
    def __init__(self, driver):
        super().__init__(driver)
        self.lock = NoLock()

    def clear(self):
        self.collect()
        for addresses in list(self.idle.values()):
            for address in list(addresses):
                self.driver.free(address)
        self.idle = {}


@answers.wrong("clear_while_busy", "no lock")
class ClearUnlocked(SafePool):
    def clear(self):
        with self.lock:
            self.collect()
        for addresses in list(self.idle.values()):
            while addresses:
                self.driver.free(addresses[-1])
                addresses.pop()


@answers.wrong("clear_while_busy", "holds the lock during device waits")
class WaitsInside(SafePool):
    def wait(self):
        with self.lock:
            for _, events in self.pending:
                for event in events:
                    self.driver.synchronize_event(event)


@answers.wrong("clear_while_busy", "hides what it waits for")
class TakesOut(SafePool):
    def wait(self):
        with self.lock:
            taken, self.pending = self.pending, []
        for _, events in taken:
            for event in events:
                self.driver.synchronize_event(event)
        with self.lock:
            self.pending += taken


@answers.wrong("clear_while_busy", "frees pending blocks")
class FreesPending(SafePool):
    def clear(self):
        with self.lock:
            gone = [address for addresses in self.idle.values() for address in addresses]
            gone += [address for address, _ in self.pending]
            self.idle, self.pending = {}, []
        for address in gone:
            self.driver.free(address)


@answers.wrong("clear_while_busy", "forgets chunks handed out")
class Forgets(SafePool):
    def free(self, address, streams=()):
        if not self.closed:
            super().free(address, streams)


@answers.wrong("clear_while_busy", "forgets chunks handed out")
class TakesThemAway(SafePool):
    def close(self):
        super().close()
        pending = {address for address, _ in self.pending}
        for address in [a for a in self.sizes if a in self.driver._sizes and a not in pending]:
            self.driver.free(address)


@answers.wrong("clear_while_busy", TOO_SLOW)
class Polls(SafePool):
    def wait(self):
        for _, events in list(self.pending):
            for event in events:
                while not self.driver.query_event(event):
                    pass


@answers.wrong("clear_while_busy", ORDERS)
class InOrder(SafePool):
    """The newest event has completed, so all older ones must have."""

    def collect(self):
        while self.pending:
            newest = next((e[-1] for _, e in reversed(self.pending) if e), None)
            if newest is not None and not self.driver.query_event(newest):
                return
            for address, _ in self.pending:
                self.idle.setdefault(self.sizes[address], []).append(address)
            self.pending = []


@answers.wrong("clear_while_busy", CATCHES)
class Catches(SafePool):
    def allocate(self, size):
        try:
            return super().allocate(size)
        except Exception:
            return 0


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("name", "why", "says"),
    [
        ("record_the_stream", "the side stream does not wait for the upload", "upload comes first"),
        ("record_the_stream", "no record_stream", "source block went to the next image"),
        ("record_the_stream", "records after the free", "record_stream must come before free"),
        ("record_the_stream", "synchronises the host", "Only the side stream has to wait"),
        ("clear_while_busy", "frees pending blocks", "A stream still worked on this chunk"),
        ("clear_while_busy", "hides what it waits for", "stays pending: both need it"),
        ("idle_segments", "wants a single block", "several free blocks"),
        ("retire", "keeps addresses for pairs", "holds whole pairs"),
        (
            "repair_the_pool",
            "merges what is pending on a full device without a wait",
            "`synchronize_event` waits",
        ),
        (
            "repair_the_pool",
            "asks again on a full device, and does not search",
            "search your own blocks again",
        ),
        ("repair_the_pool", "asks the events in free only", "before it searches"),
        ("repair_the_pool", "clear gives a segment back and keeps it", "leaves `self.segments`"),
    ],
)
def test_the_hint_is_about_what_went_wrong(name, why, says):
    exercise = answers.exercises[name]
    make = next(make for reason, make in answers.wrongs[name] if reason == why)
    wrong = next(o for o in outcomes(exercise, make(), 5) if o.state == "wrong")
    hints = [exercise.hint(index) for index in range(len(exercise.hints))]
    first = next(hint for hint in hints if hint.fits(wrong.failures[0]))
    assert says in first.text


def test_a_spoilt_block_is_drawn_with_the_work_that_nothing_orders():
    exercise = answers.exercises["repair_the_pool"]
    found = outcomes(exercise, OneStream, 5)
    wrong = next(o for o in found if o.state == "wrong")
    assert (wrong.name, "1 races" in repr(picture_of(exercise, wrong.failures[0]))) == (
        "two streams",
        True,
    )


@pytest.mark.parametrize(("seed", "size"), [(71, 2), (129, 1), (129, 5)])
def test_a_right_pool_is_not_refused_for_what_it_holds(seed, size):
    """With segments of 2 MiB it holds up to 32 MiB here, the caching allocator 22 or 24."""
    inputs = _pool_traces.one_stream(Rng(seed), size)
    assert _pool_traces.judge_pool(Case(inputs), _pool_traces.drive_pool(Pool, *inputs)) is None
