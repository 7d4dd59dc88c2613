"""The small steps along a call: who called whom, and how many loops are left."""

from labkit.core.memory_format import Ints
from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES

Event = tuple[str, str]
Depths = list[tuple[int, str]]
NAMES = "abcd"


def _calls(rng: Rng, room: int) -> list[Event]:
    """Calls one after the other, each with calls inside of it, `room` of them together."""
    events: list[Event] = []
    while room > 0:
        inside = rng.randint(0, room - 1)
        name = rng.choice(NAMES)
        events += [("call", name), *_calls(rng, inside), ("return", name)]
        room -= 1 + inside
    return events


def _a_recording(rng: Rng, size: int) -> tuple[list[Event]]:
    return (_calls(rng, rng.randint(0, 1 + size)),)


def _depths(events: list[Event]) -> Depths:
    found: Depths = []
    inside = 0
    for event, name in events:
        if event == "call":
            found.append((inside, name))
        inside += 1 if event == "call" else -1
    return found


def _order_is_right(evidence: Evidence) -> bool:
    return [name for _, name in evidence.value] == [name for _, name in evidence.right]


depths = Exercise(
    id="source_tree_and_one_call.depths",
    case=_a_recording,
    expected=_depths,
    rung="warm-up",
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "The names are right, a depth is not. The depth counts the calls that have not "
            "returned yet: every return makes it one less.",
            when=_order_is_right,
        ),
        "One number goes along: how many calls are open. Where does a call stand in the list, "
        "before or after the number grows?",
        "Only a call adds to the list. A return only changes the number.",
    ),
    must_fail=(
        "never comes back up",
        "counts the call itself",
        "lists what returns, in the order of the returns",
    ),
)


def _a_walk(rng: Rng, size: int) -> tuple[Ints, tuple[Ints, ...]]:
    """Sizes, innermost first, and the bytes each operand steps along them."""
    sizes = tuple(rng.randint(2, 4) for _ in range(rng.randint(1, min(5, 1 + size))))
    joined = [rng.chance(0.6) for _ in sizes]  # the same for all, so that some really join
    return sizes, tuple(_steps(rng, sizes, joined) for _ in range(rng.randint(2, 3)))


def _steps(rng: Rng, sizes: Ints, joined: list[bool]) -> Ints:
    steps = [rng.choice((0, 4, 4, 8))]
    for dim in range(1, len(sizes)):
        on = sizes[dim - 1] * steps[-1]
        elsewhere = rng.choice((0, on + 4, 2 * on + 8))
        steps.append(on if joined[dim] or rng.chance(0.3) else elsewhere)
    return tuple(steps)


def _loops_left(sizes: Ints, steps: tuple[Ints, ...]) -> int:
    joins = (
        all(one[dim] == sizes[dim - 1] * one[dim - 1] for one in steps)
        for dim in range(1, len(sizes))
    )
    return len(sizes) - sum(joins)


loops = Exercise(
    id="source_tree_and_one_call.loops",
    case=_a_walk,
    expected=_loops_left,
    rung="warm-up",
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "Too few. Two dimensions become one loop only if all operands agree: {input}.",
            when=lambda e: isinstance(e.value, int) and e.value < e.right,
        ),
        Hint(
            "Too many. The outer step is compared with the inner size times the inner step: the "
            "size of dim - 1, not of dim. (Where both steps are 0, that holds too.)",
            when=lambda e: isinstance(e.value, int) and e.value > e.right,
        ),
        "Begin with one loop per dimension. Go through the neighbours, dim - 1 and dim: does "
        "every operand go on where the inner loop ends?",
    ),
    must_fail=(
        "asks the first operand alone",
        "joins where any operand goes on",
        "takes the sizes from the outside",
    ),
)
