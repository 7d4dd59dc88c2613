"""Tensor and storage: who holds the bytes and when they go back, and a file as a tensor."""

import math
import weakref
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._mapped_tensor import mapped_tensor
from labkit.course.exercises._never_right import CONSTANT, FIRST
from labkit.course.exercises._storage_steps import base_of, release

NOTEBOOK = "2_core_code/2_tensor_and_storage"

Statement = tuple[str, ...]
OTHERS = ("view", "view", "alias", "save", "release")
MAKES = ("create", "view", "alias")


def _a_program(
    rng: Rng, size: int, others: tuple[str, ...] = OTHERS, rebinds: bool = True
) -> tuple[list[Statement]]:
    """Statements that make and delete tensors, and `others` of OTHERS."""
    program: list[Statement] = []
    names: list[str] = []
    saved: list[str] = []
    for _ in range(2 + 2 * size):
        kind = rng.choice(("create", "del", "del", *others))
        free = [name for name in "abcdef" if name not in names]
        fresh = rng.choice("abcdef" if rebinds and rng.chance(0.8) else free or ["a"])
        if kind == "create" or not names:
            statement: Statement = ("create", fresh)
        elif kind in ("view", "alias"):
            statement = (kind, fresh, rng.choice(names))
        elif kind == "del":
            statement = ("del", rng.choice(names))
        elif kind == "save":
            statement = ("save", f"node{len(program)}", rng.choice(names))
        elif saved:
            statement = ("release", rng.choice(saved))
        else:
            continue
        if statement[0] in MAKES and not (rebinds or free):
            continue
        program.append(statement)
        if statement[0] in MAKES and fresh not in names:
            names.append(fresh)
        elif statement[0] == "del":
            names.remove(statement[1])
        elif statement[0] == "save":
            saved.append(statement[1])
        elif statement[0] == "release":
            saved.remove(statement[1])
    return (program,)


def _with(*others: str, rebinds: bool = False) -> Callable[[Rng, int], tuple[list[Statement]]]:
    """Programs for one stage."""
    return lambda rng, size: _a_program(rng, size, others, rebinds)


Fate = tuple[str, int]


def _fates(program: list[Statement]) -> list[Fate]:
    """By really running it: a storage over a NumPy array dies when the array is given back."""
    deaths: list[int | None] = []
    addresses: list[int] = []
    held: dict[str, torch.Tensor] = {}
    now = 0

    def died(storage: int) -> None:
        deaths[storage] = now

    for now, (kind, name, *rest) in enumerate(program):  # noqa: B007 - `died` reads it
        if kind == "create":
            array = np.zeros(4)
            weakref.finalize(array, died, len(deaths)).atexit = False
            deaths.append(None)
            held[name] = torch.from_numpy(array)
            addresses.append(array.ctypes.data)
            del array
        elif kind == "view":
            held[name] = held[rest[0]][:2]
        elif kind in ("alias", "save"):
            held[name] = held[rest[0]]
        else:
            del held[name]
    counts = dict(_held(tensor) for tensor in held.values())
    fates = [
        ("held", counts[address]) if death is None else ("freed", death)
        for address, death in zip(addresses, deaths, strict=True)
    ]
    now = -1
    held.clear()
    return fates


def _held(tensor: torch.Tensor) -> tuple[int, int]:
    """(the address of the bytes, how many tensors hold them)."""
    handle = tensor.untyped_storage()  # is one holder more
    return handle.data_ptr(), torch._C._storage_Use_Count(handle._cdata) - 1


def _shorter_programs(program: list[Statement]) -> Any:
    for end in range(1, len(program)):
        yield (program[:end],)
    for out in range(len(program)):
        rest = program[:out] + program[out + 1 :]
        if _runs(rest):
            yield (rest,)


def _runs(program: list[Statement]) -> bool:
    """Whether every name and node is there when a statement uses it."""
    there: set[str] = set()
    for kind, name, *old in program:
        used = {name} if kind in ("del", "release") else {*old}
        if not used <= there:
            return False
        there = there - used if kind in ("del", "release") else there | {name}
    return True


def _end(fate: Fate) -> float:
    """The statement at which bytes went back; after all of them where they are still held."""
    return fate[1] if fate[0] == "freed" else math.inf


def _died_early(evidence: Evidence, *kinds: str) -> bool:
    """Whether bytes went back that were held, in a program with one of these statements."""
    pairs = zip(evidence.value, evidence.right, strict=True)
    early = any(_end(got) < _end(right) for got, right in pairs)
    return early and any(statement[0] in kinds for statement in evidence.inputs[0])


def _outlived_its_name(evidence: Evidence) -> bool:
    """Whether bytes were held too long that went back when a name got another tensor."""
    (program,) = evidence.inputs
    pairs = zip(evidence.value, evidence.right, strict=True)
    late = [right[1] for got, right in pairs if _end(got) > _end(right)]
    return any(program[at][0] in MAKES for at in late)


def _went_back_before(evidence: Evidence) -> bool:
    """Whether bytes are said to go back at a later statement than they did."""
    pairs = zip(evidence.value, evidence.right, strict=True)
    return any(got[0] == "freed" and _end(got) > _end(right) for got, right in pairs)


def _every_name_is_there(evidence: Evidence) -> bool:
    """Whether the program deletes no name and gives none away."""
    (program,) = evidence.inputs
    names = [statement[1] for statement in program]
    return len({*names}) == len(names)


def _counts_off(evidence: Evidence) -> set[bool]:
    """Of bytes held to the end, whether an answer counts too many (True) or too few holders."""
    pairs = zip(evidence.value, evidence.right, strict=True)
    held = [(got[1], right[1]) for got, right in pairs if got[0] == right[0] == "held"]
    return {got > right for got, right in held if got != right}


LINES = {
    "create": "{} = torch.zeros(4)",
    "view": "{} = {}[:2]",
    "alias": "{} = {}",
    "del": "del {}",
    "save": "{} = [{}]",
    "release": "del {}",
}


def _walked(case: Case, got: Any, right: Any) -> Any:
    """The program, opened at the first statement about which the answer is wrong."""
    from labkit import show

    (program,) = case.inputs
    answers = got if isinstance(got, list) else []
    wrong = [pair for pair in zip_longest(answers, right) if pair[0] != pair[1]]
    ends = [_end(fate) for fates in wrong for fate in fates if isinstance(fate, tuple)]
    lines = [LINES[kind].format(*names) for kind, *names in program]
    last = len(program) - 1
    return show.holders("\n".join(lines), at=int(min([*ends, last])) + 1 if wrong else 1)


refcounts = Exercise(
    id="tensor_and_storage.refcounts",
    rules=("count yourself: no torch, no NumPy, no labkit, no sys.getrefcount, no weakref",),
    case=_a_program,
    expected=_fates,
    smaller=_shorter_programs,
    cases=300,
    minutes=15,
    banned=("torch.*", "numpy.*", "labkit.*", "weakref.ref", "weakref.finalize", "sys.getrefcount"),
    stages=(
        Stage("create and del", case=_with(), cases=60),
        Stage("views", case=_with("view", "view"), cases=100),
        Stage("second names", case=_with("view", "alias", "alias"), cases=100),
        Stage("names used again", case=_with("view", "alias", rebinds=True), cases=100),
        Stage("saved"),
    ),
    picture=_walked,
    hints=(
        Hint(
            "One entry for each create, in their order: a view or a second name makes no storage.",
            when=lambda e: len(e.value) != len(e.right),
        ),
        Hint(
            "A name that existed was given another tensor. That drops what it named before, and "
            "it may have been the last holder.",
            when=_outlived_its_name,
        ),
        Hint(
            "Something was saved. A saved tensor is held until its 'release'.",
            when=lambda e: _died_early(e, "save"),
            stage="saved",
        ),
        Hint(
            "Bytes went back that somebody still held: look at what still leads to them, not at "
            "what made them.",
            when=lambda e: _died_early(e, "view", "alias"),
        ),
        Hint(
            "These bytes had gone back at an earlier statement; the first has index 0. Bytes go "
            "back once: what comes later changes nothing.",
            when=_went_back_before,
        ),
        Hint(
            "The count is too low. A view is a tensor of its own: one holder more.",
            when=lambda e: False in _counts_off(e) and _every_name_is_there(e),
        ),
        Hint(
            "The time is right, and the count is too low. A tensor whose name is gone is still a "
            "holder if it is the base of a view that lives: rule 3.",
            when=lambda e: False in _counts_off(e),
        ),
        Hint(
            "The time is right, and the count is too high. Tensors hold a storage, not names or "
            "nodes: one with two names counts once. A view of a view does not hold the middle.",
            when=lambda e: True in _counts_off(e),
        ),
        "Alive after a statement are the tensors that names and nodes lead to, and the bases of "
        "these. A storage is held by those of them that read it.",
    ),
    must_fail=(
        "frees on del of the base though a view lives",
        "one count per tensor only",
        "counts without bases",
        "counts names, not tensors",
        "a view holds the tensor it was taken from",
        "ignores saved tensors",
        "ignores rebinding of a name",
        "frees twice",
        FIRST,
        CONSTANT,
    ),
)

EXERCISES = (release, base_of, refcounts, mapped_tensor)
