"""BackendSelect: a factory has no tensor, so its device argument names the backend.

Source   torchgen/gen.py  ComputeBackendSelect
"""

from typing import Any

from labkit.core.dispatch_key import BACKENDS, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.layers.layer import put_results
from labkit.dispatch.library import Library, RegistrationHandle
from labkit.dispatch.operator import OperatorHandle

_BACKENDS = {name.lower(): name for name in BACKENDS}


def backend_of(device: Any) -> DispatchKey:
    """The dense key of a device: None, "cuda:0", or anything with a `type`.

    Raises   ValueError   no such backend
    """
    kind = str(getattr(device, "type", None) or device or "cpu").partition(":")[0]
    if kind.lower() not in _BACKENDS:
        raise ValueError(f"no backend serves device {device!r}; there are {', '.join(_BACKENDS)}")
    return DispatchKey[_BACKENDS[kind.lower()]]


def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Redispatch to the backend that the device argument names; `keys` brings none."""
    names = [argument.name for argument in op.schema.arguments]
    chosen = DispatchKeySet(backend_of(stack[names.index("device")]))
    put_results(stack, op.redispatch_boxed(chosen, stack))


def register_for(library: Library, op: OperatorHandle) -> RegistrationHandle:
    """The operator chooses its backend by its device argument.

    Raises   ValueError   it has none, or it has tensors that choose
    """
    names = [argument.name for argument in op.schema.arguments]
    if "device" not in names or op.schema.dispatch_positions:
        raise ValueError(f"{op.schema} is no factory: it needs a device argument and no tensor")
    return library.impl(op, kernel, DispatchKey.BackendSelect, boxed=True)
