"""The small steps of the stale cells: what is refreshed, a row of seven slots, a boxed counter."""

import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from labkit.core.dispatch_key import RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle, slots_updated

BACKENDS = ("CPU", "CUDA", "Meta")
AUTOGRAD_SLOTS = tuple(f"Autograd{backend}" for backend in BACKENDS)
SEVEN = ("Undefined", *BACKENDS, *AUTOGRAD_SLOTS)
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
KEYS = (*SEVEN[1:], "Autograd", EXPLICIT, IMPLICIT)


def _a_key(rng: Rng, size: int) -> tuple[str]:
    return (rng.choice(KEYS),)


def _refreshed(key: str) -> set[str]:
    return {str(slot) for slot in slots_updated(DispatchKey[key])} & {*SEVEN}


refreshed = Exercise(
    id="stale_cells.refreshed",
    case=_a_key,
    expected=_refreshed,
    rung="warm-up",
    rules=("sets and strings only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "A set of slots is wanted: set(...) makes one of a list.",
            when=lambda evidence: isinstance(evidence.value, list | tuple),
        ),
        Hint(
            "A kernel at {input} refreshes the slot Undefined, too.",
            when=lambda evidence: evidence.right - evidence.value == {"Undefined"},
        ),
        Hint(
            "{input} is a backend. Its autograd slot may have to change, so it is refreshed, too.",
            when=lambda evidence: (
                evidence.inputs[0] in BACKENDS and isinstance(evidence.value, set)
            ),
        ),
        Hint(
            "{input} refreshes no more than the slots it fills itself.",
            when=lambda evidence: evidence.value > evidence.right,
        ),
        "Begin with set(ALIASES.get(key, [key])), and add what the two other rules say.",
    ),
    must_fail=(
        "forgets Undefined",
        "refreshes Undefined for Autograd, too",
        "forgets the autograd slot of a backend",
        "refreshes the autograd slots for the explicit key, too",
        "a list is returned",
        "looks every key up among the aliases",
    ),
)


Statement = tuple[Any, ...]
Label = int | str | None


def _a_program(rng: Rng, size: int) -> tuple[list[Statement]]:
    many = (EXPLICIT, IMPLICIT, IMPLICIT, "Autograd", "CPU", "CUDA", "AutogradCPU")
    keys = rng.choice((many, (EXPLICIT, IMPLICIT)))  # with two, a key often has several kernels
    program: list[Statement] = []
    alive: list[int] = []
    for number in range(2 + size):
        if alive and rng.chance(0.3):
            program.append(("remove", alive.pop(rng.randint(0, len(alive) - 1))))
        else:
            program.append(("impl", number, rng.choice(keys)))
            alive.append(number)
    return (program,)


def _run(program: list[Statement]) -> OperatorHandle:
    """Labkit's operator after the program; a call without a kernel goes to the fallback."""
    dispatcher = Dispatcher(bare=True)
    passes_on = Kernel(None, "fallback")
    dispatcher.fallbacks.update({DispatchKey[slot]: passes_on for slot in AUTOGRAD_SLOTS})
    op = dispatcher._operator("exercise::yours")
    registered: dict[int, tuple[DispatchKey, Kernel]] = {}
    for kind, number, *key in program:
        if kind == "impl":
            registered[number] = DispatchKey[key[0]], Kernel(None, str(number))
            op.register(*registered[number])
        else:
            op.deregister(*registered.pop(number))
    return op


def _label(kernel: Kernel | None) -> Label:
    if kernel is None:
        return None
    return int(kernel.debug) if kernel.debug.isdigit() else kernel.debug


def _stale(program: list[Statement]) -> dict[str, tuple[Label, Label]]:
    op, found = _run(program), {}
    for slot, cell in zip(RUNTIME_KEYS, op.computed_table(), strict=True):
        pair = _label(op.dispatch_table[SLOT_OF[slot]].kernel), _label(cell.kernel)
        if pair[0] != pair[1] and str(slot) in SEVEN:
            found[str(slot)] = pair
    return found


def drawn_with(slot: str) -> tuple[str, ...]:
    """The six slots of the chapter's pictures, if this is one of them; else none: all are drawn."""
    return SEVEN[1:] if slot in SEVEN[1:] else ()


def _opened_at_the_first_wrong_cell(case: Case, got: Any, right: Any) -> Any:
    """The row of the failing case: what it holds, and what it should."""
    from labkit import show

    wrong = next(slot for slot in SEVEN if got.get(slot) != right.get(slot))
    return show.dispatch_table(_run(*case.inputs), wrong, drawn_with(wrong))


def _fewer_statements(program: list[Statement]) -> Any:
    for gone in range(len(program)):
        number = program[gone][1]
        yield ([s for s in program if s is not program[gone] and s[:2] != ("remove", number)],)


def _removals(program: list[Statement]) -> bool:
    return any(statement[0] == "remove" for statement in program)


def _two_at_a_key(program: list[Statement]) -> bool:
    """Was a kernel registered while another one stood at its key?"""
    alive: dict[int, str] = {}
    for kind, number, *key in program:
        if kind == "remove":
            del alive[number]
        elif key[0] in alive.values():
            return True
        else:
            alive[number] = key[0]
    return False


stale_cells = Exercise(
    id="stale_cells.stale_cells",
    case=_a_program,
    expected=_stale,
    rules=("dicts and strings only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    smaller=_fewer_statements,
    picture=_opened_at_the_first_wrong_cell,
    stages=(
        Stage("registrations", only=lambda program: not _removals(program)),
        Stage("removals"),
    ),
    cases=200,
    sizes=6,
    minutes=15,
    hints=(
        Hint(
            "Only the stale cells are wanted: those where the two of the pair differ.",
            when=lambda evidence: any(stored == now for stored, now in evidence.value.values()),
        ),
        Hint(
            "The pair begins with what is stored; what is meant comes second.",
            when=lambda evidence: (
                {slot: (now, stored) for slot, (stored, now) in evidence.value.items()}
                == evidence.right
            ),
        ),
        Hint(
            "Nothing is registered yet, so nothing is stale: each stored cell begins with what "
            "meant(slot, {}) says.",
            when=lambda evidence: evidence.inputs == ([],),
        ),
        Hint(
            "Two kernels at one key: the newest counts. When one of them is removed, the newest of "
            "the others counts.",
            when=lambda evidence: _two_at_a_key(*evidence.inputs),
        ),
        Hint(
            "In {input} a kernel was removed. A removal refreshes the same slots as its "
            "registration did, and no others.",
            when=lambda evidence: _removals(*evidence.inputs),
        ),
        "Keep seven stored cells. After each statement ask meant(slot, kernels) again, for the "
        "slots that it refreshes. At the end ask it for all seven, and compare.",
    ),
    must_fail=(
        "none are stale",
        "a removal refreshes every slot",
        "a removal refreshes nothing",
        "an older kernel at the key is forgotten",
        "a removal empties its key",
        "every slot that an alias fills is stale",
        "asks what is meant twice",
        "names every slot",
        "tells what is meant first",
        "begins with empty cells",
        FIRST,
    ),
)


Call = tuple[str, str]
ARITY = {"double": 1, "negative": 1, "shape": 1, "add": 2}


def _some_calls(rng: Rng, size: int) -> tuple[list[Call]]:
    names = tuple(ARITY)
    _meta_is_ready()
    return ([(rng.choice(names), rng.choice(("cpu", "meta"))) for _ in range(1 + size)],)


@functools.cache
def _meta_is_ready() -> None:
    """The first operation on a meta tensor imports PyTorch's decompositions: seconds of CPU."""
    _counted([(name, "meta") for name in ARITY])


@handed_out
def _world(fallback: Any, ran: list[str]) -> Dispatcher:
    """The operators with kernels on two backends, which note that they ran.

    fallback   stands in the autograd slots
    """
    dispatcher = Dispatcher()

    def noting(key: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*tensors: Any) -> Any:
            ran.append(key)
            return kernel(*tensors)

        return noted

    for key in ("AutogradCPU", "AutogradMeta"):
        Library("_", "IMPL", dispatcher=dispatcher).fallback(fallback, key)
    library = Library("counted", "DEF", dispatcher=dispatcher)
    work: dict[str, Callable[..., Any]] = {
        "double": lambda x: x * 2,
        "negative": lambda x: -x,
        "shape": lambda x: x.reshape(-1),
        "add": lambda x, y: x + y,
    }
    for name, kernel in work.items():
        arguments = ", ".join(f"Tensor {argument}" for argument in "xy"[: ARITY[name]])
        library.define(f"{name}({arguments}) -> Tensor")
        for key in ("CPU", "Meta"):
            library.impl(name, noting(key, kernel), key)
    return dispatcher


def _drive_counter(answer: Any, calls: list[Call]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    ran: list[str] = []
    dispatcher = _world(answer(counts), ran)
    results = []
    for name, device in calls:
        x = torch.arange(4.0).reshape(2, 2).to(device)
        result = dispatcher.find(f"counted::{name}")(*[x] * ARITY[name])
        results.append(_told(result))
    return {"counts": counts, "results": results, "kernels": ran}


@handed_out
def _told(result: Any) -> Any:
    """A result's device, sizes and numbers; anything else as it is."""
    if not isinstance(result, torch.Tensor):
        return f"no tensor: {type(result).__name__}"
    numbers = result.tolist() if result.device.type == "cpu" else "no numbers"
    return str(result.device), tuple(result.shape), numbers


def _counted(calls: list[Call]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    results = []
    for name, device in calls:
        counts[f"counted::{name}"] = counts.get(f"counted::{name}", 0) + 1
        x = torch.arange(4.0).reshape(2, 2).to(device)
        right = {"double": x * 2, "negative": -x, "shape": x.reshape(-1), "add": x + x}
        results.append(_told(right[name]))
    kernels = ["CPU" if device == "cpu" else "Meta" for _, device in calls]
    return {"counts": counts, "results": results, "kernels": kernels}


boxed_counter = Exercise(
    id="stale_cells.boxed_counter",
    case=_some_calls,
    expected=_counted,
    drive=_drive_counter,
    cases=30,
    minutes=6,
    hints=(
        Hint(
            "The operator got the list itself: *stack hands on its values.",
            when=lambda evidence: bool(re.search(r"\blist\b|required", evidence.got)),
        ),
        Hint(
            "The counts are right. After a boxed kernel the stack holds the result and nothing "
            "else: stack[:] = [result].",
            when=lambda evidence: (
                isinstance(evidence.value, dict)
                and {**evidence.value, "results": 0} == {**evidence.right, "results": 0}
            ),
        ),
        Hint(
            "It never ended: the kernel called again with its own key still in the set.",
            when=lambda evidence: "recursion" in evidence.got,
        ),
        Hint(
            "The call went on with a key it never had: keys & BELOW keeps only its own.",
            when=lambda evidence: "has no kernel for" in evidence.got,
        ),
        Hint(
            "counts begins empty: counts.get(op.name, 0) is 0 for an operator not yet called.",
            when=lambda evidence: "KeyError" in evidence.got,
        ),
        "Three lines: count op.name, redispatch with keys & BELOW and the values of the stack, "
        "put the result on the stack.",
    ),
    must_fail=(
        "counts one operator only",
        "does not call on",
        "leaves the argument on the stack",
        "calls again with the same keys",
        "always calls the CPU kernel",
        "leaves a second argument on the stack",
        "calls on with all keys below autograd",
        "hands on the stack as one argument",
        "expects every operator in counts",
    ),
)
BELOW = DispatchKeySet.full_after("AutogradFunctionality")
