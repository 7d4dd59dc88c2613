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
            "Two different wishes got one key. Are all three in it, and is it clear where one "
            "ends and the next begins? repr((film, frame)) keeps the quotes.",
            when=lambda e: "two keys" in e.property,
        ),
        "repr of a tuple says all that is in it.",
        "sorted(settings.items()) has one order only.",
    ),
    must_fail=("the frame number only", "without the settings", "only joins the texts",
               "keeps the order of the settings"),
)  # fmt: skip


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
