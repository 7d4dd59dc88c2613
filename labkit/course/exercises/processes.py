"""Processes that share memory: where a frame lies in it, what is sent, and a pool of workers."""

import math
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._shared_workers import drive

NOTEBOOK = "5_optimization/3d_processes"

# --- place_of


def _a_place(rng: Rng, size: int, itemsize: int = 0) -> tuple[int, tuple[int, ...], int]:
    shape = tuple(rng.randint(1, 3 + size) for _ in range(rng.randint(1, 3)))
    return rng.randint(0, 1 + size), shape, itemsize or rng.choice((1, 2, 4, 8))


def _place_of(number: int, shape: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    size = math.prod(shape) * itemsize
    return number * size, (number + 1) * size


place_of = Exercise(
    id="processes.place_of",
    case=_a_place,
    expected=_place_of,
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(Stage("bytes", case=lambda rng, size: _a_place(rng, size, 1)), Stage("any numbers")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("{got} counts numbers. Each of them has `itemsize` bytes.",
             stage="any numbers", when=lambda e: e.value[1] * e.inputs[2] == e.right[1]),
        Hint("A shape has any number of dimensions, also one: multiply all of them.",
             when=lambda e: e.kind == "raised" and "IndexError" in e.got),
        Hint("The end is the first byte that is not the frame's: where the next frame begins.",
             when=lambda e: e.value[0] == e.right[0]),
        "The first frame begins at byte 0.",
        "size = math.prod(shape) * itemsize bytes lie between two beginnings.",
    ),
    must_fail=("numbers instead of bytes", "the last byte as the end", "counts from one",
               "begin and length", "the first size only", FIRST),
)  # fmt: skip

# --- bytes_sent


def _bytes_sent(count: int, frame: int, word: int, shared: bool) -> int:
    return 2 * count * (word if shared else frame)


bytes_sent = Exercise(
    id="processes.bytes_sent",
    case=lambda rng, size: (
        rng.randint(1, 5 + 9 * size),
        rng.choice((rng.randint(1, 30), rng.randint(100, 10 ** (3 + size)))), rng.randint(1, 90),
        rng.chance(0.5)),
    expected=lambda count, frame, word, shared: _bytes_sent(count, frame, word, shared),
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(Stage("sent", only=lambda count, frame, word, shared: not shared), Stage("both")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("That is the way there. The result has to come back.",
             when=lambda e: 2 * e.value == e.right),
        Hint("In shared memory, nothing of the frame goes through the pipe: only words do.",
             when=lambda e: e.inputs[3] and e.inputs[1] > e.inputs[2]
             and e.value > e.right),
        "Each frame goes through the pipe twice, or a word does.",
    ),
    must_fail=("one way only", "always the frame", "always the word", "frame and word",
               "the shorter one", FIRST),
)  # fmt: skip

# --- shared_memory_pool


def _judge(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "shared_memory_pool(start, frames, workers) yields the results"
    count, workers, dies, takes, starts = case.inputs
    whole, ended = list(range(count)), "in order"
    if dies is not None and dies < count:
        whole, ended = whole[:dies], "an error"
    if takes is not None and takes <= len(whole):
        whole, ended = whole[:takes], "the reader left"
    if starts is not None:
        whole, ended = [], "the error of start()"
    if str(got["ended"]).startswith("waits for ever"):
        return Wrong("it comes to an end")
    if got["wrong"]:
        return Wrong(f"no frame is lost or spoiled: {got['wrong'][0]}")
    if got["frames"] != whole:
        return Wrong("the result of every frame before the end, once, in order", whole)
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if got["overwritten"]:
        return Wrong("the frames that were given are as before: a result is a copy")
    if got["largest message"] > 200:
        return Wrong("frames do not go through the pipe: no message has more than 200 bytes")
    if got["workers"] > workers:
        return Wrong("at most `workers` workers are started", workers)
    if got["frames read ahead"] > workers + 1:
        return Wrong("at most `workers + 1` frames are read and not yet yielded")
    if takes is dies is starts is None and got["at work at the same time"] < min(workers, count):
        return Wrong("all workers have a frame at the same time", min(workers, count))
    if starts is None and got["somebody rests"]:
        return Wrong("no worker stands still while there are frames")
    if got["not ended"]:
        return Wrong("every worker is killed")
    if got["not waited for"]:
        return Wrong("every worker's end is waited for: join()")
    return None


def _spoiled(frames: list[int]) -> bool:
    return -1 in frames or len(set(frames)) < len(frames)


def _a_film(rng: Rng, size: int, ends: bool = True) -> tuple[Any, ...]:
    count, workers = rng.randint(0, 4 + 4 * size), rng.randint(1, 4)
    dies = rng.randrange(count) if ends and count and rng.chance(0.4) else None
    takes = rng.randint(1, count) if ends and count and rng.chance(0.4) else None
    if ends and min(count, workers) > 1 and rng.chance(0.3):
        return count, workers, None, None, rng.randint(1, min(count, workers) - 1)
    return count, workers, dies, takes, None


def _told(count: int, workers: int, dies: Any, takes: Any, starts: Any) -> str:
    text = f"{count} frames, {workers} workers"
    text += f"; the worker with frame {dies} is killed" if dies is not None else ""
    text += f"; start() raises OSError behind {starts} workers" if starts is not None else ""
    return text + (f"; the reader leaves behind {takes} frames" if takes is not None else "")


shared_memory_pool = Exercise(
    id="processes.shared_memory_pool",
    case=_a_film,
    judge=_judge,
    drive=drive,
    show=_told,
    minutes=15,
    cases=60,
    stages=(
        Stage("one worker", case=lambda rng, size: (rng.randint(0, 2 + size), 1, None, None, None)),
        Stage("several", case=lambda rng, size: _a_film(rng, size, False)),
        Stage("a worker is killed", case=lambda rng, size: (
            8 + size, rng.randint(2, 4), rng.randrange(8), None, None)),
        Stage("the reader leaves", case=lambda rng, size: (
            8 + size, rng.randint(2, 4), None, rng.randint(1, 8), None)),
        Stage("a start fails", case=lambda rng, size: (8, 2 + size, None, None, 1 + size // 2),
              cases=4),
        Stage("together"),
    ),
    rules=("no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Yield a copy: the worker's place gets another frame soon.",
             when=lambda e: "in order" in e.property and _spoiled(e.value["frames"])),
        Hint("A worker answers each word once. Take the answer of its last frame before it gets "
             "another one.", when=lambda e: "before it has given" in e.property),
        Hint("The worker reads its place while you write to it. Wait for its word first.",
             when=lambda e: "is written to" in e.property),
        Hint("It says where it waits: {got}. A worker ends when it is killed, and answers only "
             "when it has a frame.", when=lambda e: "comes to an end" in e.property),
        Hint("Only read the frames that you are given. Yield `worker.frame.copy()`.",
             when=lambda e: "as before" in e.property),
        Hint("Do not make a list of the frames: one goes in when one result is out.",
             when=lambda e: "are read" in e.property),
        Hint("Start `workers` of them, once, before the first frame.",
             when=lambda e: "are started" in e.property),
        Hint("Do not take the results of a whole group: when the oldest result is out, its worker "
             "gets the next frame.", when=lambda e: "stands still" in e.property),
        Hint("Put the frame into worker.frame[...], and send a short word.",
             when=lambda e: "through the pipe" in e.property),
        Hint("Give every worker a frame before you wait for the first answer.",
             when=lambda e: "at the same time" in e.property),
        Hint("Put each worker into a list as soon as it is started, inside the `try`. In the "
             "`finally`, kill and join those in the list.",
             when=lambda e: e.inputs[4] is not None and "every worker" in e.property),
        Hint("In a `finally`, kill the process of each worker, and join it. So it happens also "
             "when a worker has died, or the reader has left.",
             when=lambda e: "every worker" in e.property),
        Hint("Do not catch the EOFError of recv(): it is what the reader should be told.",
             when=lambda e: "how it ends" in e.property),
        "Frame n goes to worker n % workers. When all have one, take the result of the oldest "
        "frame out before the next one goes in.",
    ),
    must_fail=(
        "sends the frames",
        "yields the place itself",
        "one at a time",
        "hangs at the end",
        "swallows the death",
        "hangs when a worker dies",
        "leaves workers when one dies",
        "leaves workers when the reader leaves",
        "does not join",
        "loses the tail",
        "a worker for each frame",
        "reads the whole film",
        "the last first",
        "a frame goes in too early",
        "writes into the caller's frames",
        "in rounds",
        "a start that fails leaves workers",
    ),
)  # fmt: skip

EXERCISES = (bytes_sent, place_of, shared_memory_pool)
