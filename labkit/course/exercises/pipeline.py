"""A pipeline of threads: how fast it can be, how it ends, and how long its queue should be."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._loader_steps import prefetcher
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._stage_steps import film_time, longest_wait, most_frames
from labkit.course.exercises._watched_stages import drive
from labkit.course.exercises._watched_workers import nothing
from labkit.pipeline.profiling.queues import through

NOTEBOOK = "5_optimization/5_pipeline"

# --- stage_pipeline


def _judge_stages(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "stage_pipeline(source, stages, room) yields the frames"
    count, stages, room, breaks, takes, _ = case.inputs
    whole = list(range(count if breaks is None else min(count, breaks[1])))
    ended = "in order" if breaks is None else f"Broken: frame {breaks[1]}"
    if takes is not None and takes <= len(whole):
        whole, ended = whole[:takes], "the reader stopped"
    if "it never ends" in got:
        return Wrong("it comes to an end", f"{whole}, {ended}")
    if got["frames"] != whole:
        return Wrong("every frame before the end, once, in order", whole)
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if got["the source ran too far ahead"]:
        if ended == "in order":
            return Wrong(f"at most {room} items wait in each queue")
        return Wrong("the source stops once the reader has left or an error came out")
    if len(whole) == count and count and got["threads at work"] != stages + 2:
        return Wrong("the source, each stage and the reader have a thread each", stages + 2)
    if got["threads left"]:
        return Wrong("no thread is left", [])
    return None


def _never_ends(evidence: Any) -> bool:
    return "it never ends" in (evidence.value or ())


def _last_is_left(evidence: Any) -> bool:
    return any(who.startswith(f"stage {evidence.inputs[1]} ") for who in
               evidence.value["threads left"])  # fmt: skip


def _a_pipeline(rng: Rng, size: int, breaks: bool = True, stops: bool = True) -> tuple[Any, ...]:
    count, stages, room = rng.randint(0, 4 + 4 * size), rng.randint(1, 3), rng.randint(1, 3)
    fails = (rng.randint(0, stages), rng.randrange(count)) if breaks and count else None
    takes = rng.randint(1, count) if stops and count and rng.chance(0.5) else None
    return count, stages, room, fails if rng.chance(0.6) else None, takes, False


def _told(count: int, stages: int, room: int, breaks: Any, takes: Any, looks: bool) -> str:
    text = f"{count} frames, {stages} stages, room {room}"
    text += f"; frame {nothing(count)} is None" if count else ""
    if breaks is not None:
        who = f"stage {breaks[0]}" if breaks[0] else "the source"
        text += f"; {who} raises at frame {breaks[1]}"
    return text + (f"; the reader stops behind {takes} frames" if takes is not None else "")


stage_pipeline = Exercise(
    id="pipeline.stage_pipeline",
    case=_a_pipeline,
    judge=_judge_stages,
    drive=drive,
    show=_told,
    minutes=15,
    cases=30,
    seconds=5,
    waits=4,
    stages=(
        Stage("in order", case=lambda rng, size: _a_pipeline(rng, size, False, False), cases=10),
        Stage("bounded", case=lambda rng, size: (90, 1 + size % 3, 1 + size // 3, None, None, True),
              cases=4),
        Stage("errors", case=lambda rng, size: (
            9 + size, 2, 2, (rng.randint(0, 2), rng.randint(0, 8)), None, False), cases=15),
        Stage("the reader stops", case=lambda rng, size: (
            30 + size, 2, 2, None, rng.randint(1, 8), False), cases=10),
        Stage("together"),
    ),
    rules=("queue and threading do: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    processes=True,
    apart=True,
    hints=(
        Hint("The source went on although nobody took: give each Queue its room.",
             when=lambda e: "wait in each queue" in e.property),
        Hint("{input}: nobody took any more, and the source went on. Two lines belong together: "
             "the reader's `stop.set()` in its `finally`, and `if stop.is_set()` in `feed`, for "
             "each item.", when=lambda e: "the source stops" in e.property),
        Hint("The thread in which the error was raised has ended, and the next one waits for its "
             "END. Catch the error there, put it into the queue, and send END whatever happened.",
             when=lambda e: _never_ends(e) and e.inputs[3] is not None
             and len(e.value["frames"]) <= e.inputs[3][1]),
        Hint("The first loop took END out; the reader now waits for a second one. One "
             "`results = items(...)` for both loops knows that it is at its end.",
             when=lambda e: _never_ends(e) and "the reader waits in get" in e.got),
        Hint("The error was lost. Catch it in the thread, and put it into the queue.",
             when=lambda e: e.inputs[3] is not None and "how it ends" in e.property),
        Hint("A stage has ended before END came to it, and the thread before it waits in put for "
             "ever. After an error, too, it takes out pairs and hands them on, up to END.",
             when=lambda e: "no thread is left" in e.property and not _last_is_left(e)),
        Hint("{input}: threads are left, they wait in put. In a `finally`, tell the source to stop "
             "and take out what is still under way, up to END.",
             when=lambda e: "no thread is left" in e.property),
        Hint("{input}: a frame may be anything. Compare with your END, by `is`.",
             when=lambda e: "every frame" in e.property and (
                 nothing(e.inputs[0]) not in e.value["frames"])),
        Hint("Frames went missing, or came in another order: one thread for each stage, and one "
             "queue between two of them.", when=lambda e: "every frame" in e.property),
        "Put pairs (frame, error) into the queues: one of the two is None.",
        "A stage hands a pair with an error on as it is.",
        "Read the last queue through one results = items(queue), in the loop and in the `finally`: "
        "once END has come, it is at its end and does not wait again.",
    ),
    must_fail=(
        "unbounded queues",
        "hangs on error",
        "waits for a second END",
        "loses the tail",
        "order lost with two workers",
        "one thread does it all",
        "swallows the error",
        "the source's error is lost",
        "leaves threads when the reader stops",
        "the reader never says stop",
        "the source never asks for stop",
        "a stage ends at an error",
        "fetches everything first",
        "a frame None ends the stream",
        "drops None",
    ),
)  # fmt: skip

# --- queue_sizing

Frames = tuple[list[int], int, int, int]


def _sized(arrivals: list[int], work: int, most_wait: int, most_room: int) -> tuple[int, int]:
    best = (0, len(arrivals) + 1)
    for room in range(most_room + 1):
        line = through(arrivals, [work] * len(arrivals), room)
        if max(line.waits, default=0) <= most_wait and line.dropped < best[1]:
            best = room, line.dropped
    return best


def _a_camera(rng: Rng, size: int, bursts: bool = True, waits: bool = True) -> Frames:
    work, now, arrivals = rng.randint(3, 9), 0, list[int]()
    while len(arrivals) < 4 + 6 * size:
        burst = rng.randint(1, 2 + size) if bursts else 1
        arrivals += [now + n for n in range(burst)]
        now += max(burst, rng.randint(work - 1, work + 3) * burst)
    most_wait = rng.randint(work, work * (2 + size)) if waits else 10**6
    return arrivals, work, most_wait, rng.randint(1, 4 + size)


def _line_drawn(case: Case, got: Any, right: Any) -> Any:
    """The right room at work: who waits, who is worked on, who is dropped."""
    from labkit import show

    arrivals, work, _, _ = case.inputs
    if len(arrivals) > 25:
        return None
    line = through(arrivals, [work] * len(arrivals), right[0])
    spans = [{"lane": "worked on", "name": f"{at}", "start": begin, "end": begin + work}
             for at, begin in zip(line.entered, line.left, strict=True)]  # fmt: skip
    spans += [{"lane": "waits", "name": f"{at} waits", "start": at, "end": begin, "kind": "host"}
              for at, begin in zip(line.entered, line.left, strict=True) if begin > at]  # fmt: skip
    return show.timeline(spans, unit="ms", title=f"room {right[0]}: {right[1]} dropped; by arrival")


queue_sizing = Exercise(
    id="pipeline.queue_sizing",
    case=_a_camera,
    expected=_sized,
    picture=_line_drawn,
    minutes=10,
    cases=60,
    stages=(
        Stage("one by one", case=lambda rng, size: _a_camera(rng, size, False, False), cases=10),
        Stage("bursts", case=lambda rng, size: _a_camera(rng, size, True, False), cases=25),
        Stage("not too late"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "More room than memory allows.",
            when=lambda e: isinstance(e.value, tuple) and e.value[0] > e.inputs[3],
        ),
        Hint(
            "So few are dropped with {got}, but less room does it as well: take the smallest.",
            when=lambda e: e.value[1] == e.right[1] and e.value[0] > e.right[0],
        ),
        Hint(
            "With this room some frame waits longer than most_wait.",
            when=lambda e: e.value[0] > e.right[0],
        ),
        Hint(
            "More room would drop fewer, and nobody would wait too long.",
            when=lambda e: e.value[0] < e.right[0],
        ),
        "Try every room from 0 to most_room with `line`.",
        "Keep the first one that drops fewer than all before it, among those whose longest wait "
        "is allowed.",
    ),
    must_fail=(
        "rate times latency only",
        "ignores jitter",
        "ignores memory",
        "mean wait instead of the longest",
        "reports no drops whenever the mean rate fits",
        "takes the largest of equals",
        "ignores the wait",
        FIRST,
    ),
)

EXERCISES = (film_time, most_frames, stage_pipeline, longest_wait, queue_sizing, prefetcher)
