"""A run that died: why a request found no room, fragments made and cured, a leak found."""

import contextlib
from typing import Any

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._failures import CAUSES, puzzle, show_puzzle
from labkit.course.exercises._free_room import longest_free, unused, which_number
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.course.exercises._training_runs import show_run, training_run
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import GIB, MIB

NOTEBOOK = "2_core_code/9b_run_that_died"


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The snapshot of the failing case."""
    from labkit import show

    return show.memory(case.inputs[0], what_if=(), autopsy=())


why_oom = Exercise(
    id="run_that_died.why_oom",
    rules=("plain Python: nothing of labkit or torch",),
    case=puzzle(*CAUSES),
    show=show_puzzle,
    picture=_drawn,
    cases=60,
    rung="boss",
    minutes=30,
    stages=(
        *(Stage(cause, case=puzzle(cause), cases=15) for cause in CAUSES),
        Stage("together"),
    ),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "There is a free block large enough: why not it? Look at its stream, and whether it is "
            "free or pending.",
            when=lambda evidence: evidence.right[0] in ("stream", "pending"),
        ),
        Hint(
            "allocator_settings in the snapshot says what is on. A flag that is on already "
            "is no remedy.",
            when=lambda evidence: evidence.inputs[0]["allocator_settings"]["expandable_segments"],
        ),
        Hint(
            "A segment of a private pool (segment_pool_id other than (0, 0)) with nothing "
            "allocated goes back only when its pool is dropped.",
            when=lambda evidence: evidence.right[0] == "pool",
        ),
        "Check stream, pool and pending in that order, block by block; neighbours that are free or "
        "pending become one block once the other stream is done.",
        "Sum the idle bytes of the default pools and what the device has left, and compare with "
        "the request.",
    ),
    must_fail=(
        "always fragmentation",
        "always lower the batch",
        "suggests a flag already on",
        "counts pending blocks as free",
        CONSTANT,
        READS,
        FIRST,
    ),
)

LONGEST = 2000
"""Operations a program of `cause_and_cure` may have."""


LARGEST = 80 * GIB
"""Bytes of the largest device it is asked for."""


def _a_device(rng: Rng, size: int) -> tuple[int]:
    if rng.chance(0.2):
        return (rng.randrange(GIB, LARGEST, 2 * MIB),)
    return (rng.randrange(160, 200 + 400 * size, 2) * MIB,)


def _judge_fragments(case: Case, got: Any) -> str | Wrong | None:
    total = case.inputs[0]
    if isinstance(got, Raised) or not isinstance(got, tuple | list) or len(got) != 2:
        return "cause_and_cure returns (program, settings)"
    program, cure = got
    if not isinstance(program, list | tuple) or not program:
        return "the program is a list of operations, at least one"
    if len(program) > LONGEST:
        return Wrong(f"the program has at most {LONGEST:,} operations, not {len(program):,}")
    if not isinstance(cure, str):
        return "settings is one string"
    try:
        options = AllocatorSettings.parse(cure)
    except (ValueError, RuntimeError, IndexError) as error:
        return f"PyTorch refuses the settings: {error}"
    if options.per_process_memory_fraction != 1.0:
        return "the cure changes no memory fraction"
    found = _serve(program, total, AllocatorSettings())
    if isinstance(found, str):
        return found
    at, live, wanted = found
    if at is None:
        return "under default settings the last request runs out of memory"
    if at != len(program) - 1:
        return f"the last operation alone runs out; number {at + 1} of {len(program)} did"
    if live > 0.6 * total:
        return Wrong(
            f"at most 60 % of the device is in use when it runs out, not {live / total:.0%}"
        )
    if live + wanted > total:
        return Wrong("what is in use and the last request fit on the device together")
    found = _serve(program, total, options)
    if isinstance(found, str):
        return found
    if found[0] is not None:
        at = found[0] + 1
        return Wrong(
            f"under your settings {cure!r} every request is served; "
            + ("the last one was not" if at == len(program) else f"number {at} was not")
        )
    return None


def _serve(
    program: Any, total: int, options: AllocatorSettings
) -> str | tuple[int | None, int, int]:
    """(operation that ran out or None, bytes in use, bytes wanted); or what is wrong with it."""
    return _serve_on(CachingAllocator(SimulatedDevice(total), options), program)


def _serve_on(allocator: CachingAllocator, program: Any) -> str | tuple[int | None, int, int]:
    names: dict[Any, int] = {}
    for at, operation in enumerate(program):
        match operation:
            case ("malloc", name, int(size)) if size > 0 and name not in names:
                try:
                    names[name] = allocator.malloc(size)
                except OutOfMemoryError:
                    return at, allocator.allocated_bytes, size
            case ("free", name) if name in names:
                allocator.free(names.pop(name))
            case _:
                return f"operation {at} is ('malloc', new name, bytes) or ('free', live name)"
    return None, allocator.allocated_bytes, 0


def _where_it_ran_out(case: Case, got: Any, right: Any) -> Any:
    """Your program up to the request that found no room: by default, or else under the cure."""
    from labkit import show

    program, cure = got if isinstance(got, tuple | list) and len(got) == 2 else (None, "")
    if not isinstance(program, tuple | list) or len(program) > LONGEST:
        return None
    allocator, found = _recorded(program, case.inputs[0], "")
    settings = "default settings"
    if isinstance(found, tuple) and found[0] == len(program) - 1:
        with contextlib.suppress(ValueError, RuntimeError, IndexError, TypeError, AttributeError):
            cured, at = _recorded(program, case.inputs[0], cure)
            if isinstance(at, tuple) and at[0] is not None:
                allocator, settings = cured, cure or settings
    return show.memory(allocator, what_if=(), title=f"your program, {settings}")


def _recorded(program: Any, total: int, settings: str) -> tuple[CachingAllocator, Any]:
    """The allocator after the program, with its trace, and what `_serve_on` says."""
    allocator = CachingAllocator(SimulatedDevice(total), settings)
    allocator.record_memory_history("all", None)
    return allocator, _serve_on(allocator, program)


def _frees(evidence: Evidence) -> bool:
    """Whether the program gives anything back."""
    return any(operation[0] == "free" for operation in evidence.value[0])


def _grows(evidence: Evidence) -> bool:
    """Whether the cure is the setting that lets a segment grow, and does not cure."""
    cured = "every request is served" in evidence.property
    return cured and "expandable_segments:True" in evidence.value[1]


cause_and_cure = Exercise(
    id="run_that_died.cause_and_cure",
    rules=("no memory fraction in the settings",),
    case=_a_device,
    judge=_judge_fragments,
    picture=_where_it_ran_out,
    cases=60,
    minutes=15,
    stages=(
        Stage("400 MiB", case=lambda rng, size: (400 * MIB,), cases=2),
        Stage("80 GiB", case=lambda rng, size: (LARGEST,), cases=2),
        Stage("any device"),
    ),
    banned=("labkit.*",),
    hints=(
        "An idle segment goes back whole. Every segment needs one block that stays, so that the "
        "rest of it is stuck.",
        Hint(
            "Blocks of less than 10 MiB share segments and pack well. A request of 40 MiB has a "
            "segment of its own: give it back, and let a smaller one move in.",
            when=lambda evidence: (
                "default settings the last request" in evidence.property
                or ("60 %" in evidence.property and not _frees(evidence))
            ),
        ),
        Hint(
            "Too much stays. Of each segment a little more than half is enough: no other block of "
            "that size fits beside it.",
            when=lambda evidence: "60 %" in evidence.property and _frees(evidence),
        ),
        Hint(
            "The last request is too large: beside what is in use the device has not that much. "
            "Ask for less, and still for more than the largest idle piece.",
            when=lambda evidence: "fit on the device together" in evidence.property,
        ),
        Hint(
            "Your program does break up the device. Now the settings: which one does rule 5 name?",
            when=lambda evidence: (
                "every request is served" in evidence.property
                and "expandable_segments:True" not in evidence.value[1]
            ),
        ),
        Hint(
            "A growing segment grows by 20 MiB at a time. Your first requests lie in it side by "
            "side: with their sum rounded up to 20 MiB, are they still on the device?",
            when=lambda evidence: _grows(evidence) and "the last one" not in evidence.property,
        ),
        Hint(
            "A growing segment gives back steps of 20 MiB, and only those in which nothing lives. "
            "After your frees, does a live block lie in each of them?",
            when=_grows,
        ),
        Hint(
            "The number of your requests grows with the device. Let their size grow instead.",
            when=lambda evidence: "operations, not" in evidence.property,
        ),
        Hint(
            "10 MiB and more get a segment of their own, in steps of 2 MiB. Add up the segments, "
            "not the requests: they have to fit on the device.",
            when=lambda evidence: "the last operation alone" in evidence.property,
        ),
        "Sort out one thing after the other: what fills the device, what of it stays, what is "
        "asked for last.",
    ),
    must_fail=(
        "asks for more than is left",
        "frees nothing",
        "a cure that changes nothing",
        "keeps too much in use",
        "pins every page, so that nothing cures it",
        "the same program for every device",
        "an operation per 512 bytes",
        "requests of the same size on every device",
        "forgets that a growing segment grows by 20 MiB",
        "forgets that a segment is rounded up to 2 MiB",
        FIRST,
    ),
)


def _of_a_library(evidence: Evidence) -> bool:
    """Whether the line named is one of a library alone."""
    (snapshot,) = evidence.inputs
    frames = [f for event in snapshot["device_traces"][0] for f in event.get("frames", ())]
    ours = {f["line"] for f in frames if f["filename"].endswith("train.py")}
    return evidence.value in {f["line"] for f in frames} - ours


find_the_leak = Exercise(
    id="run_that_died.find_the_leak",
    rules=("plain Python: nothing of labkit or torch",),
    case=training_run,
    show=show_run,
    picture=_drawn,
    cases=24,
    minutes=15,
    stages=(
        Stage("a leak", case=lambda rng, size: training_run(rng, size, leaks=True), cases=8),
        Stage("no leak", case=lambda rng, size: training_run(rng, size, leaks=False), cases=8),
        Stage("any run"),
    ),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "That is a line of a library. The frames are innermost first: take the first one whose "
            "filename is train.py.",
            when=_of_a_library,
        ),
        Hint(
            "There is a leak. Of each alloc count the first frame that is in train.py: lines "
            "of a library may lie on top of it.",
            when=lambda evidence: evidence.value is None,
        ),
        Hint(
            "This run does not leak: what you named stopped growing. Compare the live memory in "
            "the middle of the trace with the end.",
            when=lambda evidence: evidence.right is None,
        ),
        Hint(
            "That line does not keep more in every step. A leak need not be large: it grows. "
            "Compare the live blocks of each line in the middle of the trace with those at the "
            "end.",
            when=lambda evidence: evidence.right is not None and evidence.value is not None,
        ),
        "Walk device_traces[0]: an alloc adds its line, a free_completed takes away what its "
        "address added.",
        "Take the frame whose filename is train.py, not the innermost one; keep the lines of "
        "which more blocks are alive at the end than halfway, by more than the cache's three.",
    ),
    must_fail=(
        "names the line with the most live bytes",
        "names the line with the most allocations",
        "names the library's frame",
        "flags the optimizer state",
        "flags a cache that still fills",
        "never says None",
        "never finds one",
        FIRST,
        READS,
    ),
)

EXERCISES = (unused, which_number, longest_free, cause_and_cure, find_the_leak, why_oom)
