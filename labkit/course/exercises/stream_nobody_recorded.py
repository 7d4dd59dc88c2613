"""A stream recorded through a view, and ignored: the look-up, a checker for logs, and a planner."""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises import _regression
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST, READS
from labkit.course.exercises._recorded_views import (
    CONFIGURATIONS,
    HALF,
    OF_2019,
    SIDES,
    TODAY,
    View,
    first_difference,
)
from labkit.course.exercises._regression import red_or_green
from labkit.course.exercises._taken_buffers import take_over
from labkit.course.exercises._two_blocks import two_blocks

NOTEBOOK = "6_capstones/5_the_stream_nobody_recorded"


# --- inside


def _a_place(rng: Rng, size: int) -> tuple[int, int, int]:
    start, nbytes = 512 * rng.randint(1, 9), 512 * rng.randint(1, 4)
    address = start + rng.choice((0, nbytes, nbytes - 4, -4, rng.randrange(0, 2 * nbytes, 4)))
    return start, nbytes, address


inside = Exercise(
    id="stream_nobody_recorded.inside",
    case=_a_place,
    expected=lambda start, nbytes, address: start <= address < start + nbytes,
    rung="warm-up",
    cases=60,
    minutes=2,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The first byte behind the block is not inside.",
            when=lambda e: e.inputs[2] == sum(e.inputs[:2]),
        ),
        "Two comparisons: not before the start, and before the end.",
        "The end is start + nbytes.",
    ),
    must_fail=(
        "asks for the start alone",
        "counts the first byte behind it",
        "forgets addresses before it",
        FIRST,
        READS,
    ),
)


# --- find_block


def _some_view(rng: Rng, size: int, kind: str) -> Case:
    blocks: dict[int, int] = {}
    place = 512 * rng.randint(1, 5)
    for _ in range(1 + rng.randint(1, 2 + size // 2)):
        blocks[place] = 512 * rng.randint(1, 4)
        place += blocks[place] + 512 * rng.choice((0, 0, 1))
    start = rng.choice(list(blocks))
    nbytes = blocks[start]
    shift = rng.randrange(4, nbytes, 4)
    views = {
        "whole": View(start, start, nbytes),
        "shifted": View(start + shift, start, nbytes - shift),
        "empty": View(0, start, 0),
        "foreign": View(place + 4096 + shift, place + 4096, 64),
        "nothing": View(0, 0, 0),
    }
    return Case(("look-up", (blocks, views[kind])))


_KINDS = ("whole", "shifted", "empty", "foreign", "nothing")


def _of(*kinds: str) -> Any:
    return lambda rng, size: _some_view(rng, size, rng.choice(kinds))


def _recorded(rng: Rng, size: int) -> Case:
    return Case(("recording", (rng.choice(CONFIGURATIONS), rng.randrange(40))))


def _any(rng: Rng, size: int) -> Case:
    return _recorded(rng, size) if rng.chance(0.1) else _of(*_KINDS)(rng, size)


@handed_out
def _drive_find(answer: Any, what: str, inputs: tuple[Any, ...]) -> Any:
    """The block found, or where PyTorch's recording is left."""
    if what == "recording":
        return first_difference(answer, *inputs)
    return answer(*inputs)


def _right_block(what: str, inputs: tuple[Any, ...]) -> Any:
    if what == "recording":
        return ""
    blocks, view = inputs
    return view.storage_ptr if view.storage_ptr in blocks else None


find_block = Exercise(
    id="stream_nobody_recorded.find_block",
    case=_any,
    expected=_right_block,
    drive=_drive_find,
    show=lambda what, inputs: (
        f"PyTorch's recording {inputs[0]}, program {inputs[1]}"
        if what == "recording"
        else f"blocks {inputs[0]}, {inputs[1]}"
    ),
    cases=100,
    minutes=4,
    stages=(
        Stage("shifted views", case=_of("whole", "shifted"), cases=30),
        Stage("empty views", case=_of("empty"), cases=20),
        Stage("foreign memory", case=_of("foreign", "nothing"), cases=20),
        Stage("recordings", case=_recorded, cases=10),
        Stage("all"),
    ),
    hints=(
        Hint("A shifted view begins inside its block, not at its start.", stage="shifted views"),
        Hint(
            "An empty view shows nothing, so its address is 0. The memory it is a part of is "
            "still there.",
            stage="empty views",
        ),
        Hint("Memory that no block holds is somebody else's: None.", stage="foreign memory"),
        "A view knows where its storage begins, whatever it shows of it.",
    ),
    must_fail=(
        "the look-up of 2019",
        "records only what is whole",
        "searches for the address, so empty views are lost",
        "raises for foreign memory",
        "takes foreign memory for a block",
        "records for every block",
    ),
)


# --- regression_test


@handed_out
def _drive_test(answer: Any, side: str) -> str:
    """Whether the answer's test is red or green for this look-up."""
    return red_or_green(answer, SIDES[side], red=(AssertionError, KeyError))


regression_test = _regression.regression_test(
    "stream_nobody_recorded.regression_test",
    drive=_drive_test,
    green=("green today", TODAY),
    red=("red in 2019", OF_2019),
    half=HALF,
    minutes=5,
    hints=(
        Hint("The look-up of 2019 loses a shifted view, such as half.", stage="red in 2019"),
        Hint(
            "The look-up of today does not say what you expect. What is the view's storage_ptr?",
            stage="green today",
        ),
        Hint(
            "Which view shows nothing, though it is a part of a block's memory?",
            when=lambda e: "searches" in e.input or "empty view" in e.input,
        ),
        Hint(
            "Make a view of memory that is in no block, behind the last one. Expected is None.",
            when=lambda e: any(word in e.input for word in ("any view", "somebody", "last block")),
        ),
        "One line for each kind of view: assert find_block(blocks, view) == ...",
    ),
    must_fail=(
        "also passes with the look-up of 2019",
        "fails for the look-up of today",
        "tests the shifted view alone",
        "forgets empty views",
        "forgets memory of somebody else",
    ),
)


# --- unprotected

Event = tuple[Any, ...]


def _a_log(rng: Rng, size: int, kinds: str) -> Case:
    """A log for which waits through a third stream make no difference."""
    while not _clear(log := _some_log(rng, size, kinds)):
        pass
    return Case((log,))


def _some_log(rng: Rng, size: int, kinds: str) -> list[Event]:
    """Blocks of two streams, worked on by three, some of it recorded, some of it waited for."""
    log: list[Event] = []
    streams = ["copying", "working", "third"]
    alive: dict[str, str] = {}
    for number in range(2 + size):
        roll = rng.random()
        if not alive or roll < 0.25:
            name = ascii_lowercase[number]
            alive[name] = rng.choice(streams[:2])
            log.append(("malloc", name, alive[name]))
            continue
        block = rng.choice(list(alive))
        if roll < 0.55:
            log.append(("work", block, rng.choice(streams)))
        elif roll < 0.7 and "r" in kinds:
            log.append(("record", block, rng.choice(streams)))
        elif roll < 0.85 and "w" in kinds:
            later, earlier = rng.sample(streams, 2)
            log.append(("wait", later, earlier))
        else:
            del alive[block]
            log.append(("free", block))
    return log + [("free", block) for block in alive if rng.chance(0.8)]


def _clear(log: list[Event]) -> bool:
    """Whether it is all the same if waits of other streams are followed as well."""
    return _unprotected(log) == _unprotected_after_chains(log)


def _unprotected_after_chains(log: list[Event]) -> list[str]:
    """As `_unprotected`, where a stream knows what those it waits for have waited for."""
    done: dict[str, set[int]] = {}
    work: dict[str, list[tuple[int, str]]] = {}
    recorded: dict[str, set[str]] = {}
    owner: dict[str, str] = {}
    found = []
    for number, (kind, name, *rest) in enumerate(log):
        if kind == "malloc":
            owner[name], work[name], recorded[name] = rest[0], [], set()
        elif kind == "work":
            work[name].append((number, rest[0]))
            done.setdefault(rest[0], set()).add(number)
        elif kind == "record":
            recorded[name].add(rest[0])
        elif kind == "wait":
            done.setdefault(name, set()).update(done.get(rest[0], ()))
        elif any(
            at not in done.get(owner[name], ()) and stream not in recorded[name]
            for at, stream in work[name]
        ):
            found.append(name)
    return found


def _smaller(log: list[Event]) -> Iterator[tuple[list[Event]]]:
    """Without one block, or without one event."""
    for name in {event[1] for event in log if event[0] == "malloc"}:
        yield from _if_clear([event for event in log if event[1] != name])
    for at, event in enumerate(log):
        if event[0] != "malloc":
            yield from _if_clear(log[:at] + log[at + 1 :])


def _if_clear(log: list[Event]) -> Iterator[tuple[list[Event]]]:
    if log and _clear(log):
        yield (log,)


def _too_many(evidence: Any) -> bool:
    return bool(set(evidence.value) - set(evidence.right))


def _unprotected(log: list[Event]) -> list[str]:
    owner: dict[str, str] = {}
    open_work: dict[str, set[str]] = {}
    recorded: dict[str, set[str]] = {}
    found = []
    for event in log:
        if event[0] == "malloc":
            _, block, stream = event
            owner[block], open_work[block], recorded[block] = stream, set(), set()
        elif event[0] == "work":
            open_work[event[1]] |= {event[2]} - {owner[event[1]]}
        elif event[0] == "record":
            recorded[event[1]].add(event[2])
        elif event[0] == "wait":
            for block, stream in owner.items():
                if stream == event[1]:
                    open_work[block].discard(event[2])
        elif open_work[event[1]] - recorded[event[1]]:
            found.append(event[1])
    return found


unprotected = Exercise(
    id="stream_nobody_recorded.unprotected",
    case=lambda rng, size: _a_log(rng, 3 * size, "rw"),
    expected=_unprotected,
    show=lambda log: ", ".join(" ".join(event) for event in log),
    smaller=_smaller,
    cases=120,
    minutes=15,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    stages=(
        Stage("work and free", case=lambda rng, size: _a_log(rng, size, ""), cases=30),
        Stage("record", case=lambda rng, size: _a_log(rng, 2 * size, "r"), cases=40),
        Stage("wait", case=lambda rng, size: _a_log(rng, 2 * size, "w"), cases=40),
        Stage("together"),
    ),
    hints=(
        Hint(
            "Work of the block's own stream needs no record: the next owner's work is queued "
            "behind it.",
            when=_too_many,
            stage="work and free",
        ),
        Hint(
            "{got}: a record for the stream that worked protects the block. It counts before the "
            "work and after it, up to the free.",
            when=_too_many,
            stage="record",
        ),
        Hint(
            "{expected} is right: a record is for one stream. For another one that worked on the "
            "block, it says nothing.",
            when=lambda e: not _too_many(e),
            stage="record",
        ),
        Hint(
            "{got}: the block's own stream has waited for the one that worked, after the work. "
            "Then what it had is done.",
            when=_too_many,
            stage="wait",
        ),
        Hint(
            "{expected} is right: a wait helps if the block's own stream waits, for the stream "
            "that worked, and after that work.",
            when=lambda e: not _too_many(e),
            stage="wait",
        ),
        "Keep, for each block, the streams whose work on it is still open.",
        "free: is a stream open that was not recorded?",
    ),
    must_fail=(
        "takes any record for all streams",
        "takes a wait for the future",
        "takes a wait of any stream",
        "asks for records of the own stream",
        "names what was never freed",
        "wants the record behind the work",
        FIRST,
        READS,
    ),
)

EXERCISES = (inside, find_block, regression_test, unprotected, take_over, two_blocks)
