"""A pool of memory at work: who borrows what on which stream, and what an answer gets wrong."""

from collections.abc import Iterator
from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Steps = list[tuple[Any, ...]]


def _borrowers(rng: Rng, size: int, limit: bool = True, streams: bool = True) -> tuple[Steps, int]:
    steps: Steps = []
    held: list[tuple[int, int]] = []
    for number in range(4 + 4 * size):
        if held and rng.chance(0.5):
            steps.append(("give back", *held.pop(rng.randrange(len(held)))))
        else:
            stream = rng.randint(0, 1) if streams else 0
            steps.append(("lend", number, 100 * rng.randint(1, 4), stream))
            held.append((number, stream))
    return steps, 100 * rng.randint(2, 6) if limit else 10**6


def _drive_pool(answer: Any, steps: Steps, limit: int) -> list[str]:
    """For each `lend`, which of the buffers was lent, by the order in which they were made."""
    made: list[bytearray] = []

    def make(nbytes: int) -> bytearray:
        made.append(bytearray(nbytes))
        return made[-1]

    pool, held, told = answer(make, limit), {}, []
    for what, number, *rest in steps:
        if what == "lend":
            count = len(made)
            held[number] = pool.lend(*rest)
            places = [at for at, buffer in enumerate(made) if buffer is held[number]]
            told.append(_in_words(places[0] if places else None, len(made) > count))
        else:
            pool.give_back(held.pop(number), *rest)
    return told


@handed_out
def _in_words(place: int | None, new: bool) -> str:
    return "none of yours" if place is None else f"{'new' if new else 'old'} #{place}"


def _right_pool(steps: Steps, limit: int) -> list[str]:
    return [_in_words(place, new) for place, new, _ in _lent(steps, limit)]


def _lent(
    steps: Steps, limit: int
) -> Iterator[tuple[int, bool, dict[int, tuple[int, int | None]]]]:
    """For each `lend`: the buffer, whether it is new, and of all (bytes, stream of last return).

    A buffer that is lent has no such stream.
    """
    sizes: list[int] = []
    idle: list[tuple[int, int]] = []
    held: dict[int, int] = {}
    last: dict[int, tuple[int, int | None]] = {}
    for what, number, *rest in steps:
        if what == "lend":
            nbytes, stream = rest
            fits = [at for at, (one, on) in enumerate(idle) if (sizes[one], on) == (nbytes, stream)]
            if fits:
                held[number] = idle.pop(fits[0])[0]
            else:
                held[number] = len(sizes)
                sizes.append(nbytes)
            yield held[number], not fits, dict(last)
            last[held[number]] = nbytes, None
        else:
            idle.append((one := held.pop(number), rest[0]))
            last[one] = sizes[one], rest[0]
            while sum(sizes[one] for one, _ in idle) > limit:
                idle.pop(0)


def _mistake(evidence: Any) -> str:
    """What is wrong with the first buffer that should not have been lent."""
    steps, limit = evidence.inputs
    wishes = [step[2:] for step in steps if step[0] == "lend"]
    for got, (place, new, last), (nbytes, stream) in zip(
        evidence.value, _lent(steps, limit), wishes, strict=True
    ):
        if got == _in_words(place, new):
            continue
        kind, _, at = got.partition(" #")
        if kind != "old":
            return "not used again" if kind == "new" else "not made by make"
        size, returned = last.get(int(at), (nbytes, stream))
        if returned is None:
            return "lent twice"
        if size != nbytes:
            return "another size"
        return "another stream" if returned != stream else "dropped" if new else "not the first"
    return ""


def _pool_told(steps: Steps, limit: int) -> str:
    words = [
        f"job {number} borrows {rest[0]} bytes on stream {rest[1]}"
        if what == "lend"
        else f"job {number} gives back"
        for what, number, *rest in steps
    ]
    return "; ".join(words) + (f"; limit {limit} bytes" if limit < 10**6 else "")


tensor_pool = Exercise(
    id="reuse.tensor_pool",
    case=_borrowers,
    expected=_right_pool,
    drive=_drive_pool,
    show=_pool_told,
    minutes=8,
    cases=50,
    stages=(
        Stage("lend and return", case=lambda rng, size: _borrowers(rng, size, False, False)),
        Stage("streams", case=lambda rng, size: _borrowers(rng, size, False)),
        Stage("a limit"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A buffer was lent while somebody still had it: lend takes it out of the idle ones.",
             when=lambda e: _mistake(e) == "lent twice"),
        Hint("A buffer of another size was lent. Take one with just as many bytes.",
             when=lambda e: _mistake(e) == "another size"),
        Hint("A buffer was lent on the other stream: a kernel there may still read it. Keep the "
             "stream beside the buffer.", when=lambda e: _mistake(e) == "another stream"),
        Hint("An idle buffer fitted, and `make` was called: give_back keeps it, lend looks for it.",
             when=lambda e: _mistake(e) == "not used again" and e.stage != "a limit"),
        Hint("A buffer was lent that should have been dropped. After each give_back: while the "
             "idle buffers have more bytes than the limit, drop the one given back first.",
             when=lambda e: _mistake(e) == "dropped"),
        Hint("A buffer is missing that should still be idle. Drop the one given back first, and "
             "only while the idle ones have more bytes than the limit.",
             when=lambda e: _mistake(e) == "not used again"),
        Hint("Of several that fit, lend the one that was given back first.",
             when=lambda e: _mistake(e) == "not the first"),
        "A list of (buffer, stream), the oldest first, is enough.",
    ),
    must_fail=(
        "one tensor per key",
        "reuses on any stream",
        "never trims",
        "drops the newest",
        "never reuses",
        "lends what is larger, too",
        "lends the one given back last",
    ),
)  # fmt: skip
