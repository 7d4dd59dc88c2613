"""One training step: which line, which operator and which block of memory a kernel belongs to."""

from collections.abc import Callable, Iterator
from typing import Any

from labkit.course.benches.step_log import StepEvent
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._step_logs import a_log, shown, smaller_logs

NOTEBOOK = "3_internals/6b_one_training_step"
Log = list[StepEvent]

# --- lines


def _lines(log: Log) -> list[str]:
    recorded: dict[int, str] = {}
    runs: dict[int, int] = {}
    found = []
    for event in log:
        if event.kind == "node":
            recorded[event.number] = event.line
        elif event.kind == "run":
            runs[event.thread] = event.number
        elif event.kind == "queue":
            found.append(event.line or recorded.get(runs.get(event.thread, 0), ""))
    return found


def _differs_on_the_engine(evidence: Evidence) -> bool:
    kernels = [event for event in evidence.inputs[0] if event.kind == "queue"]
    pairs = zip(kernels, evidence.value, evidence.right, strict=True)
    return any(event.thread and got != right for event, got, right in pairs)


def _has_its_own(evidence: Evidence) -> bool:
    """Whether a kernel with a line of its own was given another one."""
    kernels = [event for event in evidence.inputs[0] if event.kind == "queue"]
    pairs = zip(kernels, evidence.value, strict=True)
    return any(event.line and got != event.line for event, got in pairs)


def _leaves_out(evidence: Evidence) -> bool:
    return isinstance(evidence.value, list) and len(evidence.value) != len(evidence.right)


def _empty_ones(evidence: Evidence) -> bool:
    pairs = zip(evidence.value, evidence.right, strict=True)
    return any(got == "" and right for got, right in pairs)


lines = Exercise(
    id="one_training_step.lines",
    rung="warm-up",
    case=lambda rng, size: (a_log(rng, size),),
    expected=_lines,
    show=shown,
    smaller=smaller_logs,
    cases=100,
    minutes=4,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("One line for each event of kind \"queue\", in their order, also where it is \"\".",
             when=_leaves_out),
        Hint("A leaf's node has the number 0, and a thread may have run no node yet: neither was "
             "recorded. `get(key, \"\")` gives \"\" for what a dictionary does not hold.",
             when=lambda e: e.kind == "raised" and "KeyError" in e.got),
        Hint("A kernel with a line of its own keeps it, whatever node runs on its thread.",
             when=_has_its_own),
        Hint("A kernel of the engine's has no line of its own. Which node runs on its thread, and "
             "at which line was that node recorded?", when=_empty_ones),
        Hint("Each thread runs a node of its own: keep one number per thread. And a number says "
             "which node, not when it was recorded.", when=_differs_on_the_engine),
        "Two dictionaries: number of a node -> its line; thread -> the number of the node it runs.",
        "A leaf's number is 0, and 0 was never recorded: `get` gives \"\" for it.",
    ),
    must_fail=(
        "only the thread's own line", "the line at which backward was called",
        "the line of the newest node", "one running node for all threads",
        "the line that the program is at", "raises for a leaf",
        "the running node's line first", FIRST,
    ),
)  # fmt: skip

# --- operators


def _operators(log: Log) -> list[str]:
    inside: dict[int, list[str]] = {}
    found = []
    for event in log:
        mine = inside.setdefault(event.thread, [])
        if event.kind == "enter":
            mine.append(event.name)
        elif event.kind == "leave":
            mine.pop()
        elif event.kind == "queue":
            found.append(mine[-1] if mine else "")
    return found


operators = Exercise(
    id="one_training_step.operators",
    rung="warm-up",
    case=lambda rng, size: (a_log(rng, size),),
    expected=_operators,
    show=shown,
    smaller=smaller_logs,
    cases=100,
    minutes=4,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("Nothing is open on this thread any more: then it is \"\".",
             when=lambda e: e.kind == "raised"),
        Hint("Threads are inside operators at the same time. Whose is it?",
             when=lambda e: len({event.thread for event in e.inputs[0]}) > 1),
        Hint("A `leave` ends the operator that has begun last on its thread: after it, the one "
             "around that is the innermost again.",
             when=lambda e: any(event.kind == "leave" for event in e.inputs[0])),
        "An operator may call others. The last to begin is the first to end: a list, used as a "
        "stack.",
        "One stack for each thread: `enter` appends, `leave` pops, `queue` looks at the last.",
    ),
    must_fail=(
        "the outermost operator", "one stack for all threads", "the operator that began last",
        "raises outside of operators", FIRST,
    ),
)  # fmt: skip

# --- blocks

Numbers = list[tuple[list[int], list[int]]]


def _blocks(log: Log) -> Numbers:
    used: dict[int, tuple[int, int]] = {}
    handed_out = 0
    found = []

    def number_of(address: int) -> int:
        for begin, (number, nbytes) in used.items():
            if begin <= address < begin + nbytes:
                return number
        return 0

    for event in log:
        if event.kind == "block":
            handed_out += 1
            used[event.at] = handed_out, event.nbytes
        elif event.kind == "free":
            used.pop(event.at, None)
        elif event.kind == "queue":
            reads, writes = ([*map(number_of, some)] for some in (event.reads, event.writes))
            found.append((reads, writes))
    return found


def _some_log(**how: Any) -> Any:
    def case(rng: Rng, size: int) -> tuple[Log]:
        log = a_log(rng, size, threads=1, **how)
        return ([event for event in log if event.kind in ("block", "free", "queue")],)

    return case


def _any_of(wrong: Callable[[int, int], bool]) -> Callable[[Evidence], bool]:
    """Whether for some address (what came, what is right) is such a pair."""

    def fits(evidence: Evidence) -> bool:
        return any(got != right and wrong(got, right) for _, got, right in _addresses(evidence))

    return fits


def _addresses(evidence: Evidence) -> Iterator[tuple[int, int, int]]:
    """(address, what came, what is right) of every address that a kernel touches."""
    queued = [event for event in evidence.inputs[0] if event.kind == "queue"]
    for event, mine, rights in zip(queued, evidence.value, evidence.right, strict=True):
        for some in zip((event.reads, event.writes), mine, rights, strict=True):
            yield from zip(*some, strict=True)


def _ends_there(evidence: Evidence) -> bool:
    """Whether an address right behind a block was taken for a part of it."""
    blocks = [event for event in evidence.inputs[0] if event.kind == "block"]
    return any(
        got != right and got and address == blocks[got - 1].at + blocks[got - 1].nbytes
        for address, got, right in _addresses(evidence)
    )


def _misses_a_beginning(evidence: Evidence) -> bool:
    """Whether 0 was said of an address at which a block in use begins."""
    blocks = [event for event in evidence.inputs[0] if event.kind == "block"]
    return any(
        not got and right and address == blocks[right - 1].at
        for address, got, right in _addresses(evidence)
    )


def _picture(case: Any, got: Any, right: Any) -> Any:
    """The blocks over the events of the log, with what the first wrong kernel touches."""
    from labkit import show

    (log,) = case.inputs
    kernels = [place for place, event in enumerate(log) if event.kind == "queue"]
    listed = got if isinstance(got, list) else []
    wrong = next((i for i, one in enumerate(right) if listed[i : i + 1] != [one]), 0)
    until = kernels[wrong] if kernels else len(log)
    begun: dict[int, tuple[str, int]] = {}
    spans: list[dict[str, Any]] = []

    def span(at: int, end: int) -> dict[str, Any]:
        name, start = begun.pop(at)
        return {"lane": str(at), "name": name, "start": start, "end": end}

    count = 0
    for place, event in enumerate(log[:until]):
        if event.kind == "block":
            count += 1
            begun[event.at] = f"block {count}: {event.at} to {event.at + event.nbytes - 1}", place
        elif event.kind == "free" and event.at in begun:
            spans.append(span(event.at, place))
    spans += [span(at, until) for at in list(begun)]
    if kernels:
        touched = ", ".join(map(str, log[until].reads + log[until].writes))
        name = f"kernel {wrong}: {touched}"
        spans.append({"lane": "kernel", "name": name, "start": until, "end": until + 1})
    return show.timeline(spans)


blocks = Exercise(
    id="one_training_step.blocks",
    rung="core",
    case=_some_log(),
    expected=_blocks,
    show=shown,
    smaller=smaller_logs,
    stages=(
        Stage("each place once", case=_some_log(again=False, inside=False), cases=30),
        Stage("used again", case=_some_log(inside=False), cases=40),
        Stage("inside", case=_some_log(again=False), cases=40),
        Stage("all"),
    ),
    cases=80,
    minutes=12,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    picture=_picture,
    hints=(
        Hint("A pair of lists for each event of kind \"queue\", in their order.", when=_leaves_out),
        Hint("A `free` may name a block that is older than the step. Nothing of yours ends then.",
             when=lambda e: e.kind == "raised" and "KeyError" in e.got),
        Hint("A block that ends where the address begins does not hold it: its last byte is at "
             "`at + nbytes - 1`.", when=_ends_there),
        Hint("0 means: no block that is in use now holds this address. Blocks that were free when "
             "the kernel was queued do not count.", when=_any_of(lambda got, right: not right)),
        Hint("A block begins at this address, and it was in use when the kernel was queued. What "
             "is free at the end of the log does not count: look an address up at its `queue`.",
             when=_misses_a_beginning),
        Hint("An address may lie in the middle of a block: from `at` on, `nbytes` bytes belong to "
             "it.", when=_any_of(lambda got, right: not got)),
        Hint("Another block has this number. Count every block that was handed out so far, and "
             "look an address up when the kernel is queued: later it belongs to another block.",
             when=_any_of(lambda got, right: bool(got and right))),
        "A dictionary of the blocks in use: `at` -> (number, nbytes). `free` takes one out, if it "
        "is there.",
        "The number counts the events of kind \"block\" so far: 1, 2, 3, also after a `free`.",
    ),
    must_fail=(
        "an address is one block for ever", "looks addresses up after the step",
        "knows where blocks begin only", "one byte too many", "keeps freed blocks",
        "numbers the blocks in use", "raises for a block older than the step", FIRST,
    ),
)  # fmt: skip

EXERCISES = (lines, operators, blocks)
