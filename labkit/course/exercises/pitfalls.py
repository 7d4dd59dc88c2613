"""Sick programs: what a step leaves behind, what still fits, and two streams put right."""

from collections.abc import Iterator
from typing import Any

from labkit.course.benches.kernel_bench import Found
from labkit.course.cases.queues import Gpu, sharpened
from labkit.course.cases.recorder import Event
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._fewer import fewer
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "4_vision_low_level/13_pitfalls"

# --- left_over


EDGES: dict[int, list[Event]] = {
    1: [],
    3: [Event("alloc", 2, 1, 0, 512), Event("alloc", 0, 2, 512, 4)],
    2: [Event("free", 0, 1, 0, 512), Event("alloc", 1, 2, 512, 4), Event("segment", 3, 2, 0, 512)],
    4: [Event("alloc", 70, 3, 0, 4096)],
}
"""Asked for at these sizes: no event, steps out of order, a block from before and a last step that
takes nothing, a high step."""


def _a_recording(rng: Rng, size: int) -> tuple[list[Event]]:
    """Blocks that come and go over a few steps, some of them before the first."""
    if size in EDGES:
        return (list(EDGES[size]),)
    steps = rng.randint(1 if size else 0, 1 + size)
    events, live = [], dict[int, int]()
    for step in range(-1, steps):
        for _ in range(rng.randint(0 if 0 < step < steps - 1 else 1, 1 + size)):
            line = rng.randint(1, 30)
            if live and rng.chance(0.45):
                address = rng.choice(list(live))
                events.append(Event("free", step, line, address, live.pop(address)))
                continue
            address, nbytes = 512 * len(events), rng.choice((4, 512, 4096, 1 << 20))
            if rng.chance(0.3):
                events.append(Event("segment", step, line, address, 2 << 20))
            live[address] = nbytes
            events.append(Event("alloc", step, line, address, nbytes))
    if size > 1 and rng.chance(0.3):
        events.append(Event("out of memory", max(steps - 1, -1), 7, 1 << 20, 40 << 20))
    return (events,)


def _left_over(events: list[Event]) -> list[int]:
    signs = {"alloc": 1, "free": -1}
    left = [0] * (1 + max((event.step for event in events), default=-1))
    for event in events:
        if event.step >= 0:
            left[event.step] += signs.get(event.kind, 0) * event.size
    return left


left_over = Exercise(
    id="pitfalls.left_over",
    rung="warm-up",
    case=_a_recording,
    expected=_left_over,
    smaller=lambda events: ((some,) for some in fewer(events)),
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A step in which nothing happens leaves 0: it has its place in the list. The last step "
            "is the largest one of all events.",
            when=lambda e: isinstance(e.value, list) and len(e.value) < len(e.right),
        ),
        Hint(
            "An event before the first step has the step -1, and left[-1] is the last step.",
            when=lambda e: any(event.step < 0 for event in e.inputs[0]),
        ),
        Hint(
            "Only alloc and free change what is held. A segment is room, and a failed request "
            "gave nothing.",
            when=lambda e: any(event.kind not in ("alloc", "free") for event in e.inputs[0]),
        ),
        "An alloc adds its size to its step, a free takes its size from its own step.",
        "left = [0] * (1 + last step); then one loop over the events.",
    ),
    must_fail=(
        "counts what came before the first step",
        "counts the segments too",
        "leaves out steps without events",
        "takes a free from the step of its alloc",
        "counts the running sum",
        "ends where nothing is taken any more",
        "counts frees of its own blocks only",
        "knows 64 steps",
        "fails without events",
        "says 0 without events",
        "takes the last event's step for the last step",
        "empties the list of events",
        FIRST,
    ),
)

# --- largest_request

MIB = 1 << 20
Segments = list[tuple[int, list[int]]]
FULL = 3
"""At this size the device has nothing left, until several segments go back."""


def _some_segments(rng: Rng, size: int) -> tuple[Segments, int]:
    """(size, sizes of its free blocks) of each segment, and what the device has left."""
    segments: Segments = []
    if size == 0:
        return segments, 0
    if size == FULL:
        return [(20 * MIB, [20 * MIB]), (12 * MIB, [12 * MIB])], 0
    for _ in range(rng.randint(0, size)):
        whole = 2 * MIB * rng.randint(5, 20)
        if rng.chance(0.25):
            segments.append((whole, [whole]))
            continue
        free = [MIB * rng.randint(2, 6) for _ in range(rng.randint(0, 3))]
        segments.append((whole, [one for n, one in enumerate(free) if sum(free[: n + 1]) < whole]))
    return segments, 2 * MIB * rng.randint(0, 16)


def _largest_request(segments: Segments, room: int) -> int:
    back = sum(size for size, free in segments if free == [size])
    return max([room + back, *(one for _, free in segments for one in free)])


largest_request = Exercise(
    id="pitfalls.largest_request",
    rung="warm-up",
    stages=(
        Stage("holes", only=lambda segments, room: all(f != [s] for s, f in segments), cases=20),
        Stage("whole segments"),
    ),
    case=_some_segments,
    expected=_largest_request,
    smaller=lambda segments, room: ((some, room) for some in fewer(segments)),
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "{got} is more than any one place has. A request needs one block, in one piece.",
            when=lambda e: e.value > e.right,
            stage="holes",
        ),
        Hint(
            "A segment whose only free block is as large as the segment goes back to the device. "
            "What has the device then?",
            stage="whole segments",
        ),
        "Two places can serve: a free block, or the device.",
        "max([room + what goes back, *all free blocks])",
    ),
    must_fail=(
        "adds up all holes",
        "forgets the device",
        "lets no segment go back",
        "adds a hole to the device's room",
        "forgets the segments when the device is full",
        "fails without segments",
        "grants a byte where there is none",
        FIRST,
    ),
)

# --- broken_stream_program

PACES = ("lazy", "eager", *range(62))
"""How far the queues get while the host goes on: 64 ways."""
FINE = {
    "the results, in 64 paces": "right",
    "races": "none",
    "uploads": "on the copy stream, each frame once",
    "work": "on the work stream, each frame once",
    "left when all is done": "the results",
    "an upload beside the work before it": "each",
    "blocks for frames, when the GPU keeps up": "two at most",
}
NAMES = ("copy", "work", "left", "right", "first", "second")


LISTS: dict[int, list[int]] = {2: [], 3: [*range(14)], 6: [5, 7, 5, 5]}
"""No frame, many frames, equal frames: asked for at these sizes."""


def _some_frames(rng: Rng, size: int) -> tuple[list[int], str, str]:
    if size in LISTS:
        return LISTS[size], "copy", "work"
    return _frames(rng, 1 + rng.randint(size // 2, size))


def _frames(rng: Rng, count: int) -> tuple[list[int], str, str]:
    copy, work = rng.sample(NAMES, 2)
    return [rng.randint(0, 999) for _ in range(count)], copy, work


def _right_program(*inputs: Any) -> dict[str, str]:
    return FINE


def _drive_program(answer: Any, frames: list[int], copy: str, work: str) -> Found:
    """What the program left on GPUs of many paces; the first fault of each kind is told."""
    found = dict(FINE)
    drawn = None
    for pace in PACES:
        gpu = Gpu(pace)
        given = list(frames)
        results = list(answer(gpu, given, copy, work))
        overlaps, queued, most = gpu.overlaps(), list(gpu.program), gpu.most
        said = _left(gpu, results, frames)
        if len(frames) > 1:  # the next owner of what was freed
            gpu.upload(copy, 0, gpu.new(copy))
        said |= _faults(gpu, results, frames, pace)
        if given != frames:
            said["the results, in 64 paces"] = "the list of frames was changed"
        said |= _streams(queued, len(frames), copy, work)
        if pace == "lazy" and overlaps < len(frames) - 1:
            said["an upload beside the work before it"] = f"{overlaps} of {len(frames) - 1}"
        if pace == "eager" and most > len(frames) + 2:
            said["blocks for frames, when the GPU keeps up"] = str(most - len(frames))
        if said and drawn is None:
            drawn = gpu
        for what, text in said.items():
            if found[what] == FINE[what]:
                found[what] = text
    return Found(found).seen_in(None, drawn)


@handed_out
def _faults(gpu: Gpu, results: list[Any], frames: list[int], pace: Any) -> dict[str, str]:
    """What came out wrong, or raced."""
    said = {}
    got = [gpu.read(block) for block in results]
    right = [sharpened(frame) for frame in frames]
    if got != right:
        said["the results, in 64 paces"] = f"pace {pace}: {got}, not {right}"
    if raced := gpu.races():
        said["races"] = f"{raced[0][0]} and {raced[0][1]}"
    return said


@handed_out
def _left(gpu: Gpu, results: list[Any], frames: list[int]) -> dict[str, str]:
    """What was not given back."""
    live = sorted(gpu.live())
    if live == sorted(set(results)) and len(live) == len(frames):
        return {}
    return {"left when all is done": f"{len(live)} blocks for {len(frames)} results"}


@handed_out
def _streams(program: list[Any], count: int, copy: str, work: str) -> dict[str, str]:
    """Who did how much of what."""
    runs = [(stream, bool(reads)) for kind, stream, reads, *_ in _runs(program)]
    said = {}
    for name, reads, stream in (("uploads", False, copy), ("work", True, work)):
        lanes = [lane for lane, reading in runs if reading == reads]
        if lanes != [stream] * count:
            said[name] = f"{len(lanes)} on {', '.join(sorted(set(lanes))) or 'no stream'}"
    return said


@handed_out
def _runs(program: list[Any]) -> Iterator[Any]:
    return (step for step in program if step[0] == "run")


def _drawn_program(case: Case, got: Any, right: Any) -> Any:
    """The queues of the first pace that went wrong."""
    gpu = getattr(got, "result", None)
    return None if gpu is None else gpu.picture()


def _wrong(*names: str) -> Any:
    """Whether the first fault that is told is one of these."""

    def when(evidence: Any) -> bool:
        first = next((name for name in FINE if evidence.value[name] != FINE[name]), "")
        return first in names

    return when


def _less_to_do(frames: list[int], copy: str, work: str) -> Iterator[tuple[list[int], str, str]]:
    if len(frames) > 1:
        yield frames[:-1], copy, work


broken_stream_program = Exercise(
    id="pitfalls.broken_stream_program",
    stages=(
        Stage("one frame", case=lambda rng, size: _frames(rng, 1), cases=4),
        Stage("two frames", case=lambda rng, size: _frames(rng, 2), cases=4),
        Stage("many frames"),
    ),
    case=_some_frames,
    expected=_right_program,
    drive=_drive_program,
    returns=(Found,),
    picture=_drawn_program,
    smaller=_less_to_do,
    show=lambda frames, copy, work: f"frames {frames}, streams {copy!r} and {work!r}",
    cases=12,
    sizes=6,
    minutes=15,
    seconds=20.0,
    hints=(
        Hint(
            "With one frame nothing is reused. What tells the work that its frame is there?",
            stage="one frame",
        ),
        Hint(
            "Each upload must be free to run beside the work on the frame before. Who waits there "
            "that need not, or does the host wait?",
            when=_wrong("an upload beside the work before it"),
        ),
        Hint(
            "When the GPU keeps up, a block can serve the next frame but one. Who holds it?",
            when=_wrong("blocks for frames, when the GPU keeps up", "left when all is done"),
        ),
        Hint(
            "After the free, the copy stream gets the same block for the next frame. Who "
            "still reads it then?",
            when=_wrong("the results, in 64 paces", "races"),
        ),
        "An event is recorded on the stream that has the work, and waited for by the other one.",
        "gpu.record_stream(block, work) before the free tells the allocator who reads the block.",
    ),
    must_fail=(
        "is the program as it was",
        "only waits",
        "only records the stream",
        "synchronises everything",
        "one stream for all",
        "waits on the wrong event",
        "records the stream that needs no record",
        "keeps all blocks until the end",
        "never frees",
        "makes the uploads wait for the work before",
        "knows the names of its streams",
        "puts the answer in without the work",
        "repairs the first frames",
        "records no stream for the last frame",
        "works on equal frames once",
        "empties the list",
        "is right in forward thread and queue order only and fails in a reversed or shuffled order",
    ),
)

EXERCISES = (left_over, largest_request, broken_stream_program)
