"""The small steps of using memory twice: the first buffer that fits, the next size to try."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

Idle = list[tuple[int, int, bool]]


def _first_fit(idle: Idle, nbytes: int, stream: int) -> int | None:
    fits = (
        at
        for at, (size, on, done) in enumerate(idle)
        if size == nbytes and _may_lend((size, on, done), stream)
    )
    return next(fits, None)


def _may_lend(one: tuple[int, int, bool], stream: int) -> bool:
    _, on, done = one
    return on == stream or done


def _idle(rng: Rng, size: int) -> tuple[Idle, int, int]:
    idle = [
        (128 * rng.randint(1, 2), rng.randint(0, 1), rng.chance(0.4))
        for _ in range(rng.randint(0, 2 + size))
    ]
    return idle, 128 * rng.randint(1, 2), rng.randint(0, 1)


first_fit = Exercise(
    id="reuse.first_fit",
    case=_idle,
    expected=_first_fit,
    rung="warm-up",
    minutes=4,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "This one was used on the other stream, and its work there is not done.",
            when=lambda e: _given(e) is not None and not _may_lend(_given(e), e.inputs[2]),
        ),
        Hint(
            "This one has another size.",
            when=lambda e: _given(e) is not None and _given(e)[0] != e.inputs[1],
        ),
        Hint(
            "Nothing fits here: the answer is None.",
            when=lambda e: e.right is None,
        ),
        Hint(
            "Work on this stream need not be done: what comes next is queued behind it.",
            when=lambda e: e.inputs[0][e.right][1] == e.inputs[2],
        ),
        "Go through the list from the front. Is the size right, and is it this stream or done?",
    ),
    must_fail=("any stream", "this stream only", "only what is done", "what is larger, too",
               "the last one", FIRST),
)  # fmt: skip


def _given(evidence: Any) -> Any:
    """The idle buffer that the answer chose, or None."""
    at, idle = evidence.value, evidence.inputs[0]
    return idle[at] if isinstance(at, int) and 0 <= at < len(idle) else None


def _next(fits: int, fails: int) -> int | None:
    return (fits + fails) // 2 if fails - fits > 1 else None


def _gap(rng: Rng, size: int) -> tuple[int, int]:
    fits = rng.randint(0, 3 + 8 * size)
    return fits, fits + rng.choice((1, 1, 2, 3, rng.randint(1, 4 + 9 * size)))


next_size = Exercise(
    id="reuse.next_size",
    case=_gap,
    expected=_next,
    rung="warm-up",
    minutes=3,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Between {input} there is no size left to try: None.",
            when=lambda e: e.right is None,
        ),
        Hint(
            "{got} is already known to fit, or not to fit.",
            when=lambda e: e.value is None or not e.inputs[0] < e.value < e.inputs[1],
        ),
        "The middle of the two, rounded down.",
    ),
    must_fail=("half of what failed", "twice what fitted", "never says that it is done",
               "one more than what fitted", FIRST),
)  # fmt: skip
