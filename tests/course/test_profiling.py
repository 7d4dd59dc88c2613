"""Right and wrong answers to the exercises on timers and tables."""

import contextlib
import math
import statistics
import time

from labkit.course.checking.stages import stage_exercises
from tests.course.answers import Answers, first_hint

answers = Answers("profiling")

# --- warm-ups

answers.right("read_back_row")(lambda queued, copy, q: sum(queued) + copy - (len(queued) - 1) * q)
for why, wrong in {
    "the copy alone": lambda queued, copy, q: copy,
    "forgets that the device had begun": lambda queued, copy, q: sum(queued) + copy,
    "the work before it alone": lambda queued, copy, q: sum(queued),
    "counts a call too many": lambda queued, copy, q: sum(queued) + copy - len(queued) * q,
    "nothing was queued, no time passes": lambda queued, copy, q: (
        sum(queued) + copy - (len(queued) - 1) * q if queued else copy
    ),
}.items():
    answers.wrong("read_back_row", why)(wrong)

answers.right("p95")(lambda times: sorted(times)[math.ceil(0.95 * len(times)) - 1])


@answers.right("p95")
def by_counting(times):
    return min(t for t in times if sum(u <= t for u in times) * 100 >= 95 * len(times))


for why, wrong in {
    "one place too far": lambda times: sorted(times)[min(95 * len(times) // 100, len(times) - 1)],
    "rounds down": lambda times: sorted(times)[max(95 * len(times) // 100 - 1, 0)],
    "does not sort": lambda times: times[math.ceil(0.95 * len(times)) - 1],
    "the longest": max,
    "between two times": lambda times: (
        statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    ),
}.items():
    answers.wrong("p95", why)(wrong)


def test_the_callers_list_stays_as_it_was():
    def sorts_it(times):
        times.sort()
        return times[math.ceil(0.95 * len(times)) - 1]

    assert "a copy" in first_hint(answers.exercises["p95"], sorts_it)


# --- top_of_the_table


def table(
    calls, own=True, everyone=False, threads=True, text=False, unit=1, ended=True, sorts=True,
    longer=True, zeros=True,
):  # fmt: skip
    times, around = {}, []
    order = sorted(calls, key=lambda c: (c[0], c[2], -c[3] if longer else c[3])) if sorts else calls
    if not threads:
        order = sorted(calls, key=lambda c: (c[2], -c[3]))
    for thread, name, start, end in order:
        while around and (
            (threads and around[-1][0] != thread) or (ended and around[-1][2] <= start)
        ):
            around.pop()
        times[name] = times.get(name, 0) + end - start
        for _, parent, _ in (around if everyone else around[-1:]) if own else ():
            times[parent] = times.get(parent, 0) - (end - start)
        around.append((thread, name, end))

    def place(row):
        return (str(row[1]) if text else row[1] // unit), row[0]

    rows = sorted(row for row in times.items() if row[1] or zeros)
    return sorted(rows, key=lambda row: place(row)[0], reverse=True)


answers.right("top_of_the_table")(table)


@answers.right("top_of_the_table")
def smallest_around(calls):
    """Who is directly around a call: the shortest of all that it lies in."""
    times = dict.fromkeys((name for _, name, *_ in calls), 0)
    for call in calls:
        thread, name, start, end = call
        times[name] += end - start
        outer = [c for c in calls if c[0] == thread and c[2] <= start and end <= c[3] and c != call]
        if outer:
            times[min(outer, key=lambda c: c[3] - c[2])[1]] -= end - start
    return sorted(times.items(), key=lambda row: (-row[1], row[0]))


for why, switch in {
    "total instead of own": {"own": False},
    "takes a call away from all around it": {"everyone": True},
    "mixes threads": {"threads": False},
    "sorts text": {"text": True},
    "rounds to milliseconds before ranking": {"unit": 1000},
    "ends are still around": {"ended": False},
    "the order of the list is the order of time": {"sorts": False},
    "of two that begin together, the shorter is around the longer": {"longer": False},
    "drops what has no time of its own": {"zeros": False},
}.items():
    answers.wrong("top_of_the_table", why)(lambda calls, switch=switch: table(calls, **switch))


def test_mistakes_of_a_table_get_their_hints():
    exercise = answers.exercises["top_of_the_table"]
    parts = dict(stage_exercises(exercise))
    assert "without the calls directly inside" in first_hint(
        exercise, lambda calls: table(calls, own=False)
    )
    assert "taken away twice" in first_hint(
        parts["inside"], lambda calls: table(calls, everyone=True)
    )
    assert "order is not" in first_hint(exercise, lambda calls: table(calls, text=True))
    assert "same thread only" in first_hint(exercise, lambda calls: table(calls, threads=False))


# --- timer_stats


class Timers:
    """The chapter's last version; each subclass has one thing wrong."""

    def __init__(self, device):
        self.device, self.rows = device, []

    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = self.device.now(), self.device.event()
        try:
            yield
        finally:
            self.left(name, begin, start)

    def left(self, name, begin, start):
        self.rows.append((name, self.device.now() - begin, start, self.device.event()))

    def elapsed(self, start, end):
        return start.elapsed_time(end)

    def p95(self, host):
        return sorted(host)[math.ceil(0.95 * len(host)) - 1]

    def mean(self, host):
        return sum(host) / len(host)

    def stats(self):
        self.device.synchronize()
        names = {}
        for name, host, start, end in self.rows:
            names.setdefault(name, []).append((host, self.elapsed(start, end)))
        return {name: self.summary(*zip(*rows, strict=True)) for name, rows in names.items()}

    def summary(self, host, device):
        return {
            "count": len(host),
            "mean": self.mean(host),
            "median": statistics.median(host),
            "p95": self.p95(host),
            "device": sum(device) / len(device),
        }


answers.right("timer_stats")(Timers)


@answers.wrong("timer_stats", "another clock")
class AnotherClock(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = time.perf_counter(), self.device.event()
        try:
            yield
        finally:
            taken = (time.perf_counter() - begin) * 1e6
            self.rows.append((name, taken, start, self.device.event()))


@answers.wrong("timer_stats", "host time for device work")
class HostTime(Timers):
    def summary(self, host, device):
        return super().summary(host, host)


@answers.wrong("timer_stats", "mean of means")
class MeanOfMeans(Timers):
    def mean(self, host):
        mean = host[0]
        for one in host[1:]:
            mean = (mean + one) / 2
        return mean


@answers.wrong("timer_stats", "lost on exception")
class Lost(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = self.device.now(), self.device.event()
        yield
        self.left(name, begin, start)


@answers.wrong("timer_stats", "swallows the error")
class Swallows(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = self.device.now(), self.device.event()
        with contextlib.suppress(BaseException):
            yield
        self.left(name, begin, start)


@answers.wrong("timer_stats", "waits in every block")
class Waits(Timers):
    def left(self, name, begin, start):
        super().left(name, begin, start)
        self.device.synchronize()


@answers.wrong("timer_stats", "one beginning for all blocks")
class OneBeginning(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        self.begin, self.start = self.device.now(), self.device.event()
        try:
            yield
        finally:
            self.left(name, self.begin, self.start)


@answers.wrong("timer_stats", "the last to begin is the first to end")
class Stack(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        self.stack = [*getattr(self, "stack", []), (name, self.device.now(), self.device.event())]
        try:
            yield
        finally:
            self.left(*self.stack.pop())


@answers.wrong("timer_stats", "asks an event at once")
class AtOnce(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = self.device.now(), self.device.event()
        yield
        start.elapsed_time(self.device.event())
        self.left(name, begin, start)


@answers.wrong("timer_stats", "gives numbers once only")
class Once(Timers):
    def stats(self):
        found, self.rows = super().stats(), []
        return found


@answers.wrong("timer_stats", "between two times")
class Between(Timers):
    def p95(self, host):
        return statistics.quantiles(host, n=20)[-1] if len(host) > 1 else host[0]


@answers.wrong("timer_stats", "the longest in place of p95")
class Longest(Timers):
    def p95(self, host):
        return max(host)


@answers.wrong("timer_stats", "gives the first numbers for ever")
class Frozen(Timers):
    def stats(self):
        self.first = getattr(self, "first", None) or super().stats()
        return self.first


@answers.wrong("timer_stats", "an error that is no Exception")
class OnlyExceptions(Timers):
    @contextlib.contextmanager
    def __call__(self, name):
        begin, start = self.device.now(), self.device.event()
        try:
            yield
        except Exception:
            self.left(name, begin, start)
            raise
        self.left(name, begin, start)


def test_mistakes_of_timers_get_their_hints():
    exercise = answers.exercises["timer_stats"]
    assert "behind one synchronize" in first_hint(exercise, AtOnce)
    assert "Synchronize in `stats`" in first_hint(exercise, Waits)
    assert "did not come out" in first_hint(exercise, Swallows)
    assert "its own beginning" in first_hint(exercise, OneBeginning)
    assert "first event to its second" in first_hint(exercise, HostTime)
    assert "whatever it raises" in first_hint(exercise, OnlyExceptions)
    assert "by then" in first_hint(exercise, Frozen)


test_answers = answers.tests()
