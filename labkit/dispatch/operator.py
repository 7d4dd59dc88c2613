"""One operator: its kernels, its two tables, and how a call finds its kernel.

The *dispatch table* is what calls read. The *computed table* is what the kernels mean now. After a
registration PyTorch updates only some cells of the dispatch table, so the two can differ; labkit
updates exactly the same ones.

Source   aten/src/ATen/core/dispatch/OperatorEntry.h  OperatorEntry
         aten/src/ATen/core/dispatch/DispatchKeyExtractor.h  DispatchKeyExtractor
Differs  PyTorch fills a cell when it updates it. Here the update notes what was registered, and the
         cell is filled from that when the table is next read: while labkit loads, thousands of
         kernels are registered and few operators called.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, Protocol

from labkit.core.alias_keys import BACKEND_KEYS, autograd_slot_of_backend, slots_of
from labkit.core.dispatch_key import BACKENDS, RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.core.dispatch_key_set import (
    FULL_MASK,
    DispatchKeySet,
    backend_index_of_bits,
    bits_of,
    keyset,
    slot_of_bits,
)
from labkit.dispatch.arguments import key_bits_of, plain_tensor_count
from labkit.dispatch.errors import no_kernel
from labkit.dispatch.kernel import Kernel, bind
from labkit.dispatch.recorder import Recorder
from labkit.dispatch.schema import Schema
from labkit.dispatch.table import MISSING, Cell, Kernels, compute_cell, compute_table
from labkit.dispatch.tls import LOCAL

Via = Literal["call", "redispatch"]
Registered = tuple[Kernels, Kernels]
"""An operator's kernels and the global fallbacks, as they were at one moment."""

_FILLS_UNDEFINED = {
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
}


@cache
def slots_updated(key: DispatchKey) -> tuple[DispatchKey, ...]:
    """The cells of the dispatch table that are updated when a kernel at `key` comes or goes.

    Source   aten/src/ATen/core/dispatch/OperatorEntry.cpp  OperatorEntry::updateDispatchTable_
    """
    slots = slots_of(key)
    if key in _FILLS_UNDEFINED:
        slots += (DispatchKey.Undefined,)
    if key in BACKEND_KEYS:
        slots += (autograd_slot_of_backend(key),)
    return slots


@cache
def _masked_by(slot: DispatchKey) -> tuple[int, Sequence[int]]:
    """The bits that a fallthrough in the slot takes out, and the backends whose mask has them."""
    every = range(len(BACKENDS))
    return bits_of(slot.functionality), every if slot.backend_bit < 0 else (slot.backend_bit,)


class _Bound(dict[int, Callable[..., Any]]):
    """Word of a call -> its kernel, ready to be called; filled when a word is first met."""

    __slots__ = ("find",)

    def __init__(self, find: Callable[[int], Callable[..., Any]]) -> None:
        self.find = find

    def __missing__(self, bits: int) -> Callable[..., Any]:
        if len(self) > 512:  # a program meets a few words, a fuzzer meets millions
            self.clear()
        kernel = self[bits] = self.find(bits)
        return kernel


class OwningDispatcher(Protocol):
    """The `Dispatcher` an operator is registered with, as far as the operator needs it.

    A protocol, because the module of `Dispatcher` imports this one.
    """

    fallbacks: dict[DispatchKey, Kernel]
    recorder: Recorder | None
    slots_updated: Callable[[DispatchKey], tuple[DispatchKey, ...]]

    def find(self, name: str) -> "OperatorHandle":
        """The operator of that full name."""

    def set_recorder(self, recorder: Recorder | None) -> None:
        """From the next call on, kernels are entered through this recorder, or directly."""


class OperatorHandle:
    """An operator of a dispatcher; calling it dispatches.

    Source   aten/src/ATen/core/dispatch/Dispatcher.h  OperatorHandle
    Differs  OperatorHandle and the OperatorEntry it points to are one object here.
    """

    def __init__(self, dispatcher: OwningDispatcher, name: str) -> None:
        self.dispatcher = dispatcher
        self.name = name
        self.debug = ""
        self.kernels: dict[DispatchKey, list[Kernel]] = {}
        """Registration key -> its kernels, newest first; only the newest is active."""
        self.active_kernels: Kernels = {}
        """Registration key -> its newest. Never changed in place, as `Dispatcher.fallbacks`."""
        self._table: list[Cell] = [MISSING] * len(RUNTIME_KEYS)
        self._masks = [FULL_MASK] * len(BACKENDS)
        self._noted_updates: dict[DispatchKey, Registered] = {}
        """Slots that were updated and not read since -> what was registered at that moment."""
        self._schema: Schema | None = None
        self._plain_tensors = -1
        self._on_call = _Bound(self._bind_call)
        self._on_redispatch = _Bound(self._bind_redispatch)
        self._update_dispatch_table(RUNTIME_KEYS)

    # -- registering ----------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The operator's schema.

        Raises   RuntimeError   it has kernels but was never defined
        """
        if self._schema is None:
            raise RuntimeError(f"{self.name} has kernels but no schema yet: define it first")
        return self._schema

    @property
    def has_schema(self) -> bool:
        """True once the operator is defined."""
        return self._schema is not None

    def set_schema(self, schema: Schema | None, debug: str = "") -> None:
        """Define the operator, or take its definition back with None."""
        self._schema, self.debug = schema, debug
        self._plain_tensors = -1 if schema is None else plain_tensor_count(schema)

    def register(self, key: DispatchKey, kernel: Kernel) -> None:
        """`kernel` is the active one at `key`, and the cells that PyTorch updates are up to date.

        Registering at Undefined means "whatever the key": it is CompositeImplicitAutograd by an
        older name, except that it updates every cell.
        """
        catch_all = key is DispatchKey.Undefined
        key = DispatchKey.CompositeImplicitAutograd if catch_all else key
        self.kernels.setdefault(key, []).insert(0, kernel)
        self._activate()
        self._update_dispatch_table(
            RUNTIME_KEYS if catch_all else self.dispatcher.slots_updated(key)
        )

    def deregister(self, key: DispatchKey, kernel: Kernel) -> None:
        """`kernel` is gone; if it was the newest at `key`, the one before it is active again."""
        if key is DispatchKey.Undefined:
            key = DispatchKey.CompositeImplicitAutograd
        self.kernels[key].remove(kernel)
        if not self.kernels[key]:
            del self.kernels[key]
        self._activate()
        self._update_dispatch_table(self.dispatcher.slots_updated(key))

    def _activate(self) -> None:
        self.active_kernels = {key: kernels[0] for key, kernels in self.kernels.items()}

    def update_fallback(self, key: DispatchKey) -> None:
        """The cells of `key` know that its global fallback changed."""
        self._update_dispatch_table(self.dispatcher.slots_updated(key))

    def computed_table(self) -> tuple[Cell, ...]:
        """All 137 cells as the kernels mean them now, in table order."""
        return compute_table(self.active_kernels, self.dispatcher.fallbacks)

    def stale_slots(self) -> list[DispatchKey]:
        """The slots where a call runs another kernel than the computed one."""
        pairs = zip(RUNTIME_KEYS, self.computed_table(), self.dispatch_table, strict=True)
        return [key for key, now, kept in pairs if now.kernel is not kept.kernel]

    @property
    def dispatch_table(self) -> list[Cell]:
        """The table calls read, one cell per slot."""
        self._fill_noted_cells()
        return self._table

    @property
    def masks(self) -> list[int]:
        """Per backend, the word without the functionalities whose cell is a fallthrough.

        Source   DispatchKeyExtractor::nonFallthroughKeysPerBackend_
        """
        self._fill_noted_cells()
        return self._masks

    def _update_dispatch_table(self, slots: tuple[DispatchKey, ...]) -> None:
        """The cells hold what is registered now, from the next read of the table on."""
        registered = self.active_kernels, self.dispatcher.fallbacks
        self._noted_updates.update(dict.fromkeys(slots, registered))
        self.forget_bound_kernels()

    def _fill_noted_cells(self) -> None:
        for slot, registered in self._noted_updates.items():
            cell = self._table[SLOT_OF[slot]] = compute_cell(slot, *registered)
            self._mask(slot, cell.kernel is not None and cell.kernel.is_fallthrough)
        self._noted_updates.clear()

    def _mask(self, slot: DispatchKey, skip: bool) -> None:
        """Leave the slot's functionality out of the masks, or put it back.

        Source   aten/src/ATen/core/dispatch/DispatchKeyExtractor.cpp
                 DispatchKeyExtractor::setOperatorHasFallthroughForKey
        """
        functionality, backends = _masked_by(slot)
        for backend in backends:
            mask = self._masks[backend]
            self._masks[backend] = mask & ~functionality if skip else mask | functionality

    # -- calling --------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator with whatever kernel its arguments and this thread select."""
        bits = -1
        if not kwargs and len(args) == self._plain_tensors:
            bits = 0
            try:
                for tensor in args:
                    bits |= tensor._key_set.raw
            except AttributeError:
                bits = -1
        if bits < 0:  # anything but one tensor per argument: the schema has to be asked
            bits = key_bits_of(self.schema, self.schema.stack(args, kwargs))
        add, keep = LOCAL.masks
        return self._on_call[(bits | add) & keep](*args, **kwargs)

    def redispatch(self, keys: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel of exactly this key set: no arguments looked at, no TLS, no mask.

        Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::redispatch
        """
        return self._on_redispatch[keys.raw](*args, **kwargs)

    def call_boxed(self, stack: list[Any]) -> Any:
        """Call with one value per schema argument.

        Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::callBoxed
        Differs  Returns the result; the stack stays as it is.
        """
        args, kwargs = self.schema.unstack(stack)
        return self(*args, **kwargs)

    def redispatch_boxed(self, keys: DispatchKeySet, stack: list[Any]) -> Any:
        """Redispatch with one value per schema argument; likewise."""
        args, kwargs = self.schema.unstack(stack)
        return self.redispatch(keys, *args, **kwargs)

    def masked(self, bits: int) -> int:
        """The word of a first dispatch without the functionalities that fall through."""
        return bits & self.masks[backend_index_of_bits(bits)]

    def _bind_call(self, bits: int) -> Callable[..., Any]:
        return self._bind(self.masked(bits), "call")

    def _bind_redispatch(self, bits: int) -> Callable[..., Any]:
        return self._bind(bits, "redispatch")

    def _bind(self, bits: int, via: Via) -> Callable[..., Any]:
        slot = slot_of_bits(bits)
        cell = self.dispatch_table[slot]
        if cell.kernel is None or cell.kernel.is_fallthrough:
            raise no_kernel(
                self.name, self.active_kernels, self.dispatch_table, RUNTIME_KEYS[slot], cell
            )
        bound = bind(cell.kernel, self, keyset(bits))
        recorder = self.dispatcher.recorder
        return bound if recorder is None else recorder.wrap(self.name, slot, cell, bits, via, bound)

    def forget_bound_kernels(self) -> None:
        """The next call of each word looks its kernel up again."""
        self._on_call.clear()
        self._on_redispatch.clear()

    def __repr__(self) -> str:
        return f"OperatorHandle({self._schema or self.name})"
