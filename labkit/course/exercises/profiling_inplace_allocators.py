"""A leak found by its stack: what grew, its lowest value, a detector; an allocator of one's own."""

import gc
from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._counting_allocator import counting_allocator
from labkit.course.exercises._leak_steps import grown, lowest
from labkit.course.exercises._leaking_programs import MECHANISMS, PROGRAM, Program
from labkit.course.exercises._never_right import FIRST, READS, TOO_SLOW

Programs = Callable[[Rng, int], tuple[str]]

NOTEBOOK = "1_fundamentals/8_profiling_inplace_allocators"


def _of_kinds(*kinds: str, crowds: bool = False, **fixed: int) -> Programs:
    """Programs whose step ends in one of these ways, with some of their numbers fixed.

    crowds  some hold thousands of blocks: once per snapshot is as often as one may go over them
    """

    def make(rng: Rng, size: int) -> tuple[str]:
        kind = rng.choice(kinds)
        crowd = crowds and size > 3 and rng.chance(0.3)
        numbers = {
            "hidden": rng.choice((4096, 65_536)),
            "output": rng.choice((2048, 8192)),
            "batch": rng.choice((1024, 40_000)),
            "moments": 4096 if crowd else rng.choice((1 << 20, 8 << 20)),
            "warm": rng.randint(3, 12),
            "workspace": rng.choice((512, 100_000)),
            "capacity": rng.randint(2, 10),
            "period": rng.choice((2, 3, 5, 6, 6)),
            "cached": rng.choice((700, 30_000)),
            "every": rng.randint(1, 4),
            "leak": rng.choice((512, 5000)),
        } | fixed
        lines = [line.format(**numbers) for line in MECHANISMS[kind]]
        blanks = "\n" * rng.randint(0, 4)
        text = blanks + PROGRAM.format(lines="\n    ".join(lines), **numbers)
        if crowd:
            text = text.replace("range(2)", "range(1200)")
        return (text,)

    return make


ENDS = (*list(MECHANISMS)[:6] * 2, "clean", "clean", "handled", "handled")
ONE = ("list", "dict", "closure")


def _growing(text: str) -> dict[str, Any]:
    """The stacks that have more bytes in late steps than in any before, however long one waits."""
    program = Program(text)
    lowest: list[dict[Any, int]] = []
    for first in (20, 44):
        while program.steps < first:
            program.step()
        seen = []
        for _ in range(12):
            program.step()
            seen.append(program.bytes_by_stack())
        stacks = {stack for one in seen for stack in one}
        lowest.append({stack: min(one.get(stack, 0) for one in seen) for stack in stacks})
    program.close()
    stacks = {stack for stack, size in lowest[1].items() if size > lowest[0].get(stack, 0)}
    return {"growing": stacks, "bytes you still hold": 0}


def _drive_detective(answer: Any, text: str) -> dict[str, Any]:
    """What the answer says, and what is held beyond what the program holds alone."""
    program = Program(text)
    found = answer(program.step, program.snapshot)
    alone = Program(text)
    for _ in range(program.steps):
        alone.step()
    over = program.allocator.allocated_bytes - alone.allocator.allocated_bytes
    if over:
        gc.collect()
        over = program.allocator.allocated_bytes - alone.allocator.allocated_bytes
    for one in (program, alone):
        one.close()
    return {"growing": found, "bytes you still hold": over}


def _shown_program(text: str) -> str:
    lines = text.strip("\n").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def train_step"))
    return "train_step: " + " | ".join(line.strip() for line in lines[start + 5 : -1])


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The program, and the lines that were named wrongly or left out."""
    from labkit import show

    named = got.get("growing") if isinstance(got, dict) else None
    if not isinstance(named, set):
        return None
    stations = [
        {"pane": 0, "lines": (stack[0][1], stack[0][1]), "text": text}
        for text, stacks in (
            ("you name this line, and it does not grow", named - right["growing"]),
            ("this line grows, and you do not name it", right["growing"] - named),
        )
        for stack in sorted(stacks)
    ]
    pane = {"title": "train.py", "text": str(case.inputs[0]), "language": "python"}
    return show.code(pane, stations=stations)


def _accused(evidence: Evidence) -> set[Any]:
    """Stacks that were named and do not grow."""
    found = set(evidence.value["growing"]) if isinstance(evidence.value, dict) else set()
    return found - set(evidence.right["growing"])


def _accused_forward(evidence: Evidence) -> bool:
    lines = evidence.inputs[0].splitlines()
    inside = {number for number, line in enumerate(lines, 1) if "= activation(" in line}
    return any(line in inside for stack in _accused(evidence) for _, line in stack)


def _missed(evidence: Evidence) -> set[Any]:
    found = evidence.value["growing"] if isinstance(evidence.value, dict) else set()
    return set(evidence.right["growing"] - set(found))


def _no_whole_stack(evidence: Evidence) -> bool:
    """Whether something named is no tuple of (filename, line), or only some frames of a stack."""
    return any(
        not isinstance(stack, tuple)
        or not all(isinstance(frame, tuple) and len(frame) == 2 for frame in stack)
        or any(set(stack) < set(whole) for whole in _missed(evidence))
        for stack in _accused(evidence)
    )


leak_detective = Exercise(
    id="profiling_inplace_allocators.leak_detective",
    rules=("plain Python; hold nothing when you return",),
    case=_of_kinds(*ENDS, crowds=True),
    expected=_growing,
    drive=_drive_detective,
    show=_shown_program,
    picture=_drawn,
    stages=(
        Stage(
            "growing", case=_of_kinds(*ONE, "clean", capacity=1, warm=0, period=1, every=1), cases=5
        ),
        Stage("full after a while", case=_of_kinds(*ONE, "clean", period=1, every=1), cases=5),
        Stage("periodic", case=_of_kinds(*ONE, "handled"), cases=8),
        Stage("several", case=_of_kinds("graph", "exception"), cases=4),
        Stage("together"),
    ),
    cases=26,
    sizes=6,
    minutes=15,
    hints=(
        Hint(
            "Memory is still held after you returned, or was held while you looked: by you. "
            "step() returns the loss, and a loss holds its graph. Give it no name: a program that "
            "keeps an error keeps your frame, too.",
            when=lambda e: e.value["bytes you still hold"] > 0,
        ),
        Hint(
            "You made more steps than there are. Two stretches of a dozen each, after a dozen to "
            "warm up, are enough.",
            when=lambda e: "the program ends after" in e.got,
        ),
        Hint(
            "You named the stack (): blocks that are free have none. Only those with state "
            "active_allocated are in use.",
            when=lambda e: () in _accused(e),
        ),
        Hint(
            'A stack is a tuple with one (filename, line) for each frame in block["frames"]: all '
            "of them, not the first alone, and no text.",
            when=_no_whole_stack,
        ),
        Hint(
            "You accused the forward pass. Its memory lives as long as its loss, and while you "
            "counted you held the losses that step() returned.",
            when=_accused_forward,
        ),
        Hint(
            "You accused something that stops growing: optimizer state, a warm-up, a bounded "
            "cache. Is it larger after 40 steps than after 20? And at every moment in between? "
            "Of a round, a shorter stretch may miss the lowest moment.",
            when=lambda e: bool(_accused(e)) and not _missed(e),
        ),
        Hint(
            "{input} keeps one block and makes it larger each time: as many blocks as before, "
            "and more bytes. Count bytes.",
            when=lambda e: "step + 1" in e.inputs[0] and bool(_missed(e)),
        ),
        Hint(
            "One loss that is kept holds its whole graph, so several stacks grow at once. Name "
            "each of them.",
            when=lambda e: len(_missed(e)) > 0 and len(e.right["growing"]) > 1,
        ),
        "Stopped? There may be thousands of blocks. Go over them once per snapshot, with a "
        "dictionary from stack to bytes.",
        "Sum the bytes of the blocks with state active_allocated, per stack, after each step. "
        "Then compare late steps with later ones.",
        "A cache goes up and down, a leak only up: compare the LOWEST value of one stretch of "
        "steps with the lowest of the next.",
    ),
    must_fail=(
        "reports the largest allocation",
        "compares first and last step only",
        "counts Python objects not bytes",
        "flags the bounded cache",
        "looks at stretches shorter than a round",
        "keeps tensors alive itself",
        "names no whole stack",
        "names what is free",
        "makes more steps than there are",
        FIRST,
        READS,
        TOO_SLOW,
    ),
)

EXERCISES = (grown, lowest, leak_detective, counting_allocator)
