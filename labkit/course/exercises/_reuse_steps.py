"""The small steps of using memory twice: a cache's key, and the next size to be tried."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

Wish = tuple[str, int, dict[str, int]]


def _wishes(rng: Rng, size: int) -> tuple[list[Wish]]:
    films, names = ("a", "b", "a1"), ("blur", "gain")
    found: list[Wish] = []
    for _ in range(3 + 2 * size):
        chosen = [name for name in names if rng.chance(0.7)]
        rng.shuffle(chosen)
        settings = {name: rng.randint(1, 2) for name in chosen}
        found.append((rng.choice(films), rng.choice((1, 2, 11, 12)), settings))
    return (found,)


def _drive_keys(answer: Any, wishes: list[Wish]) -> list[Any]:
    return [answer(film, frame, settings) for film, frame, settings in wishes]


def _judge_keys(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "cache_key(film, frame, settings) returns a text"
    (wishes,) = case.inputs
    if not all(isinstance(key, str) for key in got):
        return "every key is a text"
    for at, one in enumerate(wishes):
        for other in range(at):
            if (one == wishes[other]) != (got[at] == got[other]):
                alike = "one key" if one == wishes[other] else "two keys"
                return Wrong(f"{wishes[other]} and {one} have {alike}")
    return None


def _one_left_out(evidence: Any) -> bool:
    """Whether the two requests with one key differ in one of the three only: it was left out."""
    (wishes,), got = evidence.inputs, evidence.value
    pairs = [(one, other) for at, one in enumerate(wishes) for n, other in enumerate(wishes[:at])
             if got[at] == got[n] and one != other]  # fmt: skip
    return any(sum(a != b for a, b in zip(*pair, strict=True)) == 1 for pair in pairs)


cache_key = Exercise(
    id="reuse.cache_key",
    case=_wishes,
    judge=_judge_keys,
    drive=_drive_keys,
    rung="warm-up",
    minutes=3,
    cases=40,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The same settings came in another order, and are still the same: sort them.",
            when=lambda e: "one key" in e.property,
        ),
        Hint(
            "Two different requests got one key. Are film, frame and all settings in it?",
            when=lambda e: "two keys" in e.property and _one_left_out(e),
        ),
        Hint(
            "Film, frame and settings are all in it, but it is not clear where one ends and the "
            "next begins.",
            when=lambda e: "two keys" in e.property,
        ),
        "repr of a tuple says all that is in it, and where each part ends.",
        "sorted(settings.items()) has one order only.",
    ),
    must_fail=("the frame number only", "without the settings", "only joins the texts",
               "keeps the order of the settings"),
)  # fmt: skip


Idle = list[tuple[int, int]]


def _first_fit(idle: Idle, nbytes: int, stream: int) -> int | None:
    return next((at for at, one in enumerate(idle) if one == (nbytes, stream)), None)


def _idle(rng: Rng, size: int) -> tuple[Idle, int, int]:
    idle = [(100 * rng.randint(1, 3), rng.randint(0, 1)) for _ in range(rng.randint(0, 2 + size))]
    return idle, 100 * rng.randint(1, 3), rng.randint(0, 1)


first_fit = Exercise(
    id="reuse.first_fit",
    case=_idle,
    expected=_first_fit,
    rung="warm-up",
    minutes=2,
    cases=60,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Nothing fits here: the answer is None.",
            when=lambda e: e.right is None,
        ),
        Hint(
            "This one was given back on the other stream.",
            when=lambda e: _given(e) is not None and _given(e)[1] != e.inputs[2],
        ),
        Hint(
            "This one has another size.",
            when=lambda e: _given(e) is not None and _given(e)[0] != e.inputs[1],
        ),
        "Go through the list from the front. The first pair equal to (nbytes, stream) is it.",
    ),
    must_fail=("any stream", "what is larger, too", "the last one", "fails when nothing fits",
               FIRST),
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
