"""Right and wrong answers to the exercises on pipelines."""

import itertools
from collections import deque
from dataclasses import replace
from queue import Queue
from threading import Event, Thread
from time import thread_time

from labkit.course.checking.stages import stage_exercises
from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercises import _watched_stages
from labkit.course.standstill import standstill
from tests.course.answers import Answers, first_hint

answers = Answers("pipeline")

# --- warm-ups

answers.right("film_time")(lambda count, times: sum(times) + (count - 1) * max(times))
for why, wrong in {
    "one thread for everything": lambda count, times: count * sum(times),
    "the slowest stage alone": lambda count, times: count * max(times),
    "one frame too many": lambda count, times: sum(times) + count * max(times),
    "waits for the first stage only": lambda count, times: times[0] + count * max(times),
}.items():
    answers.wrong("film_time", why)(wrong)

answers.right("most_frames")(lambda threads, room: threads + (threads - 1) * room)
for why, wrong in {
    "counts the queues only": lambda threads, room: (threads - 1) * room,
    "one queue for each thread": lambda threads, room: threads + threads * room,
    "one queue for each thread, and no hands": lambda threads, room: threads * room,
    "forgets who is last": lambda threads, room: (threads - 1) * (room + 1),
}.items():
    answers.wrong("most_frames", why)(wrong)

answers.right("longest_wait")(lambda room, work: room * work)
for why, wrong in {
    "forgets the frame that is worked on": lambda room, work: (room - 1) * work,
    "counts its own work": lambda room, work: (room + 1) * work,
    "gives the frames": lambda room, work: room,
}.items():
    answers.wrong("longest_wait", why)(wrong)

# --- stage_pipeline

END = object()


def piped(
    source, stages, room, catches=True, feeds=True, tail=True, tells=True, again=False,
    sets=True, asks=True, goes_on=True,
):  # fmt: skip
    """The chapter's last version; each switch takes one thing out of it."""
    queues = [Queue(room) for _ in range(len(stages) + 1)]
    stop = Event()

    def feed(out):
        try:
            for frame in source:
                if asks and stop.is_set():
                    break
                out.put((frame, None))
        except Exception as error:
            if feeds:
                out.put((None, error))
        out.put(END)

    def work(into, stage, out):
        for frame, error in iter(into.get, END):
            if error is None:
                try:
                    frame = stage(frame)
                except Exception as raised:
                    if not catches:
                        return
                    error = raised
            out.put((frame, error))
            if error is not None and not goes_on:
                break
        out.put(END)

    threads = [Thread(target=feed, args=(queues[0],), daemon=True)]
    for at, stage in enumerate(stages):
        args = (queues[at], stage, queues[at + 1])
        threads.append(Thread(target=work, args=args, daemon=True))
    for thread in threads:
        thread.start()
    frames = iter(queues[-1].get, END)
    kept = deque()
    try:
        for frame, error in frames:
            if error is not None:
                raise error
            kept.append(frame)
            if len(kept) > (not tail):
                yield kept.popleft()
    finally:
        if tells:
            if sets:
                stop.set()
            for _ in iter(queues[-1].get, END) if again else frames:
                pass


@answers.right("stage_pipeline")
def stage_pipeline(source, stages, room):
    return piped(source, stages, room)


@answers.wrong("stage_pipeline", "a frame None ends the stream")
def none_ends(source, stages, room):
    return piped(iter(iter(source).__next__, None), stages, room)


@answers.wrong("stage_pipeline", "drops None")
def drops_none(source, stages, room):
    return (frame for frame in piped(source, stages, room) if frame is not None)


@answers.wrong("stage_pipeline", "unbounded queues")
def unbounded(source, stages, room):
    return piped(source, stages, 0)


@answers.wrong("stage_pipeline", "hangs on error")
def hangs(source, stages, room):
    return piped(source, stages, room, catches=False)


@answers.wrong("stage_pipeline", "loses the tail")
def loses(source, stages, room):
    return piped(source, stages, room, tail=False)


@answers.wrong("stage_pipeline", "order lost with two workers")
def two_workers(source, stages, room):
    frames = piped(source, stages, room)
    for one in frames:
        other = next(frames, None)
        if other is not None:
            yield other
        yield one


@answers.wrong("stage_pipeline", "one thread does it all")
def one_thread(source, stages, room):
    for frame in source:
        for stage in stages:
            frame = stage(frame)
        yield frame


@answers.wrong("stage_pipeline", "swallows the error")
def swallows(source, stages, room):
    try:
        yield from piped(source, stages, room)
    except Exception:
        return


@answers.wrong("stage_pipeline", "the source's error is lost")
def loses_the_sources(source, stages, room):
    return piped(source, stages, room, feeds=False)


@answers.wrong("stage_pipeline", "leaves threads when the reader stops")
def leaves(source, stages, room):
    return piped(source, stages, room, tells=False)


@answers.wrong("stage_pipeline", "fetches everything first")
def everything(source, stages, room):
    frames = list(source)
    return piped(iter(frames), stages, room)


@answers.wrong("stage_pipeline", "waits for a second END")
def waits_again(source, stages, room):
    return piped(source, stages, room, again=True)


@answers.wrong("stage_pipeline", "the reader never says stop")
def never_set(source, stages, room):
    return piped(source, stages, room, sets=False)


@answers.wrong("stage_pipeline", "the source never asks for stop")
def never_asked(source, stages, room):
    return piped(source, stages, room, asks=False)


@answers.wrong("stage_pipeline", "a stage ends at an error")
def breaks_off(source, stages, room):
    return piped(source, stages, room, goes_on=False)


def test_mistakes_of_a_pipeline_get_their_hints():
    exercise = answers.exercises["stage_pipeline"]
    bounded = dict(stage_exercises(exercise))["bounded"]
    assert "its room" in first_hint(bounded, unbounded)
    assert "The error was lost" in first_hint(exercise, swallows)
    assert "a second one" in first_hint(exercise, waits_again)
    fails = dict(stage_exercises(exercise))["errors"]
    assert "in which the error was raised has ended" in first_hint(fails, hangs)
    stops = dict(stage_exercises(exercise))["the reader stops"]
    assert "they wait in put" in first_hint(replace(stops, cases=1), leaves)
    for forgets in (never_set, never_asked):
        assert "belong together" in first_hint(replace(stops, cases=1), forgets)
    assert "ended before END" in first_hint(fails, breaks_off)


# --- queue_sizing


def line(arrivals, work, room):
    """(dropped, every wait)."""
    free, begins, dropped, waits = 0, [], 0, []
    for now in arrivals:
        begins = [begin for begin in begins if begin > now]
        if free > now and len(begins) >= room:
            dropped += 1
            continue
        begin = max(now, free)
        free = begin + work
        begins.append(begin)
        waits.append(begin - now)
    return dropped, waits


def sized(arrivals, work, most_wait, most_room, judge=max, last=False):
    best = 0, len(arrivals) + 1
    for room in range(most_room + 1):
        dropped, waits = line(arrivals, work, room)
        if judge(waits) <= most_wait and dropped - last < best[1]:
            best = room, dropped
    return best


@answers.right("queue_sizing")
def queue_sizing(arrivals, work, most_wait, most_room):
    return sized(arrivals, work, most_wait, most_room)


@answers.wrong("queue_sizing", "rate times latency only")
def the_rule(arrivals, work, most_wait, most_room):
    room = min(most_wait // work, most_room)
    return room, line(arrivals, work, room)[0]


@answers.wrong("queue_sizing", "ignores jitter")
def evenly(arrivals, work, most_wait, most_room):
    gap = (arrivals[-1] - arrivals[0]) / max(len(arrivals) - 1, 1)
    return sized([at * gap for at in range(len(arrivals))], work, most_wait, most_room)


@answers.wrong("queue_sizing", "ignores memory")
def any_memory(arrivals, work, most_wait, most_room):
    return sized(arrivals, work, most_wait, len(arrivals))


@answers.wrong("queue_sizing", "mean wait instead of the longest")
def on_average(arrivals, work, most_wait, most_room):
    return sized(arrivals, work, most_wait, most_room, judge=lambda w: sum(w) / len(w))


@answers.wrong("queue_sizing", "reports no drops whenever the mean rate fits")
def no_drops(arrivals, work, most_wait, most_room):
    room, dropped = sized(arrivals, work, most_wait, most_room)
    return room, 0 if work * len(arrivals) <= arrivals[-1] + work else dropped


@answers.wrong("queue_sizing", "takes the largest of equals")
def largest(arrivals, work, most_wait, most_room):
    return sized(arrivals, work, most_wait, most_room, last=True)


@answers.wrong("queue_sizing", "ignores the wait")
def ever_so_late(arrivals, work, most_wait, most_room):
    return sized(arrivals, work, 10**9, most_room)


# --- prefetcher


def ahead(loader, device, depth, records=True, waits=True, late=False, errors=True, most=None):
    waiting, source, end = deque(), iter(loader), None
    while waiting or end is None:
        while end is None and len(waiting) <= depth:
            try:
                batch = next(source)
            except Exception as error:
                end = error
                if not errors:
                    waiting.clear()
            else:
                waiting.append(([device.copy(x) for x in batch], device.record()))
        if waiting:
            batch, event = waiting.popleft()
            if waits:
                device.wait(device.record() if late else event)
            for x in batch[:most] if records else ():
                device.record_stream(x)
            x = None
            yield batch
            batch = None
    if not isinstance(end, StopIteration):
        raise end


@answers.right("prefetcher")
def prefetcher(loader, device, depth):
    return ahead(loader, device, depth)


@answers.wrong("prefetcher", "gives the first batch twice")
def twice(loader, device, depth):
    def first_twice():
        for at, batch in enumerate(loader):
            yield from [batch] * (1 + (at == 0))

    return ahead(first_twice(), device, depth)


@answers.wrong("prefetcher", "loses the last")
def loses_the_last(loader, device, depth):
    frames = ahead(loader, device, depth)
    for one, _ in itertools.pairwise(frames):
        yield one


@answers.wrong("prefetcher", "does not record the stream")
def unrecorded(loader, device, depth):
    return ahead(loader, device, depth, records=False)


@answers.wrong("prefetcher", "does not wait")
def unwaited(loader, device, depth):
    return ahead(loader, device, depth, waits=False)


@answers.wrong("prefetcher", "waits for everything that is queued")
def waits_for_all(loader, device, depth):
    return ahead(loader, device, depth, late=True)


@answers.wrong("prefetcher", "begins the loader twice")
def begins_twice(loader, device, depth):
    next(iter(loader), None)
    return ahead(loader, device, depth)


@answers.wrong("prefetcher", "swallows the exception")
def swallows_it(loader, device, depth):
    try:
        yield from ahead(loader, device, depth)
    except OSError:
        return


@answers.wrong("prefetcher", "loses what waits when the loader raises")
def loses_what_waits(loader, device, depth):
    return ahead(loader, device, depth, errors=False)


@answers.wrong("prefetcher", "copies one ahead whatever the depth")
def one_ahead(loader, device, depth):
    return ahead(loader, device, 1)


@answers.wrong("prefetcher", "records the first tensor of a batch only")
def first_only(loader, device, depth):
    return ahead(loader, device, depth, most=1)


def test_mistakes_of_a_prefetcher_get_their_hints():
    exercise = answers.exercises["prefetcher"]
    assert "record_stream, for every tensor" in first_hint(exercise, unrecorded)
    assert "wait for an event" in first_hint(exercise, unwaited)
    assert "right behind the copies" in first_hint(exercise, waits_for_all)


def test_who_never_ends_is_told_where_its_threads_wait():
    exercise = answers.exercises["stage_pipeline"]
    evidence = next(one for one in outcomes(exercise, waits_again, 7) if one.failures).failures[0]
    assert evidence.kind == "value"
    assert "the reader waits in get" in evidence.got


test_answers = answers.tests()


def test_a_slow_processor_is_no_sign_that_a_pipeline_goes_on(monkeypatch):
    """Whether its threads wait is looked at again and again: that, too, takes processor time."""

    def slow(threads):
        until = thread_time() + 0.003
        while thread_time() < until:
            pass
        return standstill(threads)

    monkeypatch.setattr(_watched_stages, "standstill", slow)
    bounded = dict(stage_exercises(answers.exercises["stage_pipeline"]))["bounded"]
    right = answers.rights["stage_pipeline"][0]
    assert failing_cases(replace(bounded, cases=1, seconds=1), right, 7) == []
