"""The small steps on a run that died: unused bytes of three kinds, and the longest free piece."""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST, READS
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import GIB, MIB


def _a_snapshot(rng: Rng, size: int) -> dict[str, Any]:
    """The map of a program on two streams; some blocks wait for the other stream."""
    allocator = CachingAllocator(SimulatedDevice(4 * GIB))
    live: list[int] = []
    for _ in range(2 + 2 * size):
        if live and rng.chance(0.45):
            address = live.pop(rng.randrange(len(live)))
            if rng.chance(0.3):
                allocator.record_stream(address, rng.choice((0, 1)))
            allocator.free(address)
        else:
            nbytes = rng.choice((512, 300_000, 2 * MIB, 5 * MIB, 9 * MIB, 14 * MIB, 40 * MIB))
            live.append(allocator.malloc(nbytes, rng.choice((0, 1))))
    return allocator.snapshot()


def _in_words(snapshot: dict[str, Any], *more: Any) -> str:
    words = {"active_allocated": "live", "active_pending_free": "pending", "inactive": "free"}
    segments = [
        f"[stream {segment['stream']}: "
        + " + ".join(f"{b['size']:,} {words[b['state']]}" for b in segment["blocks"])
        + "]"
        for segment in snapshot["segments"]
    ]
    return " ".join([*(f"stream {stream};" for stream in more), *segments])


def _drawn(case: Any, got: Any, right: Any) -> Any:
    """The snapshot of the failing case."""
    from labkit import show

    return show.memory(case.inputs[0], what_if=(), simple=True)


def _unused(snapshot: dict[str, Any]) -> int:
    return sum(s["total_size"] - s["allocated_size"] for s in snapshot["segments"])


def _has_pending(evidence: Evidence) -> bool:
    segments = evidence.inputs[0]["segments"]
    return any(b["state"] == "active_pending_free" for s in segments for b in s["blocks"])


unused = Exercise(
    id="run_that_died.unused",
    case=lambda rng, size: (_a_snapshot(rng, size),),
    expected=_unused,
    show=_in_words,
    picture=_drawn,
    rung="warm-up",
    cases=80,
    minutes=3,
    rules=("plain Python: no labkit, no torch",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Too little. A segment with a live block has unused bytes, too: those behind and "
            "before the block.",
            when=lambda e: isinstance(e.value, int) and e.value < e.right and not _has_pending(e),
        ),
        Hint(
            "A pending block was given back by the program, so it is not allocated any more.",
            when=lambda e: isinstance(e.value, int) and e.value < e.right,
        ),
        "Each segment knows its total_size and its allocated_size.",
    ),
    must_fail=(
        "counts segments that are free as a whole",
        "leaves pending blocks out",
        "counts what is allocated",
        "looks at the first segment alone",
    ),
)


QUESTIONS = ("returnable", "split", "rounding")


def _asked(*questions: str) -> Any:
    def case(rng: Rng, size: int) -> tuple[dict[str, Any], str]:
        return _a_snapshot(rng, size), rng.choice(questions or QUESTIONS)

    return case


def _which(snapshot: dict[str, Any], question: str) -> int:
    found = dict.fromkeys(QUESTIONS, 0)
    for segment in snapshot["segments"]:
        blocks = segment["blocks"]
        free = sum(b["size"] for b in blocks if b["state"] == "inactive")
        found["returnable" if free == segment["total_size"] else "split"] += free
        live = [b for b in blocks if b["state"] == "active_allocated"]
        found["rounding"] += sum(b["size"] - b["requested_size"] for b in live)
    return found[question]


def _of(question: str) -> Any:
    return lambda e: e.inputs[1] == question and isinstance(e.value, int) and not _has_pending(e)


which_number = Exercise(
    id="run_that_died.which_number",
    case=_asked(),
    expected=_which,
    show=lambda snapshot, question: f"{question!r} of {_in_words(snapshot)}",
    picture=_drawn,
    rung="warm-up",
    cases=90,
    minutes=4,
    rules=("plain Python: no labkit, no torch",),
    banned=TORCH_AND_LABKIT,
    stages=(
        *(Stage(question, case=_asked(question), cases=40) for question in QUESTIONS),
        Stage("all"),
    ),
    hints=(
        Hint("Only a segment whose blocks are all inactive can go back: one block, in fact.",
             when=_of("returnable")),
        Hint("Free blocks beside a block that is not free: those of the other segments.",
             when=_of("split")),
        Hint("Of each allocated block, its size less its requested_size.", when=_of("rounding")),
        Hint("A pending block is neither free nor allocated. It keeps its segment, and counts "
             "nowhere.", when=lambda e: isinstance(e.value, int) and _has_pending(e)),
        "Go through the segments; of each, the blocks decide.",
    ),
    must_fail=(
        "reserved minus allocated for everything",
        "adds the free blocks up for both",
        "ignores pools",
        "takes a pending block for a free one",
        "counts the rounding of free blocks",
        "counts the rounding of pending blocks",
        "looks at the first segment alone",
        "looks at the stream of the first segment alone",
        "takes the largest of them for all of them",
        FIRST,
        READS,
    ),
)  # fmt: skip


def _longest(snapshot: dict[str, Any], stream: int) -> int:
    free = [
        block["size"]
        for segment in snapshot["segments"]
        if segment["stream"] == stream
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
    return max(free, default=0)


longest_free = Exercise(
    id="run_that_died.longest_free",
    case=lambda rng, size: (_a_snapshot(rng, size), rng.choice((0, 1))),
    expected=_longest,
    show=_in_words,
    picture=_drawn,
    rung="warm-up",
    cases=80,
    minutes=3,
    rules=("plain Python: no labkit, no torch",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The stream has no free block: the longest is 0 bytes.",
            when=lambda e: e.right == 0 and not isinstance(e.value, int),
        ),
        Hint(
            "Too much. Only a block that is inactive is free, only those of this stream count, and "
            "two free blocks are not one.",
            when=lambda e: isinstance(e.value, int) and e.value > e.right,
        ),
        "Collect the sizes of the blocks in a list, then max(sizes, default=0).",
    ),
    must_fail=(
        "adds the free blocks up",
        "takes every stream's blocks",
        "takes a pending block for a free one",
        "takes the largest segment",
        "fails where nothing is free",
    ),
)
