"""Stored rows: which cells a registration refreshes, what a call finds, and a kernel for all."""

import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from labkit.core.dispatch_key import RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._never_right import CONSTANT, FIRST
from labkit.course.exercises._refresh_steps import (
    boxed_counter,
    drawn_with,
    refreshed,
    stale_cells,
)
from labkit.dispatch import torch_tables
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.torch_keys import torch_key

NOTEBOOK = "3_internals/3b_stale_cells"
_C: Any = torch._C
K = DispatchKey


# --- every_stale_cell

Statement = tuple[Any, ...]
Label = int | str | None

READABLE = (
    K.Dense, K.Quantized, K.Sparse, K.SparseCsr, K.NestedTensor, K.AutogradFunctionality,
    K.AutogradOther, K.AutogradNestedTensor, K.Undefined,
)  # fmt: skip
"""Functionalities whose slots a call may enter with a bare tensor: elsewhere PyTorch's own
fallbacks would act on what the key promises."""


def _a_history(rng: Rng, size: int) -> tuple[list[Statement], tuple[str, ...]]:
    keys = [
        *(key for key in K if key.is_alias and key is not K.FuncTorchBatchedDecomposition),
        K.CompositeExplicitAutograd, K.CompositeImplicitAutograd, K.Autograd,
        K.CPU, K.Meta, K.HIP, K.MTIA, K.QuantizedCPU, K.SparseCPU, K.NestedTensorCPU,
        K.AutogradCPU, K.AutogradOther,
    ]  # fmt: skip
    program: list[Statement] = []
    alive: list[int] = []
    for number in range(2 + size):
        if alive and rng.chance(0.3):
            gone = rng.choice(alive)
            alive.remove(gone)
            program.append(("remove", gone))
        else:
            program.append(("impl", number, str(rng.choice(keys))))
            alive.append(number)
    return program, tuple(_fallbacks())


def _fallbacks() -> list[str]:
    """The slots that have a fallback of all operators in PyTorch."""
    return sorted(map(str, torch_tables.global_fallbacks()))


def _label(kernel: Kernel | None) -> Label:
    if kernel is None:
        return None
    return int(kernel.debug) if kernel.debug.isdigit() else "fallback"


def _operator(program: list[Statement], fallbacks: tuple[str, ...]) -> OperatorHandle:
    """Labkit's operator after the program, its kernels named by their numbers."""
    dispatcher = Dispatcher(bare=True)
    dispatcher.fallbacks.update({DispatchKey[slot]: Kernel(None, "fallback") for slot in fallbacks})
    op = dispatcher._operator("exercise::stale")
    registered: dict[int, tuple[DispatchKey, Kernel]] = {}
    for kind, number, *key in program:
        if kind == "impl":
            registered[number] = DispatchKey[key[0]], Kernel(None, str(number))
            op.register(*registered[number])
        else:
            op.deregister(*registered.pop(number))
    return op


def _stale_by_labkit(
    program: list[Statement], fallbacks: tuple[str, ...]
) -> dict[str, tuple[Label, Label]]:
    """Slot -> (what a call runs, what the registrations mean), where they differ."""
    op, found = _operator(program, fallbacks), {}
    for slot, cell in zip(RUNTIME_KEYS, op.computed_table(), strict=True):
        stored, meant = _label(op.dispatch_table[SLOT_OF[slot]].kernel), _label(cell.kernel)
        if stored != meant:
            found[str(slot)] = (stored, meant)
    return found


class RealOperator:
    """An operator of the installed PyTorch with a program's registrations; it notes what ran."""

    made = 0

    def __init__(self, program: list[Statement]) -> None:
        RealOperator.made += 1
        name = f"stale{RealOperator.made}"
        self.ran: list[int] = []
        self._libraries: dict[Any, Any] = {"definition": self._library("FRAGMENT", 0)}
        self._libraries["definition"].define(f"{name}(Tensor x) -> Tensor", "")
        self.handle = _C._dispatch_find_schema_or_throw(f"labkit_exercise::{name}", "")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a newer kernel at a key is what a program may do
            self._run(name, program)

    def _run(self, name: str, program: list[Statement]) -> None:
        for kind, number, *key in program:
            if kind == "impl":
                library = self._libraries[number] = self._library("IMPL", number)
                library.impl(name, torch_key(DispatchKey[key[0]]), self._kernel(number), False)
            else:
                self._libraries.pop(number).reset()

    def _library(self, kind: str, number: int) -> Any:
        return _C._dispatch_library(kind, "labkit_exercise", "", "exercise", number)

    def _kernel(self, number: int) -> Any:
        def kernel(x: Any) -> Any:
            self.ran.append(number)
            return x

        return kernel

    def close(self) -> None:
        """PyTorch has forgotten the operator."""
        for library in reversed(self._libraries.values()):
            library.reset()


class _Crashes:
    """Stands where PyTorch's own entry would end the process."""

    def __init__(self, *_arguments: Any) -> None:
        raise RuntimeError(
            "_dispatch_get_computed_kernel_for_dispatch_key takes the canonical kernel and checks "
            "the stored cell: where the canonical one is missing, calling it ends the process"
        )


NOT_RETURNED = "no tensor returned"


def _drive_call(answer: Any, program: list[Statement], slot: str) -> Any:
    """What really ran."""
    real = RealOperator(program)
    name = "_dispatch_get_computed_kernel_for_dispatch_key"
    try:
        with mock.patch.object(_C, name, _Crashes):
            returned = answer(real.handle, torch_key(DispatchKey[slot]), torch.ones(1))
    except NotImplementedError as error:
        if not str(error):
            raise  # nobody has answered yet
        return "missing"
    finally:
        real.close()
    return list(real.ran) if isinstance(returned, torch.Tensor) else [*real.ran, NOT_RETURNED]


def _real_stored(program: list[Statement], slot: str) -> Any:
    """What a call really runs in a slot."""
    real = RealOperator(program)
    try:
        real.handle.redispatch_boxed(_C.DispatchKeySet(torch_key(DispatchKey[slot])), torch.ones(1))
    except NotImplementedError:
        return "missing"
    finally:
        real.close()
    return list(real.ran)


def _a_call(rng: Rng, size: int) -> Case:
    """A program, and a slot with a kernel of it that PyTorch can enter with a bare tensor."""
    for _ in range(50):
        program, fallbacks = _a_history(rng, 2 + size)
        op = _operator(program, fallbacks)
        stale = [slot for slot in op.stale_slots() if slot.functionality in READABLE]
        slots = stale if stale and rng.chance(0.7) else [K.CPU, K.Meta, K.AutogradCPU]
        slot = rng.choice(slots)
        if type(_label(op.dispatch_table[SLOT_OF[slot]].kernel)) is int:
            return Case((program, str(slot)))
    return Case(([("impl", 0, "CPU")], "CPU"))


def _stored_and_meant(case: Case, _got: Any, _right: Any) -> Any:
    """The row of the failing case, opened at the slot that was called."""
    from labkit import show

    program, slot = case.inputs
    op = _operator(program, tuple(_fallbacks()))
    return show.dispatch_table(op, slot, drawn_with(slot))


def _the_puzzle(program: list[Statement], slot: str) -> Iterator[tuple[Any, ...]]:
    """The two kernels of the chapter's first cell, the formula first."""
    formula, default = str(K.CompositeImplicitAutograd), str(K.CompositeExplicitAutograd)
    puzzle = [("impl", 0, formula), ("impl", 1, default)]
    if program != puzzle:
        yield puzzle, "AutogradCPU"


call_slot = Exercise(
    id="stale_cells.call_slot",
    case=_a_call,
    expected=_real_stored,
    drive=_drive_call,
    rung="warm-up",
    picture=_stored_and_meant,
    smaller=_the_puzzle,
    cases=24,
    sizes=4,
    minutes=3,
    hints=(
        Hint(
            "The slot's stored cell was not entered. A computed kernel is the one that the "
            "registrations mean; where they mean none, calling it ends the process.",
            when=lambda evidence: "_dispatch_get_computed_kernel" in evidence.got,
        ),
        Hint(
            "A redispatch takes a set and the tensor: torch._C.DispatchKeySet(slot), not the slot, "
            "and x, not [x].",
            when=lambda evidence: (
                "incompatible function arguments" in evidence.got
                or "Expected a value of type 'Tensor'" in evidence.got
            ),
        ),
        Hint(
            "The set has to hold the key of the slot, and no other: with more keys, PyTorch enters "
            "the highest of them.",
            when=lambda evidence: "fallthrough_kernel was executed" in evidence.got,
        ),
        Hint(
            "The cell was entered. What it returns is to be returned.",
            when=lambda evidence: evidence.value == [*evidence.right, NOT_RETURNED],
        ),
        Hint(
            "Your call ran {got}, the stored cell holds {expected}. Which key set did it use?",
            when=lambda evidence: evidence.kind == "value",
        ),
        "An ordinary call computes its own key set. A redispatch enters the highest key of the set "
        "that you give it: which set has this slot's key, and no other?",
        "handle.redispatch_boxed(key_set, x), with torch._C.DispatchKeySet(slot).",
    ),
    must_fail=(
        "calls the crashing boxed entry on a stale cell",
        "calls the operator as usual",
        "catches every exception and returns a default",
        "returns nothing",
        "keeps the tensor's keys in the set",
        "takes the slot for a set",
    ),
)


def _judge_stale(case: Case, got: Any) -> Any:
    right = _stale_by_labkit(*case.inputs)
    if isinstance(got, Raised) or not isinstance(got, dict):
        return Wrong("a dict is returned: slot -> (stored, meant)", right)
    for slot in [str(slot) for slot in RUNTIME_KEYS]:
        if _plain(got.get(slot)) != _plain(right.get(slot)):
            if slot not in right:
                return Wrong(f"{slot} is not stale", right)
            return Wrong(f"{slot} is stale: (stored, meant) as expected", right[slot])
    return None if got.keys() == right.keys() else Wrong("only slots are named", right)


def _plain(labels: Any) -> Any:
    """The pair with its types: False is no kernel 0."""
    if not isinstance(labels, tuple | list):
        return labels
    return [(type(label), label) for label in labels]


def _stale_row(case: Case, got: Any, _right: Any) -> Any:
    """The row of the failing case, opened at the first slot that the answer has otherwise."""
    from labkit import show

    right = _stale_by_labkit(*case.inputs)
    wrong = [s for s in map(str, RUNTIME_KEYS) if _plain(got.get(s)) != _plain(right.get(s))]
    return show.dispatch_table(_operator(*case.inputs), wrong[0])


def _show_history(program: list[Statement], fallbacks: tuple[str, ...]) -> str:
    lines = [
        f"{rest[0]}: kernel at {rest[1]}" if kind == "impl" else f"remove {rest[0]}"
        for kind, *rest in program
    ]
    return f"{'; '.join(lines)} ({len(fallbacks)} global fallbacks)"


def _registers_only(program: list[Statement], _fallbacks: Any) -> bool:
    return all(statement[0] == "impl" for statement in program)


every_stale_cell = Exercise(
    id="stale_cells.every_stale_cell",
    rung="boss",
    rules=("labkit.dispatch.compute_cell is allowed; labkit's operators and libraries are not",),
    case=_a_history,
    judge=_judge_stale,
    picture=_stale_row,
    show=_show_history,
    cases=160,
    stages=(
        Stage("registrations", only=_registers_only),
        Stage("together"),
    ),
    minutes=30,
    banned=(
        "labkit.dispatch.operator.*",
        "labkit.dispatch.dispatcher.*",
        "labkit.dispatch.library.*",
        "labkit.dispatch.explain.table.*",
        "labkit.conformance.*",
    ),
    hints=(
        Hint(
            "In {input} a kernel was removed. A removal refreshes the same slots as a "
            "registration did, and no others.",
            when=lambda evidence: (
                bool(evidence.inputs) and any(s[0] == "remove" for s in evidence.inputs[0])
            ),
        ),
        "Keep 137 stored cells. After every statement recompute only those it refreshes; at the "
        "end compare with all of them recomputed.",
        "Refreshed are: the slots of the changed key, Undefined for the three composite aliases "
        "that fill it, and for a backend's key one autograd slot: that of its backend bit; "
        "AutogradOther for HIP, for VE and for a key without a backend bit.",
    ),
    must_fail=(
        "none are stale",
        "all alias cells are stale",
        "reads the dump",
        CONSTANT,
        FIRST,
    ),
)

EXERCISES = (refreshed, call_slot, stale_cells, boxed_counter, every_stale_cell)
