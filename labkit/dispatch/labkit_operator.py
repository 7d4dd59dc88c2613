"""One of labkit's operators, as a prediction needs it."""

from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import tls
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.explain.predict import OperatorView
from labkit.dispatch.layers.python_mode import active_modes
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.situation import Next, Situation, flatten_tensors
from labkit.dispatch.table import Cell


def view(op: OperatorHandle) -> OperatorView:
    """The table that calls read, and the contracts that kernels declare.

    A kernel declares one with an attribute `next_step(keys, situation) -> Next`, as the kernels
    of `labkit.dispatch.layers` do.
    """
    return OperatorView(op.name, tuple(op.dispatch_table), tuple(op.masks), _next_step)


def _next_step(cell: Cell, keys: DispatchKeySet, now: Situation) -> Next:
    if cell.kernel is None:
        return Next("ends", "nothing can run: this is the error")
    contract = getattr(cell.kernel.function, "next_step", None)
    if contract is not None:
        declared: Next = contract(keys, now)
        return declared
    functionality = keys.slot_key().functionality
    if cell.reason in ("math kernel", "nested kernel", "default backend kernel"):
        return Next("ends", "one formula for many backends")
    if functionality.is_per_backend and functionality.name != "AutogradFunctionality":
        return Next("ends", "computes the result")
    return Next("decides", "its own code decides what is called next")


def situation(op: OperatorHandle, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Situation:
    """What a call would meet on this thread now."""
    values = op.schema.stack(args, kwargs)
    names = [op.schema.arguments[i].name for i in op.schema.dispatch_positions]
    chosen = [values[i] for i in op.schema.dispatch_positions]
    return Situation(
        flatten_tensors(names, chosen, lambda value: key_set_of(value) is not None),
        tls.included(),
        tls.excluded(),
        modes=active_modes(),
    )
