"""Introduction: who records a graph, how long the tape gets, and a sum over processes."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Raises, Rng, Stage
from labkit.course.exercises._limits import LIBRARIES
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._programs import (
    FLOATS,
    INTEGERS,
    a_program,
    as_source,
    drawn,
    only_leaves,
    only_products,
    recorded,
    refused_or_not,
    shorter_programs,
    wrong_at,
)
from labkit.course.exercises._two_processes import two_process_sum

NOTEBOOK = "1_fundamentals/1_introduction"


# asks


def _an_operation(rng: Rng, size: int) -> tuple[bool, str, list[bool]]:
    inputs = [rng.chance(0.4) for _ in range(rng.randint(1, 3))]
    return rng.chance(0.7), rng.choice(FLOATS if rng.chance(0.7) else INTEGERS), inputs


asks = Exercise(
    id="introduction.asks",
    rung="warm-up",
    case=_an_operation,
    expected=lambda recording, dtype, inputs: recording and dtype not in INTEGERS and any(inputs),
    rules=("plain Python: no torch",),
    banned=LIBRARIES,
    cases=100,
    minutes=3,
    hints=(
        Hint(
            "One input that asks is enough: {input}.",
            when=lambda e: e.right is True and not all(e.inputs[2]),
        ),
        Hint("The result is no float: {input}.", when=lambda e: e.inputs[1] in INTEGERS),
        Hint("Recording is off in this case: {input}.", when=lambda e: not e.inputs[0]),
        "Three conditions, joined by `and`. `any(inputs)` is one of them.",
    ),
    must_fail=("wants every input to ask", "forgets the dtype", "forgets the switch"),
)


# tape_length


def _a_start(rng: Rng, size: int) -> tuple[float]:
    power = 2.0 ** rng.randint(0, 2 * size)
    return (rng.choice((power, power, power * 1.5, power * 0.75, 0.25, -power)),)


def _products(start: float) -> int:
    count = 0
    while start > 1:
        start, count = start * 0.5, count + 1
    return count


tape_length = Exercise(
    id="introduction.tape_length",
    rung="warm-up",
    case=_a_start,
    expected=_products,
    rules=("plain Python: no torch",),
    banned=LIBRARIES,
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "The loop never runs for {input}: no product, so the answer is 0.",
            when=lambda e: e.right == 0,
        ),
        Hint(
            "At exactly 1 the loop ends: `state > 1` is False there. {input} gives {expected}.",
            when=lambda e: e.value == e.right + 1,
        ),
        "Write the same loop with a plain number, and count.",
    ),
    must_fail=("counts one more at 1", "halves an input that is small already", "counts the leaf"),
)


# graph_or_no_graph


def _a_leaf_asks_inside(program: Any) -> bool:
    """Whether a leaf that asks is made while a block is open."""
    open_blocks = 0
    for line in program:
        open_blocks += {"enter": 1, "exit": -1}.get(line[0], 0)
        if open_blocks and line[0] == "leaf" and line[3]:
            return True
    return False


graph_or_no_graph = Exercise(
    id="introduction.graph_or_no_graph",
    stages=(
        Stage("leaves", case=only_leaves),
        Stage("products", case=only_products),
        Stage("dtypes", case=refused_or_not),
        Stage("to and detach", case=lambda rng, size: a_program(rng, size, "enter"), cases=60),
        Stage("no_grad"),
    ),
    picture=drawn,
    rules=("do not run the program: no torch, no NumPy, no labkit",),
    case=a_program,
    expected=recorded,
    smaller=shorter_programs,
    show=as_source,
    cases=200,
    minutes=15,
    banned=LIBRARIES,
    hints=(
        Hint(
            "A leaf that asks and is no float is refused: raise RuntimeError, as PyTorch does.",
            when=lambda evidence: isinstance(evidence.right, Raises),
        ),
        "A graph needs three things: recording on, a floating-point result, an input that asks. "
        "Which one is missing in: {input}",
        Hint(
            "A leaf that asks for gradients still has no grad_fn: nothing computed it.",
            when=wrong_at("leaf"),
        ),
        Hint(
            "The failing program casts: to() with the dtype a tensor already has returns that very "
            "tensor, and a cast to an integer dtype ends the graph.",
            when=wrong_at("to"),
        ),
        Hint(
            "gt gives bools and argmax an integer: neither can have a gradient.",
            when=wrong_at("gt", "argmax"),
        ),
        Hint(
            "The failing program has a detach: its result does not ask, whatever it was made from.",
            when=lambda evidence: any(line[0] == "detach" for line in evidence.inputs[0]),
        ),
        Hint(
            "One input that asks is enough. A leaf may ask, though it has no grad_fn of its own.",
            when=lambda evidence: (
                not any(line[0] == "enter" for line in evidence.inputs[0])
                and wrong_at("mul", "add", "exp", "sum")(evidence)
                and evidence.value.count(True) < evidence.right.count(True)
            ),
        ),
        Hint(
            "A leaf that was made in a block asks like any other: a later line outside of the "
            "block is recorded.",
            when=lambda evidence: (
                _a_leaf_asks_inside(evidence.inputs[0])
                and isinstance(evidence.value, list)
                and evidence.value.count(True) < evidence.right.count(True)
            ),
        ),
        Hint(
            "What counts is the line itself: it is recorded only where no block is open. Of two "
            "open blocks, the first `exit` closes one.",
            when=lambda evidence: any(line[0] == "enter" for line in evidence.inputs[0]),
        ),
        "Keep three things of each name: its dtype, whether it asks, and whether it has a grad_fn. "
        "The last two differ for leaves.",
    ),
    must_fail=(
        "always true",
        "true whenever any leaf requires grad",
        "ignores no_grad",
        "lets no leaf ask that is made in a block",
        "takes the first exit for the end of all blocks",
        "ignores integer dtypes",
        "refuses no leaf",
        "asks for a grad_fn of an input",
        "wants every input to ask",
        "makes a cast to the same dtype anew",
        "executes the program with torch (banned by a recording mode)",
        FIRST,
        "catches every exception and returns a default",
    ),
)

EXERCISES = (asks, tape_length, graph_or_no_graph, two_process_sum)
