"""The small steps to a leak: which stacks grew, and the lowest value each ever had."""

from labkit.course.exercise import Evidence, Exercise, Hint, Rng

Bytes = dict[str, int]
LINES = (
    "hidden = ...",
    "output = ...",
    "state.append(...)",
    "cache[step] = ...",
    "log.append(...)",
)


def _a_census(rng: Rng, size: int) -> Bytes:
    lines = rng.sample(LINES, rng.randint(0, min(len(LINES), 1 + size)))
    return {line: 512 * rng.randint(1, 3) for line in lines}


def _two(rng: Rng, size: int) -> tuple[Bytes, Bytes]:
    return _a_census(rng, size), _a_census(rng, size)


def _grown(before: Bytes, after: Bytes) -> set[str]:
    return {line for line, size in after.items() if size > before.get(line, 0)}


def _new(evidence: Evidence) -> bool:
    before, after = evidence.inputs
    return bool(after.keys() - before.keys())


def _some(evidence: Evidence) -> bool:
    return (
        isinstance(evidence.value, set) and bool(evidence.value) and evidence.value < evidence.right
    )


def _too_many(evidence: Evidence) -> bool:
    return isinstance(evidence.value, set) and bool(evidence.value - evidence.right)


grown = Exercise(
    id="profiling_inplace_allocators.grown",
    case=_two,
    expected=_grown,
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=("plain Python",),
    hints=(
        Hint(
            "You name a line that has as many bytes as before, or fewer. Only more is growing.",
            when=_too_many,
        ),
        Hint(
            "What you name has grown, and others have, too. Name each of them.",
            when=_some,
        ),
        Hint(
            "A line that was not there before had 0 bytes. Did it grow? before.get(line, 0) asks "
            "without an error.",
            when=_new,
        ),
        "Go over after.items(), and compare each size with the one before.",
    ),
    must_fail=(
        "leaves out lines that are new",
        "names those that stayed as they were",
        "names the one that grew most",
        "names all that are there",
    ),
)


def _moments(rng: Rng, size: int) -> tuple[list[Bytes]]:
    return ([_a_census(rng, 1 + size) for _ in range(rng.randint(1, 2 + size // 2))],)


def _lowest(seen: list[Bytes]) -> Bytes:
    lines = {line for one in seen for line in one}
    return {line: min(one.get(line, 0) for one in seen) for line in lines}


def _too_high(evidence: Evidence) -> bool:
    got, right = evidence.value, evidence.right
    return isinstance(got, dict) and any(
        isinstance(size, int) and size > right.get(line, size) for line, size in got.items()
    )


def _missing(evidence: Evidence) -> bool:
    return isinstance(evidence.value, dict) and bool(evidence.right.keys() - evidence.value.keys())


lowest = Exercise(
    id="profiling_inplace_allocators.lowest",
    case=_moments,
    expected=_lowest,
    rung="warm-up",
    cases=120,
    minutes=4,
    rules=("plain Python",),
    hints=(
        Hint(
            "A line is missing in your answer. Name each that occurs at any moment, also if its "
            "lowest value is 0.",
            when=_missing,
        ),
        Hint(
            "Too high for one line. At a moment where a line does not occur it holds 0 bytes, and "
            "that is its lowest value.",
            when=_too_high,
        ),
        "First collect all lines of all moments in a set. Then min() over one.get(line, 0).",
    ),
    must_fail=(
        "knows the lines of the first moment alone",
        "leaves out moments where a line is missing",
        "takes the last moment",
        "takes the highest value",
    ),
)
