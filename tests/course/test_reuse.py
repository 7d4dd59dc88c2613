"""Right and wrong answers to the exercises on memory that is used twice."""

import functools
import operator
import sys
import zlib

import pytest
import torch

from labkit.course.exercise import Case
from tests.course.answers import Answers, first_hint

answers = Answers("reuse")

# --- tensor_pool


def bucket(nbytes):
    return 1 << (nbytes - 1).bit_length()


def pool(
    may=lambda on, stream, event: on == stream or event.done(),
    mark=lambda stream: stream,
    early=False,
    fits=lambda have, want: have == want,
    size=bucket,
    trims=True,
    newest=False,
    last=False,
    spare=0,
    reuses=True,
    counts=True,
):
    class Pool:
        def __init__(self, device, limit):
            self.device, self.limit, self.idle, self.marks = device, limit, [], {}
            self.made = self.reused = 0

        def lend(self, nbytes, stream):
            buffer = self.found(size(nbytes), stream)
            self.marks[id(buffer)] = self.device.record(mark(stream))
            return buffer

        def found(self, nbytes, stream):
            places = list(enumerate(self.idle))
            for at, (buffer, on, event) in reversed(places) if last else places:
                if reuses and fits(len(buffer), nbytes) and may(on, stream, event):
                    self.reused += 1
                    return self.idle.pop(at)[0]
            self.made += 1 if counts else nbytes
            return self.device.make(nbytes)

        def give_back(self, buffer, stream):
            event = self.marks[id(buffer)] if early else self.device.record(mark(stream))
            self.idle.append((buffer, stream, event))
            self.trim(self.limit - spare)

        def trim(self, limit):
            while trims and sum(len(one) for one, _, _ in self.idle) > limit and self.idle:
                self.idle.pop(-1 if newest else 0)

    return Pool


POOLS = {
    "reuses on any stream": (pool(may=lambda *_: True), "still queued"),
    "returns while in use on a stream": (
        pool(may=lambda on, stream, event: on != stream or event.done()), "An idle buffer fitted"),
    "asks the event of the wrong stream": (pool(mark=lambda stream: 0), "An idle buffer fitted"),
    "is right in forward queue order only": (pool(early=True), "still queued"),
    "never lends to the other stream": (pool(may=lambda on, stream, event: on == stream),
                                        "or its event is done"),
    "never trims": (pool(trims=False), "should have been dropped"),
    "drops the newest": (pool(newest=True), "rop the one given back first"),
    "never reuses": (pool(reuses=False), "An idle buffer fitted"),
    "exact shapes only": (pool(size=lambda nbytes: nbytes), "An idle buffer fitted"),
    "lends what is larger, too": (pool(fits=lambda have, want: have >= want), "another size"),
    "lends the one given back last": (pool(last=True), "given back first"),
    "counts what was asked": (pool(counts=False), "what was counted"),
}  # fmt: skip
answers.right("tensor_pool")(pool())
for why, (wrong, _) in POOLS.items():
    answers.wrong("tensor_pool", why)(wrong)


@answers.wrong("tensor_pool", "one tensor per key")
class OnePerKey(pool()):
    def found(self, nbytes, stream):
        for buffer in self.device.made:
            if len(buffer) == nbytes:
                self.reused += 1
                return buffer
        return super().found(nbytes, stream)


# --- used_after_return


def fill(buffer):
    buffer[:] = bytes([0xA5]) * len(buffer)


def zeroed(buffer):
    buffer[:] = bytes(len(buffer))


def not_zero(buffer):
    if any(buffer):
        raise RuntimeError("used after return")


def look_at(part):
    def look(buffer):
        if any(byte != 0xA5 for byte in buffer[part]):
            raise RuntimeError("used after return")

    return look


def summed():
    sums = {}

    def keep(buffer):
        sums[id(buffer)] = zlib.crc32(buffer)

    def look(buffer):
        if sums[id(buffer)] != zlib.crc32(buffer):
            raise RuntimeError("used after return")

    return keep, look


def counted(buffer):
    if sys.getrefcount(buffer) > 6:
        raise RuntimeError("somebody still has it")


def resized(buffer):
    """A bytearray cannot grow while somebody has a view of it."""
    try:
        buffer.append(0)
    except BufferError:
        raise RuntimeError("somebody has a view") from None
    buffer.pop()
    look_at(slice(None))(buffer)


def remembered():
    kept = {}

    def flip(buffer):
        buffer[0] ^= 1
        kept[id(buffer)] = bytes(buffer)

    def look(buffer):
        if kept[id(buffer)] != buffer:
            raise RuntimeError("used after return")

    return flip, look


def of_all(measure):
    def look(buffer):
        if measure(buffer) != measure([0xA5] * len(buffer)):
            raise RuntimeError("used after return")

    return look


answers.right("used_after_return")((fill, look_at(slice(None))))
for why, wrong in {
    "weak detection by reference count": (fill, counted),
    "looks at the first byte only": (fill, look_at(slice(1))),
    "keeps a checksum, and fills nothing": summed(),
    "fills, and never looks": (fill, lambda buffer: None),
    "raises for whoever keeps a part": (fill, resized),
    "fills one byte, and remembers the others": remembered(),
    "adds all bytes up": (fill, of_all(sum)),
    "fills with 0": (zeroed, not_zero),
    "xors all bytes": (fill, of_all(lambda found: functools.reduce(operator.xor, found))),
}.items():
    answers.wrong("used_after_return", why)(wrong)


# --- warm-ups


def first_fit(idle, wanted, places=lambda idle: range(len(idle))):
    return next((at for at in places(idle) if wanted(*idle[at])), None)


answers.right("first_fit")(
    lambda idle, n, s: first_fit(idle, lambda size, on, done: size == n and (on == s or done))
)
for why, wrong in {
    "any stream": lambda idle, n, s: first_fit(idle, lambda size, on, done: size == n),
    "this stream only": lambda idle, n, s: first_fit(
        idle, lambda size, on, done: (size, on) == (n, s)
    ),
    "only what is done": lambda idle, n, s: first_fit(
        idle, lambda size, on, done: size == n and done
    ),
    "what is larger, too": lambda idle, n, s: first_fit(
        idle, lambda size, on, done: size >= n and (on == s or done)
    ),
    "the last one": lambda idle, n, s: first_fit(
        idle,
        lambda size, on, done: size == n and (on == s or done),
        lambda idle: reversed(range(len(idle))),
    ),
}.items():
    answers.wrong("first_fit", why)(wrong)

answers.right("next_size")(lambda fits, fails: (fits + fails) // 2 if fails - fits > 1 else None)
for why, wrong in {
    "half of what failed": lambda fits, fails: fails // 2,
    "twice what fitted": lambda fits, fails: 2 * fits if 2 * fits < fails else None,
    "never says that it is done": lambda fits, fails: (fits + fails) // 2,
    "one more than what fitted": lambda fits, fails: fits + 1 if fails - fits > 1 else None,
}.items():
    answers.wrong("next_size", why)(wrong)

# --- adaptive_batches


def adaptive(caught=torch.OutOfMemoryError, ends=True, collects=True, remembers=True, falls=True):
    def adaptive_batches(run, items):
        results, done, size, fits, fails = [], 0, 1, 0, None
        while done < len(items):
            size = min(size, len(items) - done)
            try:
                found = run(items[done : done + size])
            except caught as error:
                if size == 1 and ends:
                    raise
                if caught is RuntimeError and "out of memory" not in str(error):
                    raise
                fails = size if remembers else None
                fits = 0 if fits >= size and falls else fits
                size = max((fits + size) // 2 if remembers else size // 2, 1)
                continue
            results = results + found if collects else found
            done, fits = done + size, size
            size = 2 * size if fails is None else max((fits + fails) // 2, 1)
        return results

    return adaptive_batches


answers.right("adaptive_batches")(adaptive())
answers.wrong("adaptive_batches", "drops results")(adaptive(collects=False))
answers.wrong("adaptive_batches", "endless at 1")(adaptive(ends=False))
answers.wrong("adaptive_batches", "catches by text")(adaptive(caught=RuntimeError))
answers.wrong("adaptive_batches", "forgets the ceiling")(adaptive(remembers=False))


@answers.wrong("adaptive_batches", "doubles for ever")
def doubles(run, items):
    results, done, size = [], 0, 1
    while done < len(items):
        results += run(items[done : done + size])
        done, size = done + size, 2 * size
    return results


@answers.wrong("adaptive_batches", "keeps the error of a failed attempt")
def keeps_errors(run, items):
    errors = []

    def noted(batch):
        try:
            return run(batch)
        except torch.OutOfMemoryError as error:
            errors.append(error)
            raise

    return adaptive()(noted, items)


@answers.wrong("adaptive_batches", "goes on inside of the except")
def halves_inside(run, items, size=None):
    size = size or len(items)
    results = []
    while len(results) < len(items):
        batch = items[len(results) : len(results) + size]
        try:
            results += run(batch)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
            return results + halves_inside(run, items[len(results) :], max(1, len(batch) // 2))
    return results


@answers.wrong("adaptive_batches", "one item at a time")
def one_at_a_time(run, items):
    return [run([item])[0] for item in items]


# --- checkpoint_policy


def best(layers, budget, forward_only=False):
    ways = [{0: (0, [])}]
    for end in range(1, len(layers) + 1):
        found = {}
        for start in range(end):
            inside = sum(layer[0] for layer in layers[start:end])
            again = sum(layer[2] for layer in layers[start:end])
            entry = layers[start][1]
            for kept, (work, parts) in ways[start].items():
                options = [(kept + inside, kept + inside, work, False)]
                highest = kept + entry if forward_only else kept + entry + inside
                options.append((kept + entry, highest, work + again, True))
                for now, most, cost, how in options:
                    if most <= budget and (now not in found or cost < found[now][0]):
                        found[now] = cost, [*parts, (start, end, how)]
        ways.append(found)
    return min(ways[-1].values())[1] if ways[-1] else None


@answers.right("checkpoint_policy")
def checkpoint_policy(layers, budget):
    return best(layers, budget)


@answers.wrong("checkpoint_policy", "looks at the bytes of forward only")
def forward_only(layers, budget):
    return best(layers, budget, forward_only=True)


@answers.wrong("checkpoint_policy", "cuts into root-many parts")
def root(layers, budget):
    step = max(1, round(len(layers) ** 0.5))
    return [(at, min(at + step, len(layers)), True) for at in range(0, len(layers), step)]


@answers.wrong("checkpoint_policy", "recomputes everything in one part")
def one_part(layers, budget):
    return [(0, len(layers), True)]


@answers.wrong("checkpoint_policy", "greedy: the largest layers first")
def greedy(layers, budget):
    again, order = set(), sorted(range(len(layers)), key=lambda at: -layers[at][0])
    for at in order:
        kept = sum(e if n in again else s for n, (s, e, _) in enumerate(layers))
        if kept <= budget:
            break
        again.add(at)
    return [(at, at + 1, at in again) for at in range(len(layers))]


@answers.wrong("checkpoint_policy", "takes all layers for equal")
def as_if_equal(layers, budget):
    mean = [sum(column) / len(layers) for column in zip(*layers, strict=True)]
    return best([mean] * len(layers), budget)


@answers.wrong("checkpoint_policy", "names a part twice")
def recomputes_twice(layers, budget):
    return [part for part in best(layers, budget) or () for _ in range(1 + part[2])] or None


@answers.wrong("checkpoint_policy", "keeps everything")
def keeps(layers, budget):
    return [(0, len(layers), False)]


def plans(count, at=0):
    if at == count:
        yield []
    for end in range(at + 1, count + 1):
        for rest in plans(count, end):
            yield from ([(at, end, again), *rest] for again in (False, True))


def costs(layers, parts):
    """(the most bytes at once, the work done again)."""
    most = kept = work = 0
    for start, end, again in parts:
        inside, entry = sum(saved for saved, _, _ in layers[start:end]), layers[start][1]
        most = max(most, kept + inside + again * entry)
        kept += entry if again else inside
        work += again * sum(work for _, _, work in layers[start:end])
    return most, work


@answers.wrong(
    "checkpoint_policy",
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)",
)
def tries_every_plan(layers, budget):
    found = ((*costs(layers, parts), parts) for parts in plans(len(layers)))
    fit = ((work, parts) for most, work, parts in found if most <= budget)
    return min(fit, default=(0, None))[1]


def test_mistakes_get_their_hints():
    adapt = answers.exercises["adaptive_batches"]
    assert "nothing smaller" in first_hint(adapt, adaptive(ends=False))
    assert "still takes room" in first_hint(adapt, keeps_errors)
    assert "smallest size that failed" in first_hint(adapt, adaptive(remembers=False))
    assert "did not end" in first_hint(adapt, adaptive(falls=False))
    fits, debug = answers.exercises["first_fit"], answers.exercises["used_after_return"]
    any_stream = answers.wrongs["first_fit"][0][1]()
    assert "work there is not done" in first_hint(fits, any_stream)
    assert "keep a name is no use" in first_hint(debug, (fill, counted))
    assert "A 0 was written" in first_hint(debug, (zeroed, not_zero))
    assert "Look at every byte" in first_hint(debug, (fill, look_at(slice(1))))
    assert "a late reader" in first_hint(debug, summed())


@pytest.mark.parametrize(
    ("wrong", "said"), [*POOLS.values(), (OnePerKey, "still had it"), (pool(spare=128), "still be")]
)
def test_mistakes_of_a_pool_get_their_hints(wrong, said):
    assert said in first_hint(answers.exercises["tensor_pool"], wrong)


def test_work_that_nothing_orders_is_drawn():
    exercise = answers.exercises["tensor_pool"]
    case = exercise.make(5, exercise.cases - 1, exercise.sizes)
    for wrong, races in ((pool(may=lambda *_: True), True), (pool(), False)):
        drawn = exercise.picture(case, exercise.drive(wrong, *case.inputs), None)
        assert ("race" in repr(drawn)) is races


test_answers = answers.tests()


def test_a_plan_over_the_budget_is_told_how_many_bytes_it_needs():
    boss = answers.exercises["checkpoint_policy"]
    assert "each layer once" in first_hint(boss, recomputes_twice)
    for layers, told in (([(3, 1, 1), (16, 1, 1)], "no plan fits"), ([(9, 1, 1)] * 2, "needs 19")):
        wrong = boss.judge(Case((layers, 12)), [(0, 2, True)])
        assert told in wrong.property
