"""Autograd as a layer: note what backward will need, then redispatch below.

A tensor may have `requires_grad`. What was noted is in the list of `taping()`, if one is open;
the engine that walks such notes is `labkit.autograd`.

Source   tools/autograd/gen_variable_type.py; torch/csrc/autograd/VariableTypeUtils.h
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labkit.core.alias_keys import AUTOGRAD_SET
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.thread_local_state import CarriedLocal
from labkit.dispatch.layer_keys import AFTER_AUTOGRAD
from labkit.dispatch.layers.layer import declares, put_results
from labkit.dispatch.library import Library
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.tls import AUTOGRAD_KEYS, AutoDispatchBelowAutograd


class _Tape(CarriedLocal):
    notes: list[tuple[str, tuple[Any, ...]]] | None = None


_TAPE = _Tape()


@contextmanager
def taping() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Inside the `with`, the list gets (operator, arguments) of every call that needs a node."""
    before, _TAPE.notes = _TAPE.notes, []
    try:
        yield _TAPE.notes
    finally:
        _TAPE.notes = before


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Redispatches below autograd, with autograd excluded for whatever is called there."""
    text = "notes what backward needs, then redispatches below autograd"
    return Next("redispatch", text, keys & AFTER_AUTOGRAD, now.excluding(AUTOGRAD_KEYS))


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Note the call if an argument requires grad, and run what is below."""
    if _TAPE.notes is not None and any(_requires_grad(value) for value in stack):
        _TAPE.notes.append((op.name, tuple(stack)))
    with AutoDispatchBelowAutograd():
        put_results(stack, op.redispatch_boxed(keys & AFTER_AUTOGRAD, stack))


def _requires_grad(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_requires_grad(item) for item in value)
    return bool(getattr(value, "requires_grad", False))


def install(library: Library) -> None:
    """Every operator without an autograd kernel of its own runs this one."""
    for key in AUTOGRAD_SET:
        library.fallback(kernel, key)
