"""Right and wrong answers to the exercises on memory that is used twice."""

import zlib

import pytest
import torch

from labkit.course.checks import outcomes
from labkit.course.exercise import Case
from tests.course.answers import Answers, catches, first_hint

answers = Answers("reuse")

# --- tensor_pool


def pool(
    streams=True,
    trims=True,
    newest=False,
    last=False,
    spare=0,
    fits=lambda have, want: have == want,
):
    class Pool:
        def __init__(self, make, limit):
            self.make, self.limit, self.idle = make, limit, []

        def lend(self, nbytes, stream):
            places = list(enumerate(self.idle))
            for at, (buffer, on) in reversed(places) if last else places:
                if fits(len(buffer), nbytes) and (on == stream or not streams):
                    return self.idle.pop(at)[0]
            return self.make(nbytes)

        def give_back(self, buffer, stream):
            self.idle.append((buffer, stream))
            while trims and sum(len(one) for one, _ in self.idle) > self.limit - spare:
                self.idle.pop(-1 if newest else 0)

    return Pool


answers.right("tensor_pool")(pool())
answers.wrong("tensor_pool", "reuses on any stream")(pool(streams=False))
answers.wrong("tensor_pool", "never trims")(pool(trims=False))
answers.wrong("tensor_pool", "drops the newest")(pool(newest=True))
answers.wrong("tensor_pool", "lends the one given back last")(pool(last=True))
answers.wrong("tensor_pool", "never reuses")(pool(fits=lambda have, want: False))
answers.wrong("tensor_pool", "lends what is larger, too")(
    pool(fits=lambda have, want: have >= want)
)


@answers.wrong("tensor_pool", "one tensor per key")
class OnePerKey:
    def __init__(self, make, limit):
        self.make, self.found = make, {}

    def lend(self, nbytes, stream):
        if nbytes not in self.found:
            self.found[nbytes] = self.make(nbytes)
        return self.found[nbytes]

    def give_back(self, buffer, stream):
        pass


# --- warm-ups


def first_fit(idle, wanted, places=lambda idle: range(len(idle))):
    return next((at for at in places(idle) if wanted(idle[at])), None)


answers.right("first_fit")(lambda idle, n, stream: first_fit(idle, lambda one: one == (n, stream)))
for why, wrong in {
    "any stream": lambda idle, n, stream: first_fit(idle, lambda one: one[0] == n),
    "what is larger, too": lambda idle, n, s: first_fit(idle, lambda o: o[0] >= n and o[1] == s),
    "the last one": lambda idle, n, stream: first_fit(
        idle, lambda one: one == (n, stream), lambda idle: reversed(range(len(idle)))
    ),
    "fails when nothing fits": lambda idle, n, stream: idle.index((n, stream)),
}.items():
    answers.wrong("first_fit", why)(wrong)

answers.right("cache_key")(lambda film, frame, s: repr((film, frame, sorted(s.items()))))
for why, wrong in {
    "the frame number only": lambda film, frame, s: f"frame_{frame}",
    "without the settings": lambda film, frame, s: repr((film, frame)),
    "only joins the texts": lambda film, frame, s: f"{film}{frame}{sorted(s.items())}",
    "keeps the order of the settings": lambda film, frame, s: repr((film, frame, s)),
}.items():
    answers.wrong("cache_key", why)(wrong)

answers.right("next_size")(lambda fits, fails: (fits + fails) // 2 if fails - fits > 1 else None)
for why, wrong in {
    "half of what failed": lambda fits, fails: fails // 2,
    "twice what fitted": lambda fits, fails: 2 * fits if 2 * fits < fails else None,
    "never says that it is done": lambda fits, fails: (fits + fails) // 2,
    "one more than what fitted": lambda fits, fails: fits + 1 if fails - fits > 1 else None,
}.items():
    answers.wrong("next_size", why)(wrong)

# --- disk_cache


def cached(check=lambda c: zlib.crc32(c).to_bytes(4, "big"), atomic=True, safe=True, deletes=False,
           short=False):  # fmt: skip
    def store(folder, name, content):
        data = check(content) + content
        if deletes and folder.read(name) is not None:
            folder.rename(name, "gone")
        if not atomic:
            folder.write(name, data)
            return
        folder.write(name + ".new", data)
        folder.rename(name + ".new", name)

    def load(folder, name):
        data = folder.read(name)
        if data is None and safe:
            return None
        size = len(check(b""))
        if short and len(data) < size:
            raise ValueError("not enough bytes")
        return data[size:] if data[:size] == check(data[size:]) and len(data) >= size else None

    return store, load


answers.right("disk_cache")(cached())
answers.wrong("disk_cache", "writes under the final name")(cached(atomic=False))
answers.wrong("disk_cache", "has no checksum")(cached(check=lambda content: b""))
answers.wrong("disk_cache", "knows the length only")(
    cached(check=lambda content: len(content).to_bytes(4, "big"))
)
answers.wrong("disk_cache", "fails on an empty folder")(cached(safe=False))
answers.wrong("disk_cache", "deletes before it writes")(cached(deletes=True))
answers.wrong("disk_cache", "catches every exception and returns a default")(
    (cached()[0], catches(lambda folder, name: folder.read(name)[4:]))
)

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
    adapt, disk = answers.exercises["adaptive_batches"], answers.exercises["disk_cache"]
    assert "nothing smaller" in first_hint(adapt, adaptive(ends=False))
    assert "smallest size that failed" in first_hint(adapt, adaptive(remembers=False))
    assert "then rename" in first_hint(disk, cached(atomic=False))
    assert "checksum" in first_hint(disk, cached(check=lambda content: b""))
    assert "raised an error" in first_hint(disk, cached(short=True))
    assert "nothing is stored" in first_hint(disk, cached(safe=False))
    assert "did not end" in first_hint(adapt, adaptive(falls=False))
    keys = answers.exercises["cache_key"]
    assert "where one ends" in first_hint(keys, lambda film, n, s: f"{film}{n}{sorted(s.items())}")
    assert "all settings in it" in first_hint(keys, lambda film, n, s: repr((film, n)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (pool(streams=False), "on the other stream"),
        (pool(fits=lambda have, want: have >= want), "another size"),
        (pool(fits=lambda have, want: False), "`make` was called"),
        (pool(trims=False), "should have been dropped"),
        (pool(newest=True), "rop the one given back first"),
        (pool(spare=100), "should still be idle"),
        (pool(last=True), "given back first"),
        (OnePerKey, "still had it"),
    ],
)
def test_mistakes_of_a_pool_get_their_hints(wrong, said):
    assert said in first_hint(answers.exercises["tensor_pool"], wrong)


test_answers = answers.tests()


def test_a_plan_over_the_budget_is_told_how_many_bytes_it_needs():
    boss = answers.exercises["checkpoint_policy"]
    for layers, told in (([(3, 1, 1), (16, 1, 1)], "no plan fits"), ([(9, 1, 1)] * 2, "needs 19")):
        wrong = boss.judge(Case((layers, 12)), [(0, 2, True)])
        assert told in wrong.property


def test_a_pool_may_keep_the_stream_of_lend_or_of_give_back():
    class ByLend(pool()):
        def lend(self, nbytes, stream):
            buffer = super().lend(nbytes, stream)
            self.streams = {**getattr(self, "streams", {}), id(buffer): stream}
            return buffer

        def give_back(self, buffer, stream):
            super().give_back(buffer, self.streams[id(buffer)])

    found = outcomes(answers.exercises["tensor_pool"], ByLend, 7)
    assert [stage.state for stage in found] == ["done"] * 3
