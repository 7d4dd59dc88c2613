"""The small steps of a pipeline: how long a film takes, how many frames lie about, who waits."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

Times = tuple[int, ...]


def _film_time(count: int, times: Times) -> int:
    return sum(times) + (count - 1) * max(times)


def _a_film(rng: Rng, size: int, stages: int = 0) -> tuple[int, Times]:
    stages = stages or rng.randint(1, 2 + size // 2)
    return rng.randint(1, 2 + 3 * size), tuple(rng.randint(1, 9) for _ in range(stages))


def scheduled(count: int, times: Times) -> list[dict[str, Any]]:
    """The spans of a film whose queues have room for all of it, each frame as early as it can."""
    free = [0] * len(times)
    spans = []
    for frame in range(count):
        ready = 0
        for stage, needs in enumerate(times):
            begin = max(ready, free[stage])
            ready = free[stage] = begin + needs
            spans.append(
                {"lane": f"stage {stage}", "name": f"{frame}", "start": begin, "end": ready}
            )
    return spans


def _film_drawn(case: Case, got: Any, right: Any) -> Any:
    from labkit import show

    count, times = case.inputs
    title = f"{count} frames through {times}: {right} ms"
    return show.timeline(scheduled(min(count, 12), times), unit="ms", title=title)


film_time = Exercise(
    id="pipeline.film_time",
    case=_a_film,
    expected=_film_time,
    rung="warm-up",
    minutes=3,
    cases=60,
    picture=_film_drawn,
    stages=(
        Stage("two stages", case=lambda rng, size: _a_film(rng, size, 2)),
        Stage("any stages"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "That is one thread for everything: nothing happens side by side.",
            when=lambda e: e.value == e.inputs[0] * sum(e.inputs[1]) != e.right,
        ),
        Hint(
            "The slowest stage alone. It begins when the first frame has come to it, and the last "
            "frame still has to go on behind it.",
            when=lambda e: e.value == e.inputs[0] * max(e.inputs[1]) != e.right,
        ),
        Hint("The first frame goes through every stage here, and you have left some of them out.",
             when=lambda e: e.inputs[0] == 1 and e.value < e.right),
        Hint("A film of one frame takes sum(times), and no more.",
             when=lambda e: e.inputs[0] == 1 and e.value > e.right),
        "The first frame goes through all stages: sum(times).",
        "Each further frame comes out max(times) behind the one before it.",
    ),
    must_fail=("one thread for everything", "the slowest stage alone", "one frame too many",
               "waits for the first stage only", FIRST),
)  # fmt: skip


def _most_frames(threads: int, room: int) -> int:
    return threads + (threads - 1) * room


most_frames = Exercise(
    id="pipeline.most_frames",
    case=lambda rng, size: (rng.randint(2, 3 + size), rng.randint(1, 2 + 2 * size)),
    expected=lambda threads, room: _most_frames(threads, room),
    rung="warm-up",
    minutes=3,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Those in the queues. And each thread has one frame in its hands.",
            when=lambda e: e.value == (e.inputs[0] - 1) * e.inputs[1],
        ),
        Hint(
            "Between three threads there are two queues.",
            when=lambda e: e.value in (e.inputs[0] * e.inputs[1], e.inputs[0] * (e.inputs[1] + 1)),
        ),
        "One frame in the hands of each thread, and every queue full.",
        "There is one queue less than there are threads.",
    ),
    must_fail=("counts the queues only", "one queue for each thread",
               "one queue for each thread, and no hands", "forgets who is last", FIRST),
)  # fmt: skip


def _longest_wait(room: int, work: int) -> int:
    return room * work


longest_wait = Exercise(
    id="pipeline.longest_wait",
    case=lambda rng, size: (rng.randint(1, 2 + 9 * size), rng.randint(1, 5 + size)),
    expected=lambda room, work: _longest_wait(room, work),
    rung="warm-up",
    minutes=2,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "In front of it are room - 1 frames in line. And one that has just been begun.",
            when=lambda e: e.value == (e.inputs[0] - 1) * e.inputs[1],
        ),
        Hint(
            "Its own work is no waiting.", when=lambda e: e.value == (e.inputs[0] + 1) * e.inputs[1]
        ),
        "Count the frames that must be finished before this one is begun.",
    ),
    must_fail=("forgets the frame that is worked on", "counts its own work",
               "gives the frames", FIRST),
)  # fmt: skip
