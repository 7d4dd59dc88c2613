"""Right and wrong answers to the exercises on threads."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice

from labkit.course.checking.stages import stage_exercises
from tests.course.answers import Answers, first_hint

answers = Answers("cpu")

answers.right("best_gain")(lambda python, free, threads: min(threads, (python + free) / python))
answers.right("best_gain")(lambda python, free, threads: float(min(threads, 1 + free / python)))
for why, wrong in {
    "as many as threads": lambda python, free, threads: threads,
    "forgets the threads": lambda python, free, threads: (python + free) / python,
    "free over python": lambda python, free, threads: min(threads, free / python),
    "whole numbers": lambda python, free, threads: min(threads, (python + free) // python),
    "the wrong way round": lambda python, free, threads: max(1, python / (python + free) * threads),
}.items():
    answers.wrong("best_gain", why)(wrong)

answers.right("workers_for")(lambda cores, each: max(1, cores // each))
for why, wrong in {
    "as many as cores": lambda cores, each: cores,
    "no worker at all": lambda cores, each: cores // each,
    "rounds up": lambda cores, each: -(-cores // each),
    "the difference": lambda cores, each: max(1, cores - each),
}.items():
    answers.wrong("workers_for", why)(wrong)


def own_tools(setup):
    own = threading.local()

    def work(frame):
        if not hasattr(own, "prepare"):
            own.prepare = setup()
        return own.prepare(frame)

    return work


def piped(setup, frames, workers, ahead, make=own_tools, tail=True, more=0):
    """The right pool; each argument breaks one thing."""
    work, waiting = make(setup), deque()
    with ThreadPoolExecutor(workers) as pool:
        for frame in frames:
            waiting.append(pool.submit(work, frame))
            if len(waiting) == ahead + more:
                yield waiting.popleft().result()
        while len(waiting) > (not tail):
            yield waiting.popleft().result()


@answers.right("thread_pipeline")
def thread_pipeline(setup, frames, workers, ahead):
    return piped(setup, frames, workers, ahead)


@answers.right("thread_pipeline")
def filled_first(setup, frames, workers, ahead):
    """As labkit's own: one more is handed in behind each that was given out."""
    work, source = own_tools(setup), iter(frames)
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = deque(pool.submit(work, frame) for frame in islice(source, ahead))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(work, frame) for frame in islice(source, 1))
    finally:
        pool.shutdown(cancel_futures=True)


@answers.wrong("thread_pipeline", "submits all at once")
def all_at_once(setup, frames, workers, ahead):
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(own_tools(setup), frames)


@answers.wrong("thread_pipeline", "loses exceptions")
def loses(setup, frames, workers, ahead):
    try:
        yield from piped(setup, frames, workers, ahead)
    except Exception:
        return


@answers.wrong("thread_pipeline", "unordered")
def unordered(setup, frames, workers, ahead):
    work, waiting = own_tools(setup), []
    with ThreadPoolExecutor(workers) as pool:
        for frame in frames:
            if len(waiting) == ahead:
                done = next(as_completed(waiting))
                waiting.remove(done)
                yield done.result()
            waiting.append(pool.submit(work, frame))
        for done in as_completed(waiting):
            yield done.result()


@answers.wrong("thread_pipeline", "deadlocks when the consumer stops early")
def deadlocks(setup, frames, workers, ahead):
    gone = threading.Event()
    with ThreadPoolExecutor(workers + 1) as pool:
        pool.submit(gone.wait)
        yield from piped(setup, frames, workers, ahead)
        gone.set()


@answers.wrong("thread_pipeline", "leaves its threads")
def leaves(setup, frames, workers, ahead):
    work, waiting = own_tools(setup), deque()
    pool = ThreadPoolExecutor(workers)
    KEPT.append(pool)
    for frame in frames:
        if len(waiting) == ahead:
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, frame))
    while waiting:
        yield waiting.popleft().result()


KEPT = []


@answers.wrong("thread_pipeline", "one group after another")
def groups(setup, frames, workers, ahead):
    work, group = own_tools(setup), []
    with ThreadPoolExecutor(workers) as pool:
        for frame in frames:
            group.append(pool.submit(work, frame))
            if len(group) == workers:
                yield from [future.result() for future in group]
                group = []
        yield from [future.result() for future in group]


@answers.wrong("thread_pipeline", "one worker")
def one_worker(setup, frames, workers, ahead):
    return piped(setup, frames, 1, ahead)


@answers.wrong("thread_pipeline", "a tool for each frame")
def tool_for_each(setup, frames, workers, ahead):
    return piped(setup, frames, workers, ahead, make=lambda setup: lambda frame: setup()(frame))


@answers.wrong("thread_pipeline", "one tool for all")
def one_tool(setup, frames, workers, ahead):
    def make(setup):
        made, lock = [], threading.Lock()

        def work(frame):
            with lock:
                if not made:
                    made.append(setup())
            return made[0](frame)

        return work

    return piped(setup, frames, workers, ahead, make=make)


@answers.wrong("thread_pipeline", "the tools are made by the reader")
def made_by_reader(setup, frames, workers, ahead):
    def make(setup):
        free = deque(setup() for _ in range(workers))

        def work(frame):
            prepare = free.popleft()
            try:
                return prepare(frame)
            finally:
                free.append(prepare)

        return work

    return piped(setup, frames, workers, ahead, make=make)


@answers.wrong("thread_pipeline", "an initializer's error is lost")
def initializer(setup, frames, workers, ahead):
    own, waiting = threading.local(), deque()

    def begin():
        own.prepare = setup()

    with ThreadPoolExecutor(workers, initializer=begin) as pool:
        for frame in frames:
            if len(waiting) == ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(lambda frame: own.prepare(frame), frame))
        while waiting:
            yield waiting.popleft().result()


@answers.wrong("thread_pipeline", "a pool for each group")
def pool_for_each(setup, frames, workers, ahead):
    frames = list(frames)
    for at in range(0, len(frames), ahead):
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(own_tools(setup), frames[at : at + ahead])


@answers.wrong("thread_pipeline", "a pool in each worker")
def nested(setup, frames, workers, ahead):
    """As many frames are worked on at once as the square of `workers`."""
    work, waiting, source = own_tools(setup), deque(), iter(frames)

    def inner(group):
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, group))

    with ThreadPoolExecutor(workers) as pool:
        while group := list(islice(source, workers)):
            waiting.append(pool.submit(inner, group))
            if len(waiting) * workers >= ahead:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


@answers.wrong("thread_pipeline", "the reader does the work")
def reader_works(setup, frames, workers, ahead):
    prepare = setup()
    for frame in frames:
        yield prepare(frame)


@answers.wrong("thread_pipeline", "loses the tail")
def loses_the_tail(setup, frames, workers, ahead):
    return piped(setup, frames, workers, ahead, tail=False)


@answers.wrong("thread_pipeline", "one too many is read")
def one_more(setup, frames, workers, ahead):
    return piped(setup, frames, workers, ahead, more=1)


@answers.wrong("thread_pipeline", "one too many is read")
def read_before_it_yields(setup, frames, workers, ahead):
    work, waiting = own_tools(setup), deque()
    with ThreadPoolExecutor(workers) as pool:
        for frame in frames:
            if len(waiting) == ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, frame))
        while waiting:
            yield waiting.popleft().result()


@answers.wrong("thread_pipeline", "never shuts its pool down")
def never_shut_down(setup, frames, workers, ahead):
    work, waiting, source = own_tools(setup), deque(), iter(frames)
    pool = ThreadPoolExecutor(workers)
    waiting.extend(pool.submit(work, frame) for frame in islice(source, ahead))
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(work, frame) for frame in islice(source, 1))


@answers.wrong("thread_pipeline", "never shuts its pool down")
def does_not_wait(setup, frames, workers, ahead):
    work, waiting, source = own_tools(setup), deque(), iter(frames)
    pool = ThreadPoolExecutor(workers)
    try:
        waiting.extend(pool.submit(work, frame) for frame in islice(source, ahead))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(work, frame) for frame in islice(source, 1))
    finally:
        pool.shutdown(wait=False)


@answers.wrong("thread_pipeline", "a frame None ends the stream")
def none_ends(setup, frames, workers, ahead):
    return piped(setup, iter(iter(frames).__next__, None), workers, ahead)


def test_mistakes_get_their_hints():
    exercise = answers.exercises["thread_pipeline"]
    stages = dict(stage_exercises(exercise))
    few = replace(stages["few frames at a time"], cases=1)
    assert "reads the film to its end" in first_hint(few, all_at_once)
    assert "An error was lost" in first_hint(stages["errors"], loses)
    assert "written to the log" in first_hint(stages["errors"], initializer)
    assert "waits for its threads" in first_hint(replace(stages["in order"], cases=1), leaves)
    assert "threading.local" in first_hint(stages["in order"], tool_for_each)
    assert "one pool of `workers`" in first_hint(stages["in order"], nested)
    assert "may be anything" in first_hint(stages["in order"], none_ends)
    assert "waits for its threads" in first_hint(stages["the reader leaves"], never_shut_down)


test_answers = answers.tests()
