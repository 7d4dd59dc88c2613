"""Right and wrong answers to the exercises on processes."""

import contextlib
import math
from collections import deque

from labkit.course.checking.stages import stage_exercises
from tests.course.answers import Answers, first_hint

answers = Answers("processes")


@answers.right("place_of")
def place_of(number, shape, itemsize):
    size = math.prod(shape) * itemsize
    return number * size, (number + 1) * size


for why, wrong in {
    "numbers instead of bytes": lambda number, shape, itemsize: place_of(number, shape, 1),
    "the last byte as the end": lambda *asked: (place_of(*asked)[0], place_of(*asked)[1] - 1),
    "counts from one": lambda number, shape, itemsize: place_of(number - 1, shape, itemsize),
    "begin and length": lambda *asked: (place_of(*asked)[0], place_of(0, *asked[1:])[1]),
    "the first size only": lambda number, shape, itemsize: place_of(number, shape[:1], itemsize),
}.items():
    answers.wrong("place_of", why)(wrong)

answers.right("bytes_sent")(
    lambda count, frame, word, shared: 2 * count * (word if shared else frame)
)
for why, wrong in {
    "one way only": lambda count, frame, word, shared: count * (word if shared else frame),
    "always the frame": lambda count, frame, word, shared: 2 * count * frame,
    "always the word": lambda count, frame, word, shared: 2 * count * word,
    "frame and word": lambda count, frame, word, shared: (
        count * (2 * word if shared else frame + word)
    ),
    "the shorter one": lambda count, frame, word, shared: (
        2 * count * (min(word, frame) if shared else frame)
    ),
}.items():
    answers.wrong("bytes_sent", why)(wrong)


def pooled(
    start, frames, workers, copies=True, kills=True, joins=True, ends=True, tail=True, early=False,
    message="go", again=False,
):  # fmt: skip
    """The right pool; each switch takes one thing out of it."""
    team, busy = [], deque()

    def result():
        worker = busy.popleft()
        while True:
            try:
                worker.pipe.recv()
            except EOFError:
                if not again:
                    raise
            else:
                return worker.frame.copy() if copies else worker.frame

    done = False
    try:
        for _ in range(workers):
            team.append(start())
        for number, frame in enumerate(frames):
            worker = team[number % workers]
            if early:
                worker.frame[...] = frame
            if len(busy) == workers:
                yield result()
            worker.frame[...] = frame
            worker.pipe.send(message if message == "go" else frame)
            busy.append(worker)
        while len(busy) > (not tail):
            yield result()
        done = True
    finally:
        if done or ends:
            for worker in team:
                if kills:
                    worker.process.kill()
                if joins:
                    worker.process.join()


@answers.right("shared_memory_pool")
def shared_memory_pool(start, frames, workers):
    return pooled(start, frames, workers)


@answers.right("shared_memory_pool")
def started_when_needed(start, frames, workers):
    """Another right way: new workers for the first frames, killed in the end."""
    team, busy = [], deque()
    try:
        for frame in frames:
            if len(busy) < workers:
                worker = start()
                team.append(worker)
            else:
                worker = busy.popleft()
                worker.pipe.recv()
                yield worker.frame.copy()
            worker.frame[...] = frame
            worker.pipe.send(None)
            busy.append(worker)
        for worker in busy:
            worker.pipe.recv()
            yield worker.frame.copy()
    finally:
        for worker in team:
            worker.process.kill()
            worker.process.join()


@answers.right("shared_memory_pool")
def any_order(start, frames, workers):
    """Another right way: it asks who is done, and keeps what comes too early."""
    team, busy, early, frames = [], {}, {}, enumerate(frames)
    try:
        for _ in range(workers):
            team.append(start())
        free, turn, more = list(team), 0, True
        while more or busy or turn in early:
            while free and more:
                number, frame = next(frames, (None, None))
                more = frame is not None
                if more:
                    worker = free.pop()
                    worker.frame[...] = frame
                    worker.pipe.send("go")
                    busy[number] = worker
            for number in [n for n, worker in sorted(busy.items()) if worker.pipe.poll()]:
                busy[number].pipe.recv()
                early[number] = busy[number].frame.copy()
                free.append(busy.pop(number))
                while turn in early:
                    yield early.pop(turn)
                    turn += 1
    finally:
        for worker in team:
            worker.process.kill()
            worker.process.join()


for why, broken in {
    "sends the frames": {"message": "frame"},
    "yields the place itself": {"copies": False},
    "hangs at the end": {"kills": False},
    "does not join": {"joins": False},
    "loses the tail": {"tail": False},
    "leaves workers when one dies": {"ends": False},
    "a frame goes in too early": {"early": True},
    "hangs when a worker dies": {"again": True},
}.items():
    answers.wrong("shared_memory_pool", why)(
        lambda start, frames, workers, broken=broken: pooled(start, frames, workers, **broken)
    )


@answers.wrong("shared_memory_pool", "one at a time")
def one_at_a_time(start, frames, workers):
    return pooled(start, frames, 1)


@answers.wrong("shared_memory_pool", "swallows the death")
def swallows(start, frames, workers):
    with contextlib.suppress(EOFError):
        yield from pooled(start, frames, workers)


@answers.wrong("shared_memory_pool", "leaves workers when the reader leaves")
def leaves(start, frames, workers):
    team = []

    def noted():
        team.append(start())
        return team[-1]

    try:
        yield from pooled(noted, frames, workers, kills=False, joins=False)
    except GeneratorExit:
        team.clear()
        raise
    finally:
        for worker in team:
            worker.process.kill()
            worker.process.join()


@answers.wrong("shared_memory_pool", "a worker for each frame")
def worker_for_each(start, frames, workers):
    for frame in frames:
        yield from pooled(start, [frame], 1)


@answers.wrong("shared_memory_pool", "reads the whole film")
def whole_film(start, frames, workers):
    return pooled(start, list(frames), workers)


@answers.wrong("shared_memory_pool", "writes into the caller's frames")
def into_the_frames(start, frames, workers):
    given = []

    def noted():
        for frame in frames:
            given.append(frame)
            yield frame

    for number, result in enumerate(pooled(start, noted(), workers)):
        given[number][...] = result
        yield given[number]


@answers.wrong("shared_memory_pool", "a start that fails leaves workers")
def starts_first(start, frames, workers):
    team = iter([start() for _ in range(workers)])
    yield from pooled(lambda: next(team), frames, workers)


@answers.wrong("shared_memory_pool", "in rounds")
def in_rounds(start, frames, workers):
    return grouped(start, frames, workers, list)


@answers.wrong("shared_memory_pool", "the last first")
def last_first(start, frames, workers):
    return grouped(start, frames, workers, reversed)


def grouped(start, frames, workers, order):
    team, group = [], []
    try:
        for _ in range(workers):
            team.append(start())
        for frame in frames:
            if len(group) == workers:
                yield from taken(order(group))
                group = []
            worker = team[len(group)]
            worker.frame[...] = frame
            worker.pipe.send("go")
            group.append(worker)
        yield from taken(order(group))
    finally:
        for worker in team:
            worker.process.terminate()
            worker.process.join()


def taken(group):
    for worker in group:
        worker.pipe.recv()
        yield worker.frame.copy()


def test_mistakes_get_their_hints():
    exercise = answers.exercises["shared_memory_pool"]
    stages = dict(stage_exercises(exercise))
    wrongs = {why: make() for why, make in answers.wrongs["shared_memory_pool"]}
    assert "Yield a copy" in first_hint(exercise, wrongs["yields the place itself"])
    assert "short word" in first_hint(exercise, wrongs["sends the frames"])
    assert "before you wait" in first_hint(stages["several"], one_at_a_time)
    assert "`finally`" in first_hint(exercise, wrongs["does not join"])
    assert "`finally`" in first_hint(
        stages["a worker is killed"], wrongs["leaves workers when one dies"]
    )
    hangs = wrongs["hangs when a worker dies"]
    assert "where it waits" in first_hint(stages["a worker is killed"], hangs)
    assert "Do not catch" in first_hint(stages["a worker is killed"], swallows)
    assert "whole group" in first_hint(exercise, in_rounds)
    assert "Only read" in first_hint(exercise, into_the_frames)
    assert "as soon as it is started" in first_hint(stages["a start fails"], starts_first)
    assert "a list of the frames" in first_hint(exercise, whole_film)
    assert "where it waits" in first_hint(exercise, wrongs["hangs at the end"])


test_answers = answers.tests()
