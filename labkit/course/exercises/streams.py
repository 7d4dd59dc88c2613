"""Streams: which pieces of work may race, and the fewest events against it."""

from collections.abc import Iterator, Sequence
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._fewer import fewer
from labkit.course.exercises._never_right import CONSTANT, FIRST, TOO_SLOW
from labkit.course.exercises._stream_calls import Action, wait_stream
from labkit.cuda.happens_before import races, repaired

NOTEBOOK = "4_vision_low_level/6_streams"

# --- add_event


def _runs(rng: Rng, size: int) -> list[Action]:
    return [
        ("run", rng.choice((1, 2, 3, "copy")), *_buffers(rng, "abcd"))
        for _ in range(rng.randint(2, 3 + size))
    ]


def _a_pair(rng: Rng, size: int) -> tuple[list[Action], int, int]:
    program = [("run", 1, (), ("a",)), *_runs(rng, size), ("run", 2, ("a",), ())]
    first, second = sorted(rng.sample(range(len(program)), 2))
    return program, first, second


def _with_event(program: list[Action], first: int, second: int) -> list[Action]:
    record, wait = (("record", program[first][1], "e"), ("wait", program[second][1], "e"))
    behind, ahead = program[first + 1 : second], program[second:]
    return [*program[: first + 1], record, *behind, wait, *ahead]


def _kinds(program: Any) -> list[str]:
    return [step[0] for step in program]


add_event = Exercise(
    id="streams.add_event",
    rung="warm-up",
    case=_a_pair,
    expected=_with_event,
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "Your program has too few or too many steps: all steps stay, and two are added.",
            when=lambda e: isinstance(e.value, list) and len(e.value) != len(e.right),
        ),
        Hint(
            "Step i, then the record; the wait, then step j. What stands behind an insert has "
            "moved by one place.",
            when=lambda e: _kinds(e.value) != _kinds(e.right),
        ),
        "The stream of step i records, the stream of step j waits: a step's second entry is its "
        "stream.",
        "Cut the list in three: up to and with step i, what is between, and from step j on.",
        'program[: i + 1] + [("record", program[i][1], "e")] + ...',
    ),
    must_fail=(
        "records before the first step",
        "forgets that an insert moves what stands behind it",
        "waits behind the second step",
        "waits on the stream that recorded",
        CONSTANT,
        FIRST,
    ),
)


# --- conflict


def _two_steps(rng: Rng, size: int) -> tuple[Action, Action]:
    pool = "abcde"[: rng.randint(1, 5)]
    one, other = (("run", rng.randint(1, 3), *_buffers(rng, pool)) for _ in range(2))
    return one, other


def _conflict(one: Action, other: Action) -> bool:
    (reads, writes), (others, written) = map(set, one[2:]), map(set, other[2:])
    return bool(writes & (others | written) or reads & written)


conflict = Exercise(
    id="streams.conflict",
    rung="warm-up",
    case=_two_steps,
    expected=_conflict,
    cases=120,
    minutes=4,
    hints=(
        Hint(
            "Neither step writes a buffer that the other one touches. Can two reads disturb each "
            "other?",
            when=lambda e: e.value is True,
        ),
        Hint(
            "One step writes a buffer that the other one reads or writes. Look at both directions.",
            when=lambda e: e.value is False,
        ),
        "A buffer counts when one step writes it and the other one reads or writes it.",
        "set(one[3]) & {*other[2], *other[3]}, and the same the other way round",
    ),
    must_fail=(
        "counts two reads",
        "counts two writes only",
        "looks in one direction only",
        "asks for one stream",
        FIRST,
    ),
)


# --- find_races, race_finder

LARGE, LARGEST_SIZE = 10_000, 30
DRAWN = 40


def _buffers(rng: Rng, pool: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    reads = tuple(sorted({rng.choice(pool) for _ in range(rng.randint(0, 2))}))
    writes = (rng.choice(pool),) if rng.chance(0.6) or not reads else ()
    return reads, writes


def _a_stream_program(rng: Rng, size: int) -> tuple[list[Action]]:
    if size == LARGEST_SIZE and rng.chance(0.3):
        return (_a_large_program(rng),)
    size //= 4
    streams, pool = rng.randint(1, 3), "abcdefgh"[: rng.randint(1, 2 + size // 3)]
    program: list[Action] = []
    for _ in range(rng.randint(1, 3 + 2 * size)):
        stream, event = rng.randint(1, streams), rng.choice("EF")
        kind = rng.random()
        if kind < 0.5:
            program.append(("run", stream, *_buffers(rng, pool)))
        elif kind < 0.65:
            program.append(("record", stream, event))
        elif kind < 0.8:
            program.append(("wait", stream, event))
        elif kind < 0.86:
            program.append(("host wait", event))
        elif kind < 0.92:
            program.append(("synchronize", rng.choice((stream, stream, None))))
        else:
            program.append(("host", *_buffers(rng, pool)))
    for told_by in (_relay, _recorded_again, _waited_for):
        if rng.chance(0.2):
            at = rng.randint(0, len(program))
            program[at:at] = told_by(rng, rng.choice(pool))
    return (program,)


def _some_or_many(rng: Rng, size: int) -> tuple[list[Action]]:
    """The largest programs are all large ones."""
    many = size == LARGEST_SIZE
    return (_a_large_program(rng),) if many else _a_stream_program(rng, size)


def _relay(rng: Rng, buffer: str) -> list[Action]:
    """Order handed on from the first stream to the last by way of the second."""
    first, second, last = rng.sample((1, 2, 3), 3)
    return [
        ("run", first, (), (buffer,)), ("record", first, "R1"), ("wait", second, "R1"),
        ("run", second, ("x",), ()), ("record", second, "R2"), ("wait", last, "R2"),
        ("run", last, (buffer,), ()),
    ]  # fmt: skip


def _recorded_again(rng: Rng, buffer: str, streams: Sequence[int] = (1, 2, 3)) -> list[Action]:
    """The wait is for the second record: it orders both writes before the read."""
    first, second = rng.sample(streams, 2)
    write, record = ("run", first, (), (buffer,)), ("record", first, "A")
    return [write, record, write, record, ("wait", second, "A"), ("run", second, (buffer,), ())]


def _waited_for(rng: Rng, buffer: str) -> list[Action]:
    """Two streams use one buffer, and the host waits in between."""
    first, second = rng.sample((1, 2, 3), 2)
    by_event: list[Action] = [("record", first, "H"), ("host wait", "H")]
    wait = rng.choice((by_event, [("synchronize", first)], [("synchronize", None)]))
    return [("run", first, (), (buffer,)), *wait, ("run", second, (buffer,), ())]


def _touched_by_host(rng: Rng, buffer: str) -> list[Action]:
    """The host reads what a stream has written, and another stream writes it behind the host."""
    first, second = rng.sample((1, 2, 3), 2)
    wait: list[Action] = [("synchronize", first)] if rng.chance(0.5) else []
    after: Action = ("run", second, (), (buffer,))
    return [("run", first, (), (buffer,)), *wait, ("host", (buffer,), ()), after]


def _a_large_program(rng: Rng) -> list[Action]:
    """Eight streams with memory of their own, and a few places where they meet."""
    program: list[Action] = []
    for n in range(LARGE):
        stream = rng.randint(1, 8)
        program.append(("run", stream, (f"in{n}",), (f"own{n}",)))
    for k in range(3):
        at = rng.randint(0, len(program))
        ordered = rng.chance(0.5)
        meeting: list[Action] = [("run", 1 + k, (), (f"shared{k}",))]
        meeting += [("record", 1 + k, k), ("wait", 2 + k, k)] if ordered else []
        program[at:at] = [*meeting, ("run", 2 + k, (f"shared{k}",), ())]
    return program


def _judge_pairs(right: list[tuple[int, int]], got: Any) -> Wrong | None:
    try:
        found = [tuple(pair) for pair in got]
    except TypeError:
        return Wrong("races is a list of pairs", right)
    if sorted(found) == right:
        return None
    extra, missed = set(found) - set(right), set(right) - set(found)
    if extra:
        first = min(extra, key=repr)
        return Wrong(f"no false alarm: {first} is ordered, or no race at all", right)
    if missed:
        return Wrong(f"every race is found: {min(missed)} is missing", right)
    return Wrong("each race is listed once", right)


def _judge_found(case: Case, got: Any) -> str | Wrong | None:
    if isinstance(got, Raised):
        return f"it {got!r}"
    return _judge_pairs(races(*case.inputs), got)


def _judge_races(case: Case, got: Any) -> str | Wrong | None:
    if isinstance(got, Raised):
        return f"it {got!r}"
    (program,) = case.inputs
    right = races(program)
    if not (isinstance(got, list | tuple) and len(got) == 2):
        return Wrong("two lists are returned: races and repair", (right, "a list of some of them"))
    if said := _judge_pairs(right, got[0]):
        return said
    try:
        repair = [tuple(pair) for pair in got[1]]
    except TypeError:
        return Wrong("repair is a list of pairs", "some of the races")
    if not set(repair) <= set(right) or len(set(repair)) != len(repair):
        return Wrong("repair is a list of some of the races, each once", right)
    left = races(repaired(program, repair))
    if left:
        return Wrong(f"with an event per pair of repair no race is left, but {len(left)} are")
    for pair in repair:
        if not races(repaired(program, [one for one in repair if one != pair])):
            return Wrong(f"no event too many: the repair works without {pair}")
    return None


def _fewer_steps(program: list[Action]) -> Iterator[tuple[list[Action]]]:
    return ((some,) for some in fewer(program))


@handed_out
def show_program(program: Sequence[Action]) -> str:
    """The program in words, one number per step; a long one by its size."""
    if len(program) > 40:
        return f"{len(program)} steps, from {program[0]!r} on"
    return ", ".join(f"{n}: {step!r}" for n, step in enumerate(program))


def _about(*words: str) -> Any:
    return lambda evidence: any(word in evidence.property for word in words)


def _recorded_twice(program: Sequence[Action]) -> bool:
    events = [step[2] for step in program if step[0] == "record"]
    return len(set(events)) < len(events)


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The program as early as it may run, its races marked."""
    from labkit import show

    (program,) = case.inputs
    return show.streams(program) if len(program) <= DRAWN else None


def _steps_of(*kinds: str) -> Any:
    """Programs of these kinds of steps only."""

    def made(rng: Rng, size: int) -> tuple[list[Action]]:
        (program,) = _a_stream_program(rng, min(size, LARGEST_SIZE - 1))
        return ([step for step in program if step[0] in kinds],)

    return made


def _behind_some_runs(told_by: Any, buffers: str) -> Any:
    """Pieces of work that nothing orders, and then this order."""

    def made(rng: Rng, size: int) -> tuple[list[Action]]:
        return ([*_runs(rng, size // 8), *told_by(rng, rng.choice(buffers))],)

    return made


def _events(rng: Rng, size: int) -> tuple[list[Action]]:
    """Records and waits of two streams, so that none hands on the order of a third; in half of
    the programs an event is surely recorded again.
    """
    (program,) = _steps_of("run", "record", "wait")(rng, size)
    program = [step for step in program if step[1] in (1, 2)]
    return (program + _recorded_again(rng, "z", (1, 2)) if rng.chance(0.5) else program,)


find_races = Exercise(
    id="streams.find_races",
    stages=(
        Stage("no event", case=_steps_of("run"), cases=10),
        Stage("events", case=_events, cases=20),
        Stage("handed on", case=_behind_some_runs(_relay, "abcd"), cases=10),
        Stage("host waits", case=_behind_some_runs(_waited_for, "z"), cases=10),
        Stage("the host's own steps", case=_behind_some_runs(_touched_by_host, "z"), cases=10),
        Stage("together"),
    ),
    case=_some_or_many,
    judge=_judge_found,
    picture=_drawn,
    smaller=_fewer_steps,
    show=show_program,
    banned=("labkit.*", "labkit.cuda.happens_before"),
    cases=120,
    seconds=3.0,
    sizes=LARGEST_SIZE,
    minutes=15,
    hints=(
        Hint(
            "Everything queued after a host wait comes behind what the host waited for, on all "
            "streams. Keep one clock more, that of the host, and join it in.",
            when=_about("false alarm"),
            stage="host waits",
        ),
        Hint(
            "The host touches memory in a `host` step: it may race with what it has not waited "
            "for, and comes before every later step.",
            stage="the host's own steps",
        ),
        Hint(
            "Your false alarm is ordered through a third stream. What does a record keep?",
            when=_about("false alarm"),
            stage="handed on",
        ),
        Hint(
            "An event of this program is recorded again. A wait is for the last record before it: "
            "which one does your event remember?",
            when=lambda e: _about("false alarm")(e) and _recorded_twice(*e.inputs),
            stage="events",
        ),
        Hint(
            "Your false alarm is ordered: two reads never race, and neither do two steps of one "
            "stream. What else puts the first of the two before the second?",
            when=_about("false alarm"),
        ),
        Hint(
            "Which buffer do the two steps of the missing pair share, and which of them writes?",
            when=_about("is missing"),
        ),
        Hint(
            "Comparing every pair of ten thousand steps takes too long. Keep a list per buffer, "
            "and compare a step with those on its own buffers.",
            when=lambda e: e.kind == "time",
        ),
        "Go through the program once. For each step that runs, compare it with the earlier steps "
        "on its buffers.",
        "A `host` step has no stream: it runs at once, so its clock is what the host has waited "
        "for, and everything later comes behind it.",
        "Per buffer keep (place, stream, number, writes). The pair races when one writes and the "
        "later clock has less than that number for that stream.",
    ),
    must_fail=(
        "flags every cross-stream pair",
        "counts two reads",
        "forgets order that was handed on",
        "host wait treated as per-stream",
        "keeps the first record of an event",
        FIRST,
        TOO_SLOW,
    ),
)


race_finder = Exercise(
    id="streams.race_finder",
    rung="boss",
    picture=_drawn,
    case=_a_stream_program,
    judge=_judge_races,
    smaller=_fewer_steps,
    show=show_program,
    banned=("labkit.*", "labkit.cuda.happens_before"),
    cases=300,
    seconds=3.0,
    sizes=LARGEST_SIZE,
    minutes=35,
    hints=(
        Hint(
            "Your false alarm is ordered through a third stream, or by the host having waited: "
            "everything queued after a host wait comes behind what it waited for, on all streams.",
            when=_about("false alarm"),
        ),
        Hint(
            "Two reads never race, and two steps of one stream never do. What else touches the "
            "buffer of the missing pair?",
            when=_about("is missing"),
        ),
        Hint(
            "One event often orders several pairs. Add them one by one, recompute, and drop those "
            "without which nothing is left either.",
            when=_about("too many", "is left"),
        ),
        "Your false alarm is ordered through a third stream.",
        "Compute reachability: for each step, what is known to have run before it?",
        "Vector clocks per queue: one number per stream. A record copies the queue's clock, a wait "
        "takes the maximum of two, and a host wait gives it to everything queued afterwards.",
    ),
    must_fail=(
        "flags every cross-stream pair",
        "ignores read-read",
        "ignores transitive order",
        "host wait treated as per-stream",
        "repairs by a device-wide wait",
        FIRST,
        TOO_SLOW,
    ),
)

EXERCISES = (add_event, conflict, wait_stream, find_races, race_finder)
