"""ADInplaceOrView as a layer: versions of what is written, bases of what is a view.

Asks of a tensor: `_version` (an int) where it is written; `_base` can be set on a view.

Source   torch/csrc/autograd/generated/ADInplaceOrViewType, increment_version, as_view
"""

from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.layers.layer import declares, put_results
from labkit.dispatch.library import Library, RegistrationHandle
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.tls import ExcludeDispatchKeyGuard


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Redispatches below itself."""
    below = keys & AFTER_ADINPLACEORVIEW
    inside = now.excluding(DispatchKeySet(DispatchKey.ADInplaceOrView))
    return Next(
        "redispatch",
        "redispatches below, then raises the version or links the view to its base",
        below,
        inside,
    )


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Run what is below, then do the bookkeeping the schema asks for."""
    schema = op.schema
    arguments = list(stack)
    with ExcludeDispatchKeyGuard(DispatchKey.ADInplaceOrView):
        put_results(stack, op.redispatch_boxed(keys & AFTER_ADINPLACEORVIEW, stack))
    for argument, value in zip(schema.arguments, arguments, strict=True):
        if argument.is_write:
            value._version += 1
    if schema.is_view:
        base = arguments[schema.dispatch_positions[0]]
        for view in stack:
            view._base = getattr(base, "_base", None) or base  # a view of a view has one base


def register_for(library: Library, op: OperatorHandle) -> RegistrationHandle:
    """The operator's calls go through this layer.

    Raises   ValueError   it writes nothing and returns no view: it would have nothing to do
    """
    if not (op.schema.is_mutable or op.schema.is_view):
        raise ValueError(f"{op.schema} writes no argument and returns no view of one")
    return library.impl(op, kernel, DispatchKey.ADInplaceOrView, boxed=True)
