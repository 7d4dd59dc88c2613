import contextlib
import threading

import pytest

from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercise import Hint
from labkit.course.exercises import _stream_calls as calls
from labkit.course.exercises import streams as module
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.cuda.errors import CudaError
from labkit.cuda.happens_before import races, repaired
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("streams")


class Event:
    def __init__(self, streams):
        self.streams, self.driver, self.handle = streams, streams.driver, None

    def record(self, stream=None):
        if self.handle is None:
            self.handle = self.driver.event_create()
        self.driver.event_record(self.handle, self.streams.current() if stream is None else stream)

    def wait(self, stream=None):
        if self.handle is not None:
            where = self.streams.current() if stream is None else stream
            self.driver.stream_wait_event(where, self.handle)

    def query(self):
        return self.handle is None or self.driver.event_query(self.handle)

    def synchronize(self):
        if self.handle is not None:
            self.driver.event_synchronize(self.handle)

    def elapsed(self, end):
        if self.handle is None or end.handle is None:
            raise CudaError("both events must be recorded")
        return self.driver.event_elapsed_ms(self.handle, end.handle)


@answers.right("wait_stream")
class Streams:
    def __init__(self, driver):
        self.driver, self.here = driver, threading.local()

    def current(self):
        return getattr(self.here, "stream", 0)

    @contextlib.contextmanager
    def using(self, stream):
        outer = self.current()
        self.here.stream = stream
        try:
            yield
        finally:
            self.here.stream = outer

    def event(self):
        return Event(self)

    def wait_stream(self, stream, other):
        event = self.event()
        event.record(other)
        event.wait(stream)


@answers.right("wait_stream")
class WithAStack(Streams):
    """The current streams of a thread as a stack, and a context manager that is a class."""

    def stack(self):
        if not hasattr(self.here, "stack"):
            self.here.stack = [0]
        return self.here.stack

    def current(self):
        return self.stack()[-1]

    def using(self, stream):
        streams = self

        class Using:
            def __enter__(self):
                streams.stack().append(stream)

            def __exit__(self, *_):
                streams.stack().pop()

        return Using()


@answers.right("wait_stream")
class OneEventForEveryWait(Streams):
    """A wait takes the record of its moment: to record the event again moves no earlier wait."""

    def __init__(self, driver):
        super().__init__(driver)
        self.shared = self.event()

    def wait_stream(self, stream, other):
        self.shared.record(other)
        self.shared.wait(stream)


@answers.wrong("wait_stream", "synchronises the host")
class SynchronisesTheHost(Streams):
    def wait_stream(self, stream, other):
        self.driver.stream_synchronize(other)


@answers.wrong("wait_stream", "waits for later work too")
class WaitsForLaterWork(Streams):
    def __init__(self, driver):
        super().__init__(driver)
        self.pairs = []

    def wait_stream(self, stream, other):
        super().wait_stream(stream, other)
        self.pairs.append((stream, other))

    def using(self, stream):
        for one, other in self.pairs:
            if one == stream:
                super().wait_stream(one, other)
        return super().using(stream)


@answers.wrong("wait_stream", "records on the wrong stream")
class RecordsOnTheWrongStream(Streams):
    def wait_stream(self, stream, other):
        event = self.event()
        event.record(stream)
        event.wait(stream)


@answers.wrong("wait_stream", "global current stream")
class GlobalCurrent(Streams):
    def __init__(self, driver):
        super().__init__(driver)

        class Here:
            stream = 0

        self.here = Here()


@answers.wrong("wait_stream", "event reused before completion")
class OneEvent(Streams):
    def __init__(self, driver):
        super().__init__(driver)
        self.one = Event(self)
        self.one.handle = driver.event_create()

    def event(self):
        return self.one


@answers.wrong(
    "wait_stream",
    "is right on the default stream or device and wrong on another one",
)
class OnlyTheDefault(Streams):
    def wait_stream(self, stream, other):
        super().wait_stream(0, other)


@answers.wrong(
    "wait_stream",
    "is right in forward thread and queue order only and fails in a reversed or shuffled order",
)
class TrustsTheOrder(Streams):
    def wait_stream(self, stream, other):
        pass


@answers.wrong("wait_stream", FIRST, make=True)
def remembers_the_first_query():
    kept = []

    class Remembering(Streams):
        def event(self):
            event = Event(self)
            ask = event.query

            def query():
                if not kept:
                    kept.append(ask())
                return kept[0]

            event.query = query
            return event

    return Remembering


def test_an_error_inside_using_must_not_lose_the_stream_outside():
    class Loses(Streams):
        @contextlib.contextmanager
        def using(self, stream):
            outer = self.current()
            self.here.stream = stream
            yield
            self.here.stream = outer

    exercise = module.wait_stream
    actions = [("using", 1, True, [("work", "w1")])]
    assert exercise.drive(Loses, actions) != exercise.expected(actions)
    assert exercise.drive(Streams, actions) == exercise.expected(actions)


def clocks_of(program, transitive=True, host_is_global=True, first_record=False):
    """(position, stream, number, clock, reads, writes) per access, by vector clocks."""
    queues, events, counts, host, found = {}, {}, {}, {}, []

    def join(*clocks):
        keys = {key for clock in clocks for key in clock}
        return {key: max(clock.get(key, 0) for clock in clocks) for key in keys}

    for at, step in enumerate(program):
        kind = step[0]
        if kind == "run":
            stream = step[1]
            counts[stream] = counts.get(stream, 0) + 1
            clock = join(queues.get(stream, {}), host if host_is_global else {})
            found.append((at, stream, counts[stream], clock, set(step[2]), set(step[3])))
            queues[stream] = {**clock, stream: counts[stream]}
        elif kind == "host":
            found.append((at, None, 0, dict(host), set(step[1]), set(step[2])))
        elif kind == "record":
            own = {step[1]: counts.get(step[1], 0)}
            if first_record and step[2] in events:
                continue
            events[step[2]] = join(queues.get(step[1], {}), host) if transitive else own
        elif kind == "wait":
            queues[step[1]] = join(queues.get(step[1], {}), events.get(step[2], {}))
        elif kind == "host wait":
            host = join(host, events.get(step[1], {}))
        elif step[1] is None:
            host = join(host, *queues.values())
        else:
            host = join(host, queues.get(step[1], {}))
    return found


def pairs_of(found, reads_race=False, ordered=True):
    by_buffer, pairs = {}, set()
    for one in found:
        at, _, _, clock, reads, writes = one
        for buffer in reads | writes:
            for other in by_buffer.setdefault(buffer, []):
                if not reads_race and buffer not in writes and buffer not in other[5]:
                    continue
                before = other[1] is None or clock.get(other[1], 0) >= other[2]
                if other[1] == one[1] or (ordered and before):
                    continue
                pairs.add((other[0], at))
            by_buffer[buffer].append(one)
    return sorted(pairs)


def repair_of(program, pairs):
    """Drops every pair whose event is not needed."""
    kept = list(pairs)
    for pair in pairs:
        fewer = [one for one in kept if one != pair]
        if not pairs_of(clocks_of(mended(program, fewer))):
            kept = fewer
    return kept


def mended(program, edges):
    steps = []
    for at, step in enumerate(program):
        for number, (_, second) in enumerate(edges):
            if second == at:
                wait = ("host wait",) if step[0] == "host" else ("wait", step[1])
                steps.append((*wait, f"mend {number}"))
        steps.append(step)
        for number, (first, _) in enumerate(edges):
            if first == at:
                steps.append(("record", step[1], f"mend {number}"))
    return steps


@answers.right("race_finder")
def race_finder(program):
    found = pairs_of(clocks_of(program))
    return found, repair_of(program, found)


@answers.right("race_finder")
def with_sets_of_bits(program):
    """What has surely run before a step, as one large number."""
    last, events, host, before, touched, found = {}, {}, 0, {}, {}, set()
    for at, step in enumerate(program):
        kind = step[0]
        if kind in ("run", "host"):
            known = host | (last.get(step[1], 0) if kind == "run" else 0)
            for buffer in {*step[-2], *step[-1]}:
                for other in touched.setdefault(buffer, []):
                    writes = buffer in step[-1] or buffer in program[other][-1]
                    if writes and not known >> other & 1:
                        found.add((other, at))
                touched[buffer].append(at)
            before[at] = known | 1 << at
            if kind == "run":
                last[step[1]] = before[at]
            else:
                host |= before[at]
        elif kind == "record":
            events[step[2]] = last.get(step[1], 0) | host
        elif kind == "wait":
            last[step[1]] = last.get(step[1], 0) | events.get(step[2], 0)
        elif kind == "host wait":
            host |= events.get(step[1], 0)
        else:
            streams = list(last) if step[1] is None else [step[1]]
            for stream in streams:
                host |= last.get(stream, 0)
    return sorted(found), repair_of(program, sorted(found))


answers.right("find_races")(lambda program: race_finder(program)[0])
answers.right("find_races")(lambda program: with_sets_of_bits(program)[0])
answers.wrong("find_races", "flags every cross-stream pair")(
    lambda program: pairs_of(clocks_of(program), ordered=False)
)
answers.wrong("find_races", "counts two reads")(
    lambda program: pairs_of(clocks_of(program), reads_race=True)
)
answers.wrong("find_races", "forgets order that was handed on")(
    lambda program: pairs_of(clocks_of(program, transitive=False))
)
answers.wrong("find_races", "host wait treated as per-stream")(
    lambda program: pairs_of(clocks_of(program, host_is_global=False))
)


@answers.wrong("find_races", "keeps the first record of an event")
def keeps_the_first(program):
    return pairs_of(clocks_of(program, first_record=True))


answers.wrong("find_races", TOO_SLOW)(lambda program: compares_every_pair(program)[0])


@answers.right("add_event")
def add_event(program, i, j):
    record, wait = ("record", program[i][1], "e"), ("wait", program[j][1], "e")
    return [*program[: i + 1], record, *program[i + 1 : j], wait, *program[j:]]


@answers.right("add_event")
def add_event_from_behind(program, i, j):
    steps = list(program)
    steps.insert(j, ("wait", program[j][1], "e"))
    steps.insert(i + 1, ("record", program[i][1], "e"))
    return steps


def at_places(record, wait, who=1):
    def answer(program, i, j):
        steps = list(program)
        steps.insert(j + wait, ("wait", program[(i, j)[who]][1], "e"))
        steps.insert(i + record, ("record", program[i][1], "e"))
        return steps

    return answer


answers.wrong("add_event", "records before the first step")(at_places(0, 0))
answers.wrong("add_event", "waits behind the second step")(at_places(1, 1))
answers.wrong("add_event", "waits on the stream that recorded")(at_places(1, 0, who=0))
answers.wrong("add_event", "returns the literal answer of the example in the statement")(
    lambda program, i, j: [
        ("run", 1, (), ("a",)), ("record", 1, "e"), ("wait", 2, "e"), ("run", 2, ("a",), ()),
    ]
)  # fmt: skip


@answers.wrong("add_event", "forgets that an insert moves what stands behind it")
def inserts_from_the_front(program, i, j):
    steps = list(program)
    steps.insert(i + 1, ("record", steps[i][1], "e"))
    steps.insert(j, ("wait", steps[j][1], "e"))
    return steps


@answers.right("conflict")
def conflict(one, other):
    forth = set(one[3]) & {*other[2], *other[3]}
    back = set(other[3]) & {*one[2], *one[3]}
    return bool(forth or back)


@answers.right("conflict")
def conflict_by_buffer(one, other):
    both = {*one[2], *one[3]} & {*other[2], *other[3]}
    return any(buffer in one[3] or buffer in other[3] for buffer in both)


answers.wrong("conflict", "counts two reads")(
    lambda one, other: bool({*one[2], *one[3]} & {*other[2], *other[3]})
)
answers.wrong("conflict", "counts two writes only")(
    lambda one, other: bool(set(one[3]) & set(other[3]))
)
answers.wrong("conflict", "looks in one direction only")(
    lambda one, other: bool(set(one[3]) & {*other[2], *other[3]})
)
answers.wrong("conflict", "asks for one stream")(
    lambda one, other: one[1] == other[1] and conflict(one, other)
)


@answers.wrong("race_finder", "flags every cross-stream pair")
def flags_every_pair(program):
    found = pairs_of(clocks_of(program), ordered=False)
    return found, repair_of(program, found)


@answers.wrong("race_finder", "ignores read-read")
def flags_reads(program):
    found = pairs_of(clocks_of(program), reads_race=True)
    return found, repair_of(program, pairs_of(clocks_of(program)))


@answers.wrong("race_finder", "ignores transitive order")
def ignores_transitive_order(program):
    found = pairs_of(clocks_of(program, transitive=False))
    return found, repair_of(program, pairs_of(clocks_of(program)))


@answers.wrong("race_finder", "host wait treated as per-stream")
def host_waits_are_ignored_by_other_streams(program):
    found = pairs_of(clocks_of(program, host_is_global=False))
    return found, repair_of(program, pairs_of(clocks_of(program)))


@answers.wrong("race_finder", "repairs by a device-wide wait")
def repairs_everything(program):
    found = pairs_of(clocks_of(program))
    return found, found


@answers.wrong("race_finder", TOO_SLOW)
def compares_every_pair(program):
    found, pairs = clocks_of(program), []
    for one in found:
        for other in found:
            if other[0] < one[0] and other[1] != one[1]:
                clash = (one[5] & (other[4] | other[5])) | (one[4] & other[5])
                before = other[1] is None or one[3].get(other[1], 0) >= other[2]
                if clash and not before:
                    pairs.append((other[0], one[0]))
    return sorted(pairs), repair_of(program, sorted(pairs))


test_answers = answers.tests()


@pytest.mark.parametrize("seed", range(3))
def test_the_truth_is_what_the_devices_queue_allows(seed):
    """Two steps race when the emulator's queue lets either go first, and no other two do."""
    exercise = module.race_finder
    for number in range(60):
        (program,) = exercise.make(seed, number, 20).inputs
        program = [step for step in program if step[0] in ("run", "record", "wait")]
        before = queued(program)
        runs = [(at, step) for at, step in enumerate(program) if step[0] == "run"]
        expected = [
            (i, j)
            for i, one in runs
            for j, other in runs
            if i < j and i not in before[j]
            and ({*one[3]} & {*other[2], *other[3]} or {*one[2]} & {*other[3]})
        ]  # fmt: skip
        assert races(program) == expected


def queued(program):
    """Position of a run -> positions that must come first, from the work the device queued."""
    driver = calls.Device.fresh()
    driver.queue.log.clear()
    places, events = {}, {}
    for at, step in enumerate(program):
        stream = calls.Device.streams[step[1]]
        if step[0] == "run":
            driver.launch_host_function(stream, lambda: None)
            places[driver.queue.log[-1].id] = at
        elif step[0] == "record":
            if step[2] not in events:
                events[step[2]] = driver.event_create()
            driver.event_record(events[step[2]], stream)
        elif step[2] in events:
            driver.stream_wait_event(stream, events[step[2]])
    reach, before = {}, {}
    for work in driver.queue.log:
        reach[work.id] = set(work.dep_ids).union(*(reach.get(dep, ()) for dep in work.dep_ids))
        if work.id in places:
            before[places[work.id]] = {places[n] for n in reach[work.id] if n in places}
    driver.synchronize()
    for event in events.values():
        driver.event_destroy(event)
    return before


def test_a_repair_orders_through_the_host_as_well():
    program = [("run", 1, (), ("a",)), ("run", 2, (), ("b",)), ("host", ("a", "b"), ())]
    assert races(program) == [(0, 2), (1, 2)]
    assert races(repaired(program, [(0, 2)])) == [(2, 4)]
    assert races(repaired(program, [(0, 2), (1, 2)])) == []
    with pytest.raises(ValueError, match="step 0 is"):
        races([("launch", 1)])


def test_a_failing_program_is_drawn_with_its_races():
    case = module.find_races.make(1, 30, 8)
    drawn = module.find_races.picture(case, [], [])
    assert len(drawn.races) == len(races(*case.inputs)) > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_stage_is_wrong_where_its_own_order_is_not_seen(seed):
    def states(**flaw):
        found = outcomes(module.find_races, lambda p: pairs_of(clocks_of(p, **flaw)), seed)
        return {stage.name for stage in found if stage.state == "wrong"}

    own = "the host's own steps"
    assert states(host_is_global=False) == {"host waits", own, "together"}
    assert states(transitive=False) == {"handed on", "together"}
    assert "events" in states(first_record=True)

    def without_host(program):
        silent = [("host", (), ()) if step[0] == "host" else step for step in program]
        return pairs_of(clocks_of(silent))

    found = outcomes(module.find_races, without_host, seed)
    wrong = {stage.name for stage in found if stage.state == "wrong"}
    assert wrong == {own, "together"}
    assert "touches memory" in first_hint(module.find_races, without_host)


def test_a_hint_fits_any_case_that_it_is_given_for():
    failed = failing_cases(module.conflict, lambda one, other: True, 5)[0]
    hints = [one for one in module.conflict.hints if isinstance(one, Hint) and one.fits(failed)]
    assert [hint.text.split(".")[0] for hint in hints] == [
        "Neither step writes a buffer that the other one touches"
    ]
    for hint in module.add_event.hints:  # {got} would be the whole program
        assert "{" not in getattr(hint, "text", hint)


def test_a_slip_earns_the_hint_about_it():
    class SetInInit(Streams):
        def __init__(self, driver):
            super().__init__(driver)
            self.here.stream = 0

        def current(self):
            return self.here.stream

    class NeverBack(Streams):
        def using(self, stream):
            self.here.stream = stream
            return contextlib.nullcontext()

    assert "moved by one" in first_hint(module.add_event, inserts_from_the_front)
    assert "empty in a new thread" in first_hint(module.wait_stream, SetInInit)
    assert "keep yours in `self.mine`" in first_hint(module.wait_stream, GlobalCurrent)
    assert "in a `finally`" in first_hint(module.wait_stream, NeverBack)
    assert "is recorded again" in first_hint(module.find_races, keeps_the_first)
