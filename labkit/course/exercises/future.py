"""Features asked for by using them, on builds that lack some; and what segments that grow save."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Raises, Rng, Stage, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._masked_builds import NO, Build, a_mistake, answers, some_masks
from labkit.course.exercises._never_right import CONSTANT, FIRST
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import MIB

NOTEBOOK = "4_vision_low_level/14_future"


# --- asked


class Unheard(Exception):
    """An error that no list of errors has."""


ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (
        *NO, ModuleNotFoundError, RecursionError,
        TypeError, ValueError, KeyError, ZeroDivisionError, OSError, AssertionError, Unheard,
    )
}  # fmt: skip
SAYS_NO = tuple(name for name, error in ERRORS.items() if issubclass(error, NO))
ALIKE = [(3, 3.0, True), ("3.0", 3.0, False), (True, 1, True), ((1, 2), [1, 2], False)]
"""(what a use gives, what is right, whether they are equal)."""


def _a_use(rng: Rng, size: int) -> tuple[Any, ...]:
    """What the use gives or raises, and what is right."""
    right = rng.choice([3.0, 0, [], [1, 2], "yes", None, False])
    kind = rng.choice(["value", "value", "alike", "tensor", *ERRORS])
    if kind == "value":
        return ("value", rng.choice([right, right, [1, 2, 3], 0.5]), right)
    if kind == "alike":
        return ("value", *rng.choice(ALIKE)[:2])
    if kind == "tensor":  # two numbers: whether they equal one number, no `if` can say
        return (kind, "", 0.0)
    return (kind, "", right)


@handed_out
def _drive_asked(answer: Any, kind: str, gives: Any, right: Any) -> Any:
    """The answer, and how often it used the feature."""
    calls = 0

    def use() -> Any:
        nonlocal calls
        calls += 1
        if kind == "tensor":
            return torch.zeros(2)
        if kind != "value":
            raise ERRORS[kind]("of the use")
        return copy.deepcopy(gives)

    try:
        return answer(use, right), calls
    except Exception:
        if calls > 1:
            return "used again after an error", calls
        raise


def _asked(kind: str, gives: Any, right: Any) -> Any:
    if kind in ERRORS and kind not in SAYS_NO:
        return Raises(ERRORS[kind], "of the use")
    if kind == "tensor":
        return Raises(RuntimeError, "Boolean value of Tensor")
    return "available" if kind == "value" and gives == right else "absent", 1


asked = Exercise(
    id="future.asked",
    case=_a_use,
    expected=_asked,
    drive=_drive_asked,
    rung="warm-up",
    cases=240,
    minutes=4,
    hints=(
        Hint(
            "The use gave a tensor of two numbers, and comparing it with one number raised. That "
            "is a mistake of the probe: compare behind the try.",
            when=lambda e: e.inputs[0] == "tensor",
        ),
        Hint(
            "A {input} is no answer of the build: let it come out.",
            when=lambda e: isinstance(e.value, str | tuple) and e.inputs[0] not in ("value",)
            and e.inputs[0] not in SAYS_NO,
        ),
        Hint("Use it once, and keep what it gave.", when=lambda e: "2)" in e.got),
        Hint(
            "It gave something else than what is right: such a feature does not work.",
            when=lambda e: e.inputs[0] == "value" and e.inputs[1] != e.inputs[2],
        ),
        "try: value = use(), and except with a tuple of the four errors.",
        "After the try, compare the value with what is right.",
    ),
    must_fail=(
        "returns available on exception",
        "catches every exception and returns a default",
        "never looks at the value",
        "uses it twice",
        "asks whether it is the same object",
        "forgets NotImplementedError and ImportError",
        "takes an error of the comparison for an answer",
        "lets four errors out and takes every other one for an answer",
        "knows the four errors and not their kinds",
        "takes other errors for an answer, too",
        "compares texts",
        "wants the same class",
        "uses it again after an error",
        "raises another error in place of theirs",
    ),
)  # fmt: skip


# --- probe


def _a_build(rng: Rng, size: int) -> tuple[dict[str, str]]:
    if size and rng.chance(0.15):
        return (a_mistake(rng),)
    return (some_masks(rng, size),)


def _gone(rng: Rng, size: int) -> tuple[dict[str, str]]:
    return (dict.fromkeys(some_masks(rng, 1 + size), "gone"),)


@handed_out
def _drive_probe(answer: Any, masks: dict[str, str]) -> Any:
    """What the answer says of the build, and what it leaves behind."""
    before = torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sparse CSR, once per process
        said = answer(Build(masks))
    return said, torch.get_default_dtype() == before


def _right_words(masks: dict[str, str]) -> Any:
    try:
        return answers(masks), True
    except TypeError:
        return Raises(TypeError, "sise")


probe = Exercise(
    id="future.probe",
    case=_a_build,
    expected=_right_words,
    drive=_drive_probe,
    show=lambda masks: repr(Build(masks)),
    cases=60,
    sizes=4,
    minutes=8,
    stages=(
        Stage("the whole PyTorch", case=lambda rng, size: ({},), cases=2),
        Stage("names are gone", case=_gone, cases=12),
        Stage("no typing mistakes", only=lambda masks: "a typing mistake" not in masks.values()),
        Stage("together"),
    ),
    hints=(
        Hint("A typing mistake says nothing about the build: let a TypeError come out.",
             stage="together"),
        Hint("You are given a build, m. Ask m, and not the torch that you imported.",
             when=lambda e: "gone" in e.input and isinstance(e.value, tuple)
             and set(e.value[0].values()) == {"available"}),
        Hint("The call ran, and gave something else. Compare with what is right.",
             when=lambda e: "wrong" in e.input or "is_causal" in e.input),
        Hint("use(m) may raise: asked has to call it, inside its try.",
             when=lambda e: e.kind == "raised" and "AttributeError" in e.got),
        Hint("The default dtype is another one afterwards. A probe leaves nothing behind.",
             when=lambda e: isinstance(e.value, tuple) and e.value[1] is False),
        "asked wants a function without arguments: lambda: use(m).",
        "available if both uses work, partial if only the first does, absent if the first fails.",
    ),
    must_fail=(
        "checks the version",
        "hasattr of the parent only",
        "returns available on exception",
        "catches every exception and returns a default",
        "asks the installed torch and not the build",
        "asks the first use only",
        "never compares the value",
        "changes the default dtype and leaves it so",
        "returns the literal answer of the example in the statement",
    ),
)  # fmt: skip


# --- expandable_segments

Sizes = list[float]


def reserved(sizes: Sequence[float], settings: str) -> int:
    """MiB that labkit's allocator has reserved after one tensor after the other, of these sizes."""
    allocator = CachingAllocator(SimulatedDevice(128 * 1024 * MIB), settings)
    for size in sizes:
        allocator.free(allocator.malloc(int(size * MIB)))
    return allocator.reserved_bytes // MIB


@handed_out
def _drive_sizes(answer: Any, sizes: Sizes) -> Any:
    """The two numbers; 40.0 is 40."""
    got = answer(sizes)
    if not isinstance(got, tuple | list):
        return got
    return tuple(int(n) if isinstance(n, float) and n == int(n) else n for n in got)


def _both(sizes: Sequence[float]) -> tuple[int, int]:
    return reserved(sizes, ""), reserved(sizes, "expandable_segments:True")


def _large(rng: Rng, size: int) -> tuple[Sizes]:
    return ([rng.choice((rng.randint(10, 60), 20, 40)) for _ in range(1 + size)],)


def _any_size(rng: Rng, size: int) -> tuple[Sizes]:
    pick = (
        lambda: rng.randint(1, 20) / 2,
        lambda: float(rng.randint(2, 60)),
        lambda: rng.choice((0.5, 1.0, 1.5, 9.5, 10.0, 20.0, 20.5, 21.0, 40.0, 40.5)),
    )
    return ([rng.choice(pick)() for _ in range(size)],)


def _allocator(case: Case, got: Any, _right: Any) -> Any:
    """The map of the failing trace, without segments that grow."""
    from labkit import show

    allocator = CachingAllocator(SimulatedDevice(64 * 1024 * MIB))
    allocator.record_memory_history("all", None)
    for size in case.inputs[0]:
        allocator.free(allocator.malloc(int(size * MIB)))
    return show.memory(allocator, what_if=("", "expandable_segments:True"), autopsy=())


expandable_segments = Exercise(
    id="future.expandable_segments",
    case=_any_size,
    expected=_both,
    drive=_drive_sizes,
    picture=_allocator,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    smaller=lambda sizes: [(sizes[:at] + sizes[at + 1 :],) for at in range(len(sizes))],
    cases=160,
    minutes=14,
    stages=(
        Stage("10 MiB and more", case=_large),
        Stage("more than 1 MiB", only=lambda sizes: all(size > 1 for size in sizes)),
        Stage("with the small pool"),
    ),
    hints=(
        Hint("You stopped before the last tensor. It needs room, too.",
             when=lambda e: e.value == _both(e.inputs[0][:-1])),
        Hint("Growth maps whole pages of 20 MiB: with it, round the largest tensor up.",
             when=lambda e: e.stage == "10 MiB and more"
             and isinstance(e.value, tuple) and e.value[0] == e.right[0]),
        Hint("Without: a freed segment is used again by any later tensor that fits into it.",
             stage="10 MiB and more"),
        Hint("Without growth, a tensor of more than 1 and less than 10 MiB gets a segment of 20.",
             stage="more than 1 MiB"),
        Hint("Tensors of 1 MiB and less live in a pool of their own: one page, or one segment, "
             "of 2 MiB is enough for one at a time.",
             stage="with the small pool"),
        "Keep a list of the segments so far. A tensor that fits into none of them adds one.",
        "With growth, only the largest tensor counts.",
    ),
    must_fail=(
        "always smaller",
        "ignores page size",
        "ignores small pool",
        "never uses a freed segment again",
        "uses a segment of the same size only",
        "keeps one segment of each pool",
        "grows by the last tensor, not by the largest",
        "leaves out the last tensor",
        FIRST,
        CONSTANT,
    ),
)  # fmt: skip


# --- no_help


def _judge_no_help(case: Case, got: Any) -> str | None:
    if isinstance(got, Raised) or not isinstance(got, list | tuple):
        return "a list of sizes in MiB is returned"
    if not all(type(n) in (int, float) and 0.5 <= n <= 1024 and 2 * n % 1 == 0 for n in got):
        return "each size is a multiple of 0.5, from 0.5 to 1024"
    if len(got) != case.inputs[0] or len({*got}) < len(got):
        return "as many sizes as asked for, all different"
    without, grown = _both(got)
    if grown < without:
        return f"growth does not help: without it {without} MiB are reserved, with it {grown}"
    return None


no_help = Exercise(
    id="future.no_help",
    case=lambda rng, size: (rng.randint(3, 12) if size < 6 else rng.choice((40, 100)),),
    judge=_judge_no_help,
    cases=20,
    minutes=3,
    rung="warm-up",
    hints=(
        "Growth helps where a tensor fits into none of the segments that are there.",
        "When does every tensor after the first fit into a segment that is there?",
        "Begin with the largest.",
    ),
    must_fail=(
        "sizes that grow",
        "one size again and again",
        "an empty trace",
        "three sizes, however many are asked for",
        "knows twelve sizes",
        "goes down to nothing",
        "sizes that differ by less than a byte",
    ),
)

EXERCISES = (asked, probe, expandable_segments, no_help)
