"""How one cell of a dispatch table is filled: nine rules and a question, in PyTorch's order.

The first rule that applies wins. Question 4 fills nothing: rule 6 asks for its answer. The numbers
count them one by one; those in PyTorch's comments stand beside the rules of `compute_cell`.

Source   aten/src/ATen/core/dispatch/OperatorEntry.cpp
         OperatorEntry::computeDispatchTableEntryWithDebug
"""

from collections.abc import Mapping
from typing import NamedTuple

from labkit.core.alias_keys import AUTOGRADOTHER_BACKENDS, BACKENDS_OF_AUTOGRAD, SLOTS_OF_ALIAS
from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.dispatch.kernel import Kernel

K = DispatchKey


class Cell(NamedTuple):
    """What a slot holds and why.

    kernel  None when the slot is missing or ambiguous: calling it is an error
    reason  PyTorch's words for the rule
    rule    1 to 10, see RULES
    source  the key whose registration filled the slot; None for a fallback or an empty slot
    """

    kernel: Kernel | None
    reason: str
    rule: int
    source: DispatchKey | None


RULES = {
    1: "a kernel registered at this very key",
    2: "CompositeExplicitAutogradNonFunctional, if the slot is in its set or is Undefined",
    3: "CompositeExplicitAutograd, if the slot is in its set or is Undefined",
    4: "question only: does the backend of this autograd slot have a kernel of its "
    "own, or one at CompositeExplicitAutograd?",
    5: "CompositeImplicitAutogradNestedTensor, if the slot is in its set",
    6: "CompositeImplicitAutograd, if the slot is in its set or is Undefined, and 4 said no",
    7: "Autograd, if the slot is in its set",
    8: "FuncTorchBatchedDecomposition, for the FuncTorchBatched slot",
    9: "the global fallback of the slot",
    10: "missing: calling it is an error",
}
"""Rule number -> what it asks, in the order they are tried."""

AMBIGUOUS = "ambiguous autogradother"
MISSING = Cell(None, "missing", 10, None)
_OTHER_BACKENDS = frozenset(AUTOGRADOTHER_BACKENDS)
_NOTHING: frozenset[DispatchKey] = frozenset()
_NONFUNCTIONAL = SLOTS_OF_ALIAS[K.CompositeExplicitAutogradNonFunctional] | {K.Undefined}
_EXPLICIT = SLOTS_OF_ALIAS[K.CompositeExplicitAutograd] | {K.Undefined}
_IMPLICIT = SLOTS_OF_ALIAS[K.CompositeImplicitAutograd] | {K.Undefined}
_IMPLICIT_NESTED = SLOTS_OF_ALIAS[K.CompositeImplicitAutogradNestedTensor]
_AUTOGRAD = SLOTS_OF_ALIAS[K.Autograd]

Kernels = Mapping[DispatchKey, Kernel]
"""Registration key, aliases included -> its newest kernel."""


def compute_cell(slot: DispatchKey, kernels: Kernels, fallbacks: Kernels) -> Cell:
    """The cell of one slot, from an operator's kernels and the global fallbacks."""
    if slot in kernels:  # 1.
        return Cell(kernels[slot], "kernel", 1, slot)
    if K.CompositeExplicitAutogradNonFunctional in kernels and slot in _NONFUNCTIONAL:  # 2.1
        source = K.CompositeExplicitAutogradNonFunctional
        return Cell(kernels[source], "default backend kernel", 2, source)
    if K.CompositeExplicitAutograd in kernels and slot in _EXPLICIT:  # 2.2
        source = K.CompositeExplicitAutograd
        return Cell(kernels[source], "default backend kernel", 3, source)
    if K.CompositeImplicitAutogradNestedTensor in kernels and slot in _IMPLICIT_NESTED:  # 2.3
        source = K.CompositeImplicitAutogradNestedTensor
        return Cell(kernels[source], "nested kernel", 5, source)
    if K.CompositeImplicitAutograd in kernels and slot in _IMPLICIT:  # 2.3
        source = K.CompositeImplicitAutograd
        if slot is K.AutogradOther and not _OTHER_BACKENDS.isdisjoint(kernels):
            return Cell(None, AMBIGUOUS, 6, source)
        if not has_backend_kernel(slot, kernels):
            return Cell(kernels[source], "math kernel", 6, source)
    if K.Autograd in kernels and slot in _AUTOGRAD:  # 2.4
        return Cell(kernels[K.Autograd], "autograd kernel", 7, K.Autograd)
    if slot is K.FuncTorchBatched and K.FuncTorchBatchedDecomposition in kernels:  # 2.5
        source = K.FuncTorchBatchedDecomposition
        return Cell(kernels[source], "batched kernel", 8, source)
    if slot in fallbacks:  # 3.
        return Cell(fallbacks[slot], "backend fallback", 9, None)
    return MISSING  # 4.


def has_backend_kernel(slot: DispatchKey, kernels: Kernels) -> bool:
    """Rule 4: an autograd slot defers to its backend's own kernel, when there is one."""
    if K.CompositeExplicitAutograd in kernels:
        return True
    return not BACKENDS_OF_AUTOGRAD.get(slot, _NOTHING).isdisjoint(kernels)


def compute_table(kernels: Kernels, fallbacks: Kernels) -> tuple[Cell, ...]:
    """All 137 cells, in table order."""
    return tuple([compute_cell(slot, kernels, fallbacks) for slot in RUNTIME_KEYS])


class Tried(NamedTuple):
    """One rule asked about one cell: its number, the question, and whether it decided."""

    rule: int
    question: str
    decides: bool


def rules_tried(slot: DispatchKey, kernels: Kernels, fallbacks: Kernels) -> list[Tried]:
    """The rules in the order they were asked about a cell, ending with the one that decided."""
    cell = compute_cell(slot, kernels, fallbacks)
    tried = []
    for rule, question in RULES.items():
        if rule == 4:
            answer = "yes" if has_backend_kernel(slot, kernels) else "no"
            question = f"{question} {answer}"
        tried.append(Tried(rule, question, rule == cell.rule))
        if rule == cell.rule:
            break
    return tried
