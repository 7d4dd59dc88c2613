"""CUDA graphs: nodes and edges by hand, and a function whose calls are replays."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Exercise, Hint, Raises, Rng, Stage
from labkit.course.exercises._graph_device import ORDERS, Program, drive_graph, graph_drawn
from labkit.course.exercises._graphed_calls import (
    ANOTHER,
    DEFAULT,
    calls,
    drive_calls,
    right_calls,
)
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "4_vision_low_level/10_cuda_graphs"

# --- ready


def _half_run(rng: Rng, size: int) -> tuple[list[tuple[int, ...]], set[int]]:
    after: list[tuple[int, ...]] = []
    for node in range(rng.randint(1, 3 + size)):
        count = min(node, rng.randint(0, 2))
        after.append(tuple(sorted(rng.sample(range(node), count))))
    done: set[int] = set()
    for _ in range(rng.randint(0, len(after))):
        done.add(rng.choice(_ready(after, done)))
    return after, done


def _ready(after: Sequence[Sequence[int]], done: set[int]) -> list[int]:
    return [n for n, own in enumerate(after) if n not in done and done.issuperset(own)]


ready = Exercise(
    id="cuda_graphs.ready",
    rung="warm-up",
    case=_half_run,
    expected=_ready,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "Your list has a node that has run already. Each node runs once.",
            when=lambda e: bool(set(e.value) & e.inputs[1]),
        ),
        Hint(
            "A node of yours waits for one that has not run: all of `after[n]` must be in `done`.",
            when=lambda e: any(set(e.inputs[0][n]) - e.inputs[1] for n in e.value),
        ),
        Hint(
            "A node is missing. One with an empty `after[n]` waits for nobody.",
            when=lambda e: bool(set(e.right) - set(e.value)),
        ),
        Hint(
            "These are the right nodes. Return a list of them, sorted.",
            when=lambda e: set(e.value) == set(e.right),
        ),
        "Node n may run when it has not run, and when all of after[n] have.",
        "[n for n, own in enumerate(after) if n not in done and all(... for i in own)]",
    ),
    must_fail=(
        "takes nodes that have run",
        "asks for one of the nodes it waits for",
        "takes the nodes that wait for nobody",
        "looks at the last node it waits for only",
        FIRST,
    ),
)

# --- explicit_graph


def _launch(rng: Rng, streams: int) -> tuple[Any, ...]:
    name, cell = rng.choice(("put", "add", "mul")), rng.randrange(6)
    return ("launch", rng.randint(1, streams), name, cell, rng.randint(2, 5))


def _stream_program(streams: int) -> Any:
    """Launches on so many streams; whatever shares a number is ordered by events first."""

    def case(rng: Rng, size: int) -> tuple[Program]:
        program: Program = []
        for number in range(rng.randint(2, 4 + size // 2)):
            if streams > 1 and rng.chance(0.6):
                first, second = rng.sample(range(1, streams + 1), 2)
                event = rng.choice("ef")
                program += [("record", first, event), ("wait", second, event)]
                if rng.chance(0.3):
                    program.insert(-1, _of_its_own(rng, first, number))
            program.append(_of_its_own(rng, rng.randint(1, streams), number))
        if streams > 1 and rng.chance(0.3):
            program.insert(0, ("wait", 1, "never"))
        return (program,)

    return case


def _of_its_own(rng: Rng, stream: int, number: int) -> tuple[Any, ...]:
    """A launch that touches the numbers of its stream alone: no order between streams shows."""
    kind, _, name, _, value = _launch(rng, 1)
    mine = 2 * stream - 2
    if name == "put":
        return (kind, stream, name, mine + number % 2, value)
    return (kind, stream, name, mine + number % 2, mine + rng.randrange(2))


def _fork_and_join(rng: Rng, size: int) -> tuple[Program]:
    """Two streams that read what a third one wrote, and one that reads both."""
    a, b, c = rng.sample((1, 2, 3), 3)
    first, second, third = rng.sample(range(6), 3)
    program: Program = [
        ("launch", a, "put", first, rng.randint(2, 9)),
        ("record", a, "e"),
        ("wait", b, "e"),
        ("launch", b, "add", second, first),
        ("wait", c, "e"),
        ("launch", c, "mul", third, first),
        ("record", b, "e"),
        ("record", c, "f"),
        ("wait", a, "e"),
        ("wait", a, "f"),
        ("launch", a, "add", first, second),
        ("launch", a, "mul", first, third),
    ]
    return (program,)


def _event_stays(rng: Rng, size: int) -> tuple[Program]:
    """A stream goes on after its event was recorded: it waits itself, or launches."""
    a, b, c = rng.sample((1, 2, 3), 3)
    later: Program = [("wait", a, "f"), _of_its_own(rng, a, 3)]
    program: Program = [
        _of_its_own(rng, a, 0),
        _of_its_own(rng, b, 1),
        ("record", a, "e"),
        ("record", b, "f"),
        *later[: rng.randint(1, 2)],
        ("wait", c, "e"),
        _of_its_own(rng, c, 2),
    ]
    return (program,)


def _event_again(rng: Rng, size: int) -> tuple[Program]:
    """An event is recorded on one stream, and then on another one."""
    a, b, c = rng.sample((1, 2, 3), 3)
    program: Program = [
        _of_its_own(rng, a, 0),
        ("record", a, "e"),
        _of_its_own(rng, b, 1),
        ("record", b, "e"),
        ("wait", c, "e"),
        _of_its_own(rng, c, 2),
    ]
    return (program,)


def _passed_on(rng: Rng, size: int) -> tuple[Program]:
    """A stream waits and records without a launch between: its event stands for the wait, too."""
    a, b, c = rng.sample((1, 2, 3), 3)
    program: Program = [
        _of_its_own(rng, a, 0),
        ("record", a, "e"),
        ("wait", b, "e"),
        ("record", b, "f"),
        ("wait", c, "f"),
        _of_its_own(rng, c, 1),
    ]
    if rng.chance(0.5):
        program.insert(0, _of_its_own(rng, b, 2))
    return (program,)


def _event(rng: Rng, size: int) -> tuple[Program]:
    maker = rng.choice((_event_stays, _event_again, _passed_on))
    return maker(rng, size)


def _any_program(rng: Rng, size: int) -> tuple[Program]:
    maker = rng.choice((_fork_and_join, _event, _stream_program(3), _stream_program(3)))
    return tuple(maker(rng, size))


def _build(graph: Any, program: Program) -> Any:
    last: dict[Any, set[int]] = {}
    marks: dict[Any, set[int]] = {}
    for kind, stream, *rest in program:
        if kind == "launch":
            node = graph.add_kernel(rest[0], 1, 1, rest[1], after=sorted(last.get(stream, ())))
            last[stream] = {node}
        elif kind == "record":
            marks[rest[0]] = last.get(stream, set())
        else:
            last[stream] = last.get(stream, set()) | marks.get(rest[0], set())
    return graph.instantiate()


def _right_graph(program: Program) -> dict[str, Any]:
    return drive_graph(_build, program)


def _differs(value: Any, right: Any, what: str) -> bool:
    return isinstance(value, dict) and value.get(what) != right[what]


def _recorded_twice(e: Any) -> bool:
    """Whether an event is recorded on two streams, and the orders are not the right ones."""
    marks = [(rest[0], stream) for kind, stream, *rest in e.inputs[0] if kind == "record"]
    again = len(set(marks)) > len({event for event, _ in marks})
    return again and e.value[ORDERS] != e.right[ORDERS]


explicit_graph = Exercise(
    id="cuda_graphs.explicit_graph",
    rung="core",
    case=_any_program,
    expected=_right_graph,
    drive=drive_graph,
    processes=True,
    picture=graph_drawn,
    cases=25,
    minutes=12,
    stages=(
        Stage("one stream", case=_stream_program(1), cases=10),
        Stage("fork and join", case=_fork_and_join, cases=10),
        Stage("an event stays", case=_event, cases=15),
        Stage("together"),
    ),
    hints=(
        Hint(
            "You returned the recipe. Only what `graph.instantiate()` returns can be replayed.",
            when=lambda e: e.value["returned"] == "Graph",
        ),
        Hint(
            "One of your nodes names another one twice in `after`. Use a set.",
            when=lambda e: e.value["a node twice among its after"],
        ),
        Hint(
            "An event that was never recorded is in no dictionary yet. It holds nobody back.",
            when=lambda e: e.kind == "raised" and "never" in e.got,
        ),
        Hint(
            "This program records an event twice. The last record before a wait counts, and it "
            "alone: what the event stood for before is forgotten.",
            when=_recorded_twice,
            stage="an event stays",
        ),
        Hint(
            "An event stands for its stream at the moment of `record`. What the stream launches or "
            "waits for later is not in it: give the event a set of its own.",
            when=lambda e: bool(set(e.value[ORDERS]) - set(e.right[ORDERS])),
            stage="an event stays",
        ),
        Hint(
            "A node of yours waits for one that nothing puts before it. Only its own stream and "
            "the events that the stream waited for do.",
            when=lambda e: bool(set(e.value[ORDERS]) - set(e.right[ORDERS])),
        ),
        Hint(
            "An order is missing. After a wait the next node comes behind its own stream's last "
            "node *and* behind every event waited for, as it was last recorded.",
            when=lambda e: bool(set(e.right[ORDERS]) - set(e.value[ORDERS])),
            stage="fork and join",
        ),
        Hint(
            "An order is missing. Here a stream waits, and records without a launch between: its "
            "event stands for what it waited for, too.",
            when=lambda e: bool(set(e.right[ORDERS]) - set(e.value[ORDERS])),
            stage="an event stays",
        ),
        Hint(
            "An order is missing: a node comes behind the last one of its stream.",
            when=lambda e: _differs(e.value, e.right, ORDERS),
        ),
        "Keep two dictionaries: for each stream the nodes its next one comes after, and the same "
        "for each event, as it was when it was recorded.",
        "record: marks[event] = last.get(stream, set()); wait: last[stream] = the union of both.",
    ),
    must_fail=(
        "links every node to the one before it",
        "returns the recipe",
        "names a node twice",
        "forgets its own stream after a wait",
        "lets an event grow with its stream",
        "lets a later wait into an event",
        "adds a second record to the first",
        "keeps an event's first record",
        "lets an event stand for the last launch alone",
        "forgets the events",
        "builds the nodes from the last to the first",
    ),
)

# --- refill

_SHAPES = ((2, 3), (3, 2), (1, 3), (3,), (2, 1), (6,), (2, 3, 1))


def _static_and_new(rng: Rng, size: int) -> tuple[Tensor, Tensor]:
    same = rng.chance(0.4)
    static = rng.tensor((2, 3))
    new = rng.tensor((2, 3) if same else rng.choice(_SHAPES))
    if rng.chance(0.25):
        new = new.to(rng.choice((torch.float64, torch.int64)))
    if new.dim() == 2 and rng.chance(0.3):
        new = new.t().contiguous().t()  # the same numbers with other strides
    return static, new


def _drive_refill(answer: Any, static: Tensor, new: Tensor) -> tuple[bool, list[Any]]:
    own = static.clone()  # the answer has to change it
    address = own.data_ptr()
    returned = answer(own, new)
    return returned is own and own.data_ptr() == address, own.tolist()


def _refilled(static: Tensor, new: Tensor) -> Any:
    if (static.shape, static.dtype) != (new.shape, new.dtype):
        return Raises(ValueError)
    return True, new.tolist()


refill = Exercise(
    id="cuda_graphs.refill",
    rung="warm-up",
    case=_static_and_new,
    expected=_refilled,
    drive=_drive_refill,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "You have to return `static` itself, with its old address: the nodes read there.",
            when=lambda e: isinstance(e.value, tuple) and not e.value[0],
        ),
        Hint(
            "Here `new` fits, and you raised: shape and dtype are equal. Strides may differ.",
            when=lambda e: e.kind == "raised" and isinstance(e.right, tuple),
        ),
        Hint(
            "The error has to be a `ValueError`: {got}.",
            when=lambda e: e.kind == "raised" and "RuntimeError" not in e.got,
        ),
        Hint(
            "The shapes are alike, the element types are not: look at `dtype` too.",
            when=lambda e: isinstance(e.right, Raises) and e.inputs[0].shape == e.inputs[1].shape,
        ),
        Hint(
            "The shapes differ, and `copy_` says nothing when it can broadcast. Compare first.",
            when=lambda e: isinstance(e.right, Raises),
        ),
        "if the shape or the dtype differs: raise ValueError(...). Then static.copy_(new).",
    ),
    must_fail=(
        "returns the new tensor",
        "wants equal strides",
        "copies the storage",
        "lets copy_ broadcast",
        "looks at the first size only",
        "looks at the number of elements",
        "ignores the element type",
        "raises another error",
    ),
)

# --- graphed_callable


def _one_call(rng: Rng, size: int) -> tuple[Any, str]:
    script, stream = calls(shapes=1)(rng, 0)
    return script[:1], stream


def _results_differ(value: Any, right: Any) -> bool:
    return _differs(value, right, "results") and not _differs(value, right, "inputs afterwards")


def _all_one(results: list[Any]) -> bool:
    return all(one == results[-1] for one in results)


graphed_callable = Exercise(
    id="cuda_graphs.graphed_callable",
    rung="core",
    case=calls(shapes=3, fails=True, streams=(DEFAULT, ANOTHER)),
    expected=right_calls,
    drive=drive_calls,
    processes=True,
    cases=12,
    sizes=4,
    minutes=15,
    stages=(
        Stage("one call", case=_one_call, cases=5),
        Stage("fresh results", case=calls(shapes=1, least=3), cases=8),
        Stage("shapes", case=calls(shapes=3, least=4), cases=8),
        Stage("a failed capture", case=calls(shapes=3, fails=True), cases=12),
        Stage("another stream"),
    ),
    hints=(
        Hint(
            "The first call of the function does what a capture forbids: it brings a constant from "
            "the host. Call the function once before each capture.",
            when=lambda e: e.kind == "raised" and "while a stream captures" in e.got,
        ),
        Hint(
            "The caller's tensor has other numbers now. This function writes to its input: warm up "
            "and capture with a copy of your own.",
            when=lambda e: _differs(e.value, e.right, "inputs afterwards"),
        ),
        Hint(
            "Your object ran the function again for a shape that it had captured. Keep the graph.",
            when=lambda e: bool(e.value["ran the function again in"]),
        ),
        Hint(
            "A replay wrote into a tensor that was made after the capture. Capture into a private "
            "pool: `graphed.graph`.",
            when=lambda e: not e.value["tensors made between calls keep their numbers"],
        ),
        Hint(
            "A result has another element type than the function's. A graph serves one shape and "
            "one `dtype`.",
            when=lambda e: _differs(e.value, e.right, "element types"),
        ),
        Hint(
            "An earlier result changed later: whose memory did you return?",
            when=lambda e: _results_differ(e.value, e.right) and _all_one(e.value["results"]),
            stage="fresh results",
        ),
        Hint(
            "A replay computed with other numbers than the call's. It reads the tensor that was "
            "captured: copy them there in each call, and keep that tensor.",
            when=lambda e: (
                e.stage in ("one call", "fresh results") and _results_differ(e.value, e.right)
            ),
        ),
        Hint(
            "A graph serves one shape. Keep one for each whole shape, in a dictionary.",
            stage="shapes",
        ),
        Hint(
            "The capture of this shape failed once. Store a graph only when it is complete.",
            stage="a failed capture",
        ),
        Hint(
            "The caller works on a stream of its own. What a call queues belongs on the current "
            "stream: the copy, the replay and the clone.",
            stage="another stream",
        ),
        "Copy in, replay, clone out: static.copy_(x), graph.replay(), return y.clone().",
        "key = (tuple(x.shape), x.dtype); self.graphs[key] = (static, graph, y)",
    ),
    must_fail=(
        "forgets to copy inputs",
        "returns the static output",
        "captures per call",
        "keys by first dimension only",
        "keys by the number of elements",
        "captures without a warm-up",
        "warms up for the first shape only",
        "uses the caller's tensor as its own",
        "warms up on the caller's tensor",
        "captures without memory of its own",
        "keys by shape only",
        "keeps a graph whose capture failed",
        "does not end a capture that failed",
        "replays on the default stream",
    ),
)

EXERCISES = (ready, explicit_graph, refill, graphed_callable)
