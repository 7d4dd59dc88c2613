"""The kernel of every operator that a device has none for: the host computes it, seen and counted.
A call without any tensor is the host's, too.

Tensors come to the host, the host's kernel runs, results go back. What the schema says is written
is copied back into the caller's tensor; a result that the schema calls a view cannot be made.

Source   aten/src/ATen/native/CPUFallback.cpp  cpu_fallback
"""

from collections.abc import Sequence
from typing import Any

from labkit.core.device import CPU, Device
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.layers.layer import put_results
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema import Argument
from labkit.ops import fallback
from labkit.ops.registration import DEVICES
from labkit.ops.tensors import copy
from labkit.ops.tensors.resize import resize_

_HOST = DispatchKeySet("CPU")
LIBRARY = Library("_", "IMPL")


def cpu_fallback(op: OperatorHandle, keys: DispatchKeySet, stack: list[Any]) -> None:
    """The results of the operator's host kernel, on the device of its arguments.

    Raises   NotImplementedError   the operator has no host kernel either, or makes a view
    """
    stack[:] = _results(op, stack, fallback.NO_KERNEL)


def on_the_host(op: OperatorHandle, args: Sequence[Any], kwargs: dict[str, Any], why: str) -> Any:
    """What a call returns, computed as `cpu_fallback` does: for device kernels that cannot.

    why  a clause that says what is missing

    Raises   as `cpu_fallback`
    """
    results = _results(op, op.schema.stack(tuple(args), kwargs), why)
    return results[0] if len(results) == 1 else tuple(results)


def _results(op: OperatorHandle, stack: list[Any], why: str) -> list[Any]:
    schema = op.schema
    if schema.is_view:
        raise NotImplementedError(
            f"{op.name} makes a view: the host cannot make one of memory on a device"
        )
    fallback.note(schema.name.partition("::")[2], why)
    device = _device_of(stack)
    staged: dict[int, TensorImpl] = {}
    arguments = [_map(value, lambda tensor: _stage(tensor, staged)) for value in stack]
    results: list[Any] = []
    put_results(results, op.redispatch_boxed(_HOST, arguments))
    for argument, given, used in zip(schema.arguments, stack, arguments, strict=True):
        if argument.is_write:
            _write_back(argument, given, used)
    owners = {id(used): given for given, used in zip(stack, arguments, strict=True)}
    return [
        owners.get(id(result), _map(result, lambda tensor: _return(tensor, device)))
        for result in results
    ]


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, TensorImpl):
        return function(value)
    if isinstance(value, list | tuple):
        return [_map(each, function) for each in value]
    return value


def _device_of(stack: list[Any]) -> Device:
    found: list[Device] = []
    for value in stack:
        _map(value, lambda tensor: found.append(tensor.device))
    return next((device for device in found if device != CPU), CPU)


def _stage(tensor: TensorImpl, staged: dict[int, TensorImpl]) -> TensorImpl:
    if id(tensor) not in staged:
        staged[id(tensor)] = copy.on_host(tensor)
    return staged[id(tensor)]


def _write_back(argument: Argument, given: Any, used: Any) -> None:
    if isinstance(given, list | tuple):
        for each, host in zip(given, used, strict=True):
            _write_back(argument, each, host)
    elif isinstance(given, TensorImpl) and given is not used:
        if used.sizes != given.sizes:
            resize_(given, used.sizes, used.strides)
        copy.store(given, used.raw())
        given.bump_version()


def _return(tensor: TensorImpl, device: Device) -> TensorImpl:
    return copy.to_copy(tensor, tensor.dtype, device) if tensor.device == CPU else tensor


def no_tensor_given(op: OperatorHandle, keys: DispatchKeySet, stack: list[Any]) -> None:
    """The results of the operator's host kernel, which knows what an empty list of tensors means.

    Differs  PyTorch has a kernel for every backend there, and none is chosen by a tensor
    """
    put_results(stack, op.redispatch_boxed(_HOST, stack))


for _key in DEVICES:
    LIBRARY.fallback(cpu_fallback, _key)
LIBRARY.fallback(no_tensor_given, "Undefined")
