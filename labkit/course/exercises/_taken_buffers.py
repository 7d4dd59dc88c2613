"""Steps on two streams whose values take over each other's buffers, and what may go wrong there.

A step is (name, stream, reads, bytes): it makes the value of its name, and waits for the values
that it reads. A plan says for each value whose buffer it takes over, or its own name.

Source   torch/_inductor/codegen/wrapper.py  buffer_reuse_key, AllocateLine, FreeIfNotReusedLine
"""

from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.happens_before import races

Step = tuple[str, str, list[str], int]
Plan = dict[str, str]
STREAMS = ("copying", "working")
SIZES = (512, 1024)
SPARE = 1.2
"""Times the bytes that are needed, so that other orders of choice pass."""


@handed_out
def some_steps(rng: Rng, count: int, other: float, reads: float) -> list[Step]:
    """A program; some steps run on the second stream, some read values of the other one."""
    steps: list[Step] = []
    for number in range(count):
        stream = STREAMS[rng.chance(other)]
        near = [step for step in steps if step[1] == stream]
        seen = [step[0] for step in (steps if rng.chance(reads) else near)]
        taken = [seen[-1]] if seen and rng.chance(0.8) else []
        if len(seen) > 2 and rng.chance(0.3):
            taken.append(rng.choice(seen[:-1]))
        steps.append((f"v{number}", stream, taken, rng.choice(SIZES)))
    return steps


@handed_out
def last_reads(steps: list[Step]) -> dict[str, int]:
    """Value -> the number of the step that is the last to need it; its own where nobody reads it.

    What nobody reads is a result: it is needed to the end.
    """
    last = {name: len(steps) for name, *_ in steps}
    for number, (_, _, reads, _) in enumerate(steps):
        last.update(dict.fromkeys(reads, number))
    return last


@handed_out
def planned(
    steps: list[Step], wants: Callable[[str], Any], leaves: Callable[[str], Any] | None = None
) -> Plan:
    """Each value takes over the buffer freed last of those that fit; a new one where none does.

    wants   value -> the key of the buffers that it may take over
    leaves  value -> the key under which its buffer is left, None for nobody; as `wants` if left out
    """
    last = last_reads(steps)
    free: dict[Any, list[str]] = {}
    plan: Plan = {}
    for number, (name, _, reads, _) in enumerate(steps):
        waiting = free.get(wants(name))
        plan[name] = waiting.pop() if waiting else name
        for one in dict.fromkeys(reads):
            if last[one] == number and (key := (leaves or wants)(one)) is not None:
                free.setdefault(key, []).append(one)
    return plan


@handed_out
def touched_by(steps: list[Step]) -> dict[str, set[str]]:
    """Value -> the streams of the step that makes it and of those that read it."""
    streams = {name: {stream} for name, stream, *_ in steps}
    for _, stream, reads, _ in steps:
        for one in reads:
            streams[one].add(stream)
    return streams


@handed_out
def program(steps: list[Step], plan: Plan) -> tuple[list[tuple[Any, ...]], list[str]]:
    """What is queued, and a name for each piece of work: every value in its plan's buffer."""
    buffers, made_on = roots(plan), {name: stream for name, stream, *_ in steps}
    queued: list[tuple[Any, ...]] = []
    names = []
    for name, stream, reads, _ in steps:
        queued += [("wait", stream, one) for one in reads if made_on[one] != stream]
        queued.append(("run", stream, tuple(buffers[one] for one in reads), (buffers[name],)))
        queued.append(("record", stream, name))
        names.append(f"{name} in {buffers[name]}'s")
    return queued, names


@handed_out
def roots(plan: Plan) -> Plan:
    """Value -> the value that had its buffer first."""
    first: Plan = {}
    for name, taken in plan.items():
        first[name] = name if taken == name else first[taken]
    return first


@handed_out
def in_no_order(steps: list[Step], plan: Plan) -> list[tuple[str, str]]:
    """Pairs of steps that use one buffer, and may run in either order."""
    queued, _ = program(steps, plan)
    runs = [place for place, step in enumerate(queued) if step[0] == "run"]
    named = {place: step[0] for place, step in zip(runs, steps, strict=True)}
    return [(named[one], named[other]) for one, other in races(queued)]


@handed_out
def held(steps: list[Step], plan: Plan) -> int:
    """Bytes of all buffers."""
    return sum(size for name, _, _, size in steps if plan[name] == name)


@handed_out
def finished_take_over(steps: list[Step]) -> Plan:
    """The plan in which a buffer goes on to the stream that alone has ever touched it."""
    sizes, touched = {name: size for name, *_, size in steps}, touched_by(steps)
    made_on = {name: stream for name, stream, *_ in steps}
    return planned(
        steps,
        wants=lambda name: (sizes[name], made_on[name]),
        leaves=lambda name: None if len(touched[name]) > 1 else (sizes[name], *touched[name]),
    )


# --- take_over


def _case(other: float, reads: float) -> Any:
    return lambda rng, size: Case((some_steps(rng, 3 + 2 * size, other, reads),))


def _judge(case: Case, got: Any) -> str | None:
    (steps,) = case.inputs
    names = [name for name, *_ in steps]
    if not isinstance(got, dict) or list(got) != names or not {*got.values()} <= {*names}:
        return "every value, in order, has the name of a value"
    return _overwritten(steps, got) or _unordered(steps, got) or _too_much(steps, got)


def _overwritten(steps: list[Step], plan: Plan) -> str | None:
    last, sizes = last_reads(steps), {name: size for name, *_, size in steps}
    holder: dict[str, str] = {}
    buffers: dict[str, str] = {}
    for number, (name, *_) in enumerate(steps):
        taken = plan[name]
        buffers[name] = name if taken == name else buffers.get(taken, "")
        if not buffers[name]:
            return f"{name} takes over the buffer of {taken}, which is made later"
        if sizes[name] != sizes[taken]:
            return f"{name} has {sizes[name]} bytes, and {taken} has {sizes[taken]}"
        before = holder.get(buffers[name], name)
        if before != name and last[before] >= number:
            return f"{before} is still needed when {name} takes over its buffer"
        holder[buffers[name]] = name
    return None


def _unordered(steps: list[Step], plan: Plan) -> str | None:
    first = next(iter(in_no_order(steps, plan)), None)
    return first and f"{first[0]} and {first[1]} use one buffer, and nothing orders them"


def _too_much(steps: list[Step], plan: Plan) -> str | None:
    taken, needed = held(steps, plan), held(steps, finished_take_over(steps))
    return None if taken <= SPARE * needed else f"{taken} bytes, where {needed} would do"


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The plan with everything as early as it may run: what nothing orders is drawn as a race."""
    from labkit import show

    queued, names = program(case.inputs[0], got)
    return show.streams(queued, names=names)


take_over = Exercise(
    id="stream_nobody_recorded.take_over",
    case=_case(0.4, 0.5),
    judge=_judge,
    picture=_drawn,
    show=lambda steps: "; ".join(f"{n} on {s} reads {r}, {b} bytes" for n, s, r, b in steps),
    cases=120,
    minutes=14,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    stages=(
        Stage("one stream", case=_case(0.0, 0.0), cases=30),
        Stage("two streams", case=_case(0.4, 0.0), cases=30),
        Stage("read by the other", case=_case(0.4, 0.5), cases=40),
        Stage("all"),
    ),
    hints=(
        Hint("A value is needed up to the last step that reads it, that step included.",
             when=lambda e: "still needed" in e.property),
        Hint("Only a buffer of the same bytes fits.", when=lambda e: "bytes, and" in e.property),
        Hint("Two streams, one buffer: let the stream decide as well as the bytes.",
             when=lambda e: "nothing orders" in e.property, stage="two streams"),
        Hint("The stream that made a value is not all: who else has read it? That stream may "
             "still be reading when the next value is written.",
             when=lambda e: "nothing orders" in e.property),
        Hint("More buffers than needed: after a step, those that it was the last to read are free.",
             when=lambda e: "would do" in e.property),
        "Collect, for each value, the streams that make and read it.",
        "Keep the free buffers in a dict: (bytes, stream) -> values.",
    ),
    must_fail=(
        "takes any buffer of the same bytes",
        "asks for the stream that made it alone",
        "asks for the stream that read it last alone",
        "never takes a buffer over",
        "takes what this step still reads",
        "takes what is read later",
        "takes larger buffers, too",
        "takes the buffer of a result",
        FIRST,
    ),
)  # fmt: skip
