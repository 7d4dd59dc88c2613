"""Memory pools: what is done with, what is idle, and a pool repaired row by row."""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._busy_pool import clear_while_busy
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._pool_streams import record_the_stream
from labkit.course.exercises._pool_traces import (
    ROOM,
    PoolRun,
    any_program,
    cleared,
    drawn,
    drive_pool,
    full_device,
    judge_pool,
    one_stream,
    readers,
    show_program,
    two_streams,
)
from labkit.memory.sizes import KIB

NOTEBOOK = "4_vision_low_level/2_memory_pool"

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"

# --- retire


def _some_pending(rng: Rng, size: int) -> tuple[Any, ...]:
    events = [f"e{number}" for number in range(1 + 2 * size)]
    pending = [
        (4096 * (number + 1), tuple(rng.sample(events, min(rng.randint(0, 3), len(events)))))
        for number in rng.sample(range(20), rng.randint(0, 2 + size))
    ]
    return pending, {event for event in events if rng.chance(0.6)}


def _retired(pending: list[Any], done: set[str]) -> tuple[list[int], list[Any]]:
    free = [address for address, events in pending if done.issuperset(events)]
    return free, [pair for pair in pending if pair[0] not in free]


def _answered(evidence: Evidence) -> bool:
    return isinstance(evidence.value, tuple) and len(evidence.value) == 2


retire = Exercise(
    id="memory_pool.retire",
    rung="warm-up",
    case=_some_pending,
    expected=_retired,
    cases=120,
    minutes=4,
    hints=(
        Hint(
            "Return two lists: the free addresses, and the pairs that still wait.",
            when=lambda e: not _answered(e),
        ),
        Hint(
            "A block that you called free still has a reader: one of its events is not done.",
            when=lambda e: _answered(e) and not set(e.value[0]) <= set(e.right[0]),
        ),
        Hint(
            "All events of a block are done, or it has none, and you keep it. Events need not be "
            "done in order: look at every pair.",
            when=lambda e: _answered(e) and not set(e.right[0]) <= set(e.value[0]),
        ),
        Hint(
            "The addresses are right. The second list holds whole pairs, in their order.",
            when=lambda e: _answered(e) and e.value[0] == e.right[0],
        ),
        "all(event in done for event in events) is True for no events, too.",
    ),
    must_fail=(
        "takes one event for all of them",
        "stops at the first that still waits",
        "asks the last event only",
        "keeps a block without events",
        "drops what still waits",
        "keeps addresses for pairs",
        FIRST,
    ),
)

# --- idle_segments


def _some_segments(rng: Rng, size: int) -> tuple[Any, ...]:
    segments, end = [], 0
    for _ in range(rng.randint(0, 1 + size)):
        start, blocks = end, []
        for _ in range(rng.randint(1, 4)):
            nbytes = 512 * rng.randint(1, 40)
            blocks.append([end, nbytes, rng.chance(0.65)])
            end += nbytes
        segments.append(blocks)
        end = start + 2048 * KIB
    return (segments,)


def _idle(segments: list[Any]) -> list[int]:
    return [blocks[0][0] for blocks in segments if all(free for _, _, free in blocks)]


def _words(addresses: Any) -> set[str]:
    return set(map(str, addresses)) if isinstance(addresses, list) else set()


idle_segments = Exercise(
    id="memory_pool.idle_segments",
    rung="warm-up",
    case=_some_segments,
    expected=_idle,
    cases=120,
    minutes=3,
    hints=(
        Hint(
            "One of these segments has a block in use: the device would take it away with the "
            "rest.",
            when=lambda e: not _words(e.value) <= _words(e.right),
        ),
        Hint(
            "A segment without a block in use is missing. It may still have several free blocks.",
            when=lambda e: not _words(e.right) <= _words(e.value),
        ),
        "A segment begins where its first block begins: blocks[0][0].",
    ),
    must_fail=(
        "looks at the first block only",
        "one free block is enough for it",
        "wants a single block",
        "returns every free block",
        FIRST,
    ),
)


# --- repair_the_pool

repair_the_pool = Exercise(
    id="memory_pool.repair_the_pool",
    rules=("plain Python: nothing of labkit or torch",),
    case=any_program,
    judge=judge_pool,
    drive=drive_pool,
    returns=(PoolRun,),
    show=show_program,
    picture=drawn,
    stages=(
        Stage("sizes", case=one_stream, cases=4),
        Stage("two streams", case=two_streams, cases=6),
        Stage("readers", case=readers, cases=5),
        Stage("full device", case=full_device, cases=9),
        Stage("clear", case=cleared, cases=5),
        Stage("together"),
    ),
    banned=("labkit.memory.caching_allocator",),
    cases=24,
    sizes=5,
    seconds=10.0,
    minutes=15,
    hints=(
        Hint(
            "Held bytes grow with the number of sizes. A larger free block could serve this "
            "request: cut it, and keep the rest.",
            when=lambda e: "are held" in e.property and e.stage in ("", "sizes"),
        ),
        Hint(
            "The block came from another stream, whose old work on it is still queued. Give each "
            "stream segments of its own.",
            when=lambda e: "data" in e.property and e.stage == "two streams",
        ),
        Hint(
            "On its own stream a block needs no wait at all: what is queued later runs later.",
            when=lambda e: "nobody waits" in e.property and e.stage == "two streams",
        ),
        Hint(
            "A block was used again while a stream of used_on had not read it. Record one event "
            "per stream in free, keep the block aside, and ask at the next request: retire.",
            when=lambda e: "data" in e.property and e.stage == "readers",
        ),
        Hint(
            "All readers of a block were done, and you asked the device for a new one. allocate "
            "asks the events before it searches.",
            when=lambda e: "readers are done" in e.property,
        ),
        Hint(
            "Do not wait for the readers while there is room: query_event asks without waiting.",
            when=lambda e: "nobody waits" in e.property and e.stage != "two streams",
        ),
        Hint(
            "The device was full, and you took a block that a stream still reads. "
            "`synchronize_event` waits for each of its events; then it is free.",
            when=lambda e: "data" in e.property and e.inputs[1] < ROOM,
        ),
        Hint(
            "Before you raise: wait for the events of what is pending, give every idle segment "
            "back, those of other streams too, search your own blocks again, and ask once more.",
            when=lambda e: "MemoryError" in e.property,
        ),
        Hint(
            "A segment went back to the device, and a block in it was in use.",
            when=lambda e: "goes back" in e.property and "given back" in e.property,
        ),
        Hint(
            "Everything was free, and the device has not got all of it back: clear takes every "
            "idle segment out of the list and calls driver.free for it.",
            when=lambda e: "after clear" in e.property,
        ),
        Hint(
            "You used a segment again that you had given back to the device. What clear gives back "
            "leaves `self.segments`, too, for every stream.",
            when=lambda e: "did not come from" in e.got or "outside the memory" in e.property,
        ),
        "Take the rows in order. Each replaces one `raise NotImplementedError`; the pictures show "
        "what is still missing.",
    ),
    must_fail=(
        "exact-size keys",
        "waits for the device at every free",
        "ignores streams",
        "never returns memory on failure",
        "does not wait for what is pending on a full device",
        "merges what is pending on a full device without a wait",
        "asks again on a full device, and does not search",
        "asks the events in free only",
        "clear frees live blocks",
        "clear gives a segment back and keeps it",
        "loses the remainder of a split",
        ORDERS,
        FIRST,
    ),
)

EXERCISES = (retire, record_the_stream, idle_segments, repair_the_pool, clear_while_busy)
