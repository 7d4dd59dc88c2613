"""Where a call would go, hop by hop, without making it.

Source   aten/src/ATen/core/dispatch/DispatchKeyExtractor.h  computeDispatchKeySet
         aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::call, Dispatcher::redispatch
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.core.dispatch_key import BACKENDS, RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import (
    FULL_MASK,
    DispatchKeySet,
    backend_index_of_bits,
    bits_of,
    keyset,
)
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.table import Cell

MOST_HOPS = 64


@dataclass(frozen=True)
class Hop:
    """One kernel of a call, and how the dispatcher came to it.

    via        call: looked at the arguments and the thread; redispatch: was given its set
    situation  the tensors and the thread it met
    union      the OR of the tensors' key sets; None for a redispatch
    with_tls   the union, with the included keys, without the excluded ones
    mask       the keys of this backend that do not fall through; None for a redispatch
    keys       the set the kernel gets
    slot       the winner
    cell       what the slot holds
    then       what the kernel does about its own operator
    assumed    the hop is there only if somebody's Python code passed the call on
    """

    via: str
    situation: Situation
    union: DispatchKeySet | None
    with_tls: DispatchKeySet | None
    mask: DispatchKeySet | None
    keys: DispatchKeySet
    slot: DispatchKey
    cell: Cell
    then: Next
    assumed: bool = False

    @property
    def skipped(self) -> tuple[DispatchKey, ...]:
        """The functionalities that would have been dispatched to, but fall through."""
        if self.with_tls is None:
            return ()
        return (self.with_tls - self.keys).functionalities()


@dataclass(frozen=True)
class OperatorView:
    """What a prediction needs of an operator, labkit's or PyTorch's.

    cells      the table calls read, in table order
    masks      per backend, the word without the functionalities that fall through
    next_step  what a cell's kernel, entered with a key set, does in a situation
    """

    name: str
    cells: Sequence[Cell]
    masks: Sequence[int]
    next_step: Callable[[Cell, DispatchKeySet, Situation], Next]


def fallthrough_masks(cells: Sequence[Cell]) -> list[int]:
    """The masks that follow from a table.

    Source   aten/src/ATen/core/dispatch/DispatchKeyExtractor.cpp
             DispatchKeyExtractor::setOperatorHasFallthroughForKey
    """
    masks = [FULL_MASK] * len(BACKENDS)
    for slot, cell in zip(RUNTIME_KEYS, cells, strict=True):
        if cell.kernel is None or not cell.kernel.is_fallthrough:
            continue
        for backend in range(len(BACKENDS)):
            if slot.backend_bit in (-1, backend):
                masks[backend] &= ~bits_of(slot.functionality)
    return masks


def predict(op: OperatorView, now: Situation) -> list[Hop]:
    """The hops of calling the operator in this situation, until it ends or a kernel decides."""
    hops = [_first(op, now, False)]
    while len(hops) < MOST_HOPS:
        last = hops[-1]
        then = last.then
        if then.kind == "redispatch" and then.keys is not None:
            hops.append(_redispatched(op, then.keys, then.situation or now, last.assumed))
        elif then.kind == "call" and then.situation is not None:
            hops.append(_first(op, then.situation, last.assumed or then.assumed))
        else:
            break
    return hops


def first_keys(
    masks: Sequence[int], now: Situation
) -> tuple[DispatchKeySet, DispatchKeySet, DispatchKeySet]:
    """The union of the tensors' sets, what the thread makes of it, and the mask that follows."""
    union = keyset(0)
    for _, tensor in now.tensors:
        union |= key_set_of(tensor) or keyset(0)
    with_tls = (union | now.included) - now.excluded
    return union, with_tls, keyset(masks[backend_index_of_bits(with_tls.raw)])


def _first(op: OperatorView, now: Situation, assumed: bool) -> Hop:
    union, with_tls, mask = first_keys(op.masks, now)
    keys = with_tls & mask
    cell = op.cells[keys.table_index()]
    then = op.next_step(cell, keys, now)
    return Hop("call", now, union, with_tls, mask, keys, keys.slot_key(), cell, then, assumed)


def _redispatched(op: OperatorView, keys: DispatchKeySet, now: Situation, assumed: bool) -> Hop:
    cell = op.cells[keys.table_index()]
    then = op.next_step(cell, keys, now)
    return Hop("redispatch", now, None, None, None, keys, keys.slot_key(), cell, then, assumed)
