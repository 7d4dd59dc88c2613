"""The small steps on uploads: the first fill that comes too early, and whom a copy waits for."""

from labkit.course.exercise import Evidence, Exercise, Hint, Rng


def _host_steps(rng: Rng, size: int) -> tuple[list[str]]:
    return ([rng.choice(("fill", "copy", "wait")) for _ in range(rng.randint(0, 2 + 2 * size))],)


def _first_overwrite(steps: list[str]) -> int | None:
    on_its_way = False
    for at, step in enumerate(steps):
        if step == "fill" and on_its_way:
            return at
        on_its_way = step == "copy" or (on_its_way and step != "wait")
    return None


def _no_fill(evidence: Evidence) -> bool:
    (steps,), got = evidence.inputs, evidence.value
    return isinstance(got, int) and not (0 <= got < len(steps) and steps[got] == "fill")


def _later_than_right(evidence: Evidence) -> bool:
    got, right = evidence.value, evidence.right
    return isinstance(right, int) and (got is None or (isinstance(got, int) and got > right))


first_overwrite = Exercise(
    id="overwritten_batch.first_overwrite",
    case=_host_steps,
    expected=_first_overwrite,
    rung="warm-up",
    cases=200,
    minutes=4,
    rules=("plain Python",),
    hints=(
        Hint(
            "At the place that you return there is no fill: the answer is the place of a fill in "
            "the list, from 0.",
            when=_no_fill,
        ),
        Hint(
            "Nothing was on its way any more: the host had waited since the last copy. Or nothing "
            "had been sent yet. Then a fill harms nobody.",
            when=lambda e: isinstance(e.value, int) and not _later_than_right(e),
        ),
        Hint(
            "A fill comes while a copy may still be on its way. Only a wait behind the copy ends "
            "that; other copies do not.",
            when=_later_than_right,
        ),
        "Go over the steps with one name, on_its_way: a copy makes it True, a wait makes it False.",
    ),
    must_fail=(
        "takes the first fill",
        "takes the first fill after a copy, wait or not",
        "asks for a wait anywhere before",
        "takes a second copy for the end of the first",
        "gives how many fills come too early",
    ),
)


def _a_batch(rng: Rng, size: int) -> tuple[int, int]:
    return rng.randint(0, 3 + 3 * size), rng.randint(1, 2 + size // 2)


def _waits_for(batch: int, buffers: int) -> int | None:
    return batch - buffers if batch >= buffers else None


def _is_early(batch: int, buffers: int) -> bool:
    return batch < buffers


waits_for = Exercise(
    id="overwritten_batch.waits_for",
    case=_a_batch,
    expected=_waits_for,
    rung="warm-up",
    cases=120,
    minutes=2,
    rules=("plain Python",),
    hints=(
        Hint(
            "Each buffer is still new for its first batch: this copy waits for nobody.",
            when=lambda e: _is_early(*e.inputs),
        ),
        Hint(
            "This buffer is not new any more: a batch lay there before. Batch 0 is one, too.",
            when=lambda e: e.value is None,
        ),
        Hint(
            "That is the number of the buffer. Which batch lay there before this one?",
            when=lambda e: e.inputs[0] >= e.inputs[1] and e.value == e.inputs[0] % e.inputs[1],
        ),
        Hint(
            "The batch just before lies in another buffer, as long as there is more than one.",
            when=lambda e: e.value == e.inputs[0] - 1,
        ),
        "Batch n lies in buffer n % buffers. Which batch lay there before?",
    ),
    must_fail=(
        "waits for the batch before",
        "waits for somebody in the first round, too",
        "gives the buffer",
        "knows two buffers only",
        "takes batch 0 for nobody",
    ),
)
