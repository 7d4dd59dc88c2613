"""What PyTorch's kernels do about their own operator: redispatch, call it again, or end.

A table says which kernel runs, not what that kernel does next. Most kernels that pass a call on
are generated, or are one of a few fallbacks, and keep a contract that is written down here. The
file a kernel was registered in (PyTorch prints it) says which family it belongs to; a kernel of
no known family decides for itself.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import torch

from labkit.core.alias_keys import AUTOCAST_SET
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.layer_keys import (
    ABOVE_PYTHON,
    AFTER_ADINPLACEORVIEW,
    AFTER_AUTOGRAD,
    MODE_KEYS,
)
from labkit.dispatch.schema import Schema
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.table import Cell
from labkit.dispatch.tls import AUTOGRAD_KEYS

K = DispatchKey
_C: Any = torch._C
Arguments = dict[str, Any]
"""Argument name -> value, defaults included."""

DYNAMIC_LAYER_KEYS = (
    AUTOGRAD_KEYS
    | DispatchKeySet(
        K.Functionalize, K.Conjugate, K.Negative, K.ZeroTensor, K.ADInplaceOrView, K.Tracer,
        K.FuncTorchBatched, K.BatchedNestedTensor, K.Batched, K.VmapMode, K.FuncTorchGradWrapper,
        K.DeferredInit, K.PythonTLSSnapshot, K.FuncTorchDynamicLayerFrontMode,
    )
)  # fmt: skip
"""What entering a functorch layer excludes, before the layer takes back its own keys; autocast
is not in it.
Source: aten/src/ATen/functorch/DynamicLayer.cpp all_dynlayer_keyset."""

LAYER_KEYS = {
    "Vmap": DispatchKeySet(K.FuncTorchBatched, K.BatchedNestedTensor),
    "Functionalize": DispatchKeySet(K.Functionalize),
}
"""Layer -> the keys it lets through. Source: keysForEnteringDynamicLayer."""

LAYER_INCLUDES = {
    "Vmap": DispatchKeySet(K.FuncTorchVmapMode),
    "Functionalize": DispatchKeySet(K.Functionalize),
}
"""Layer -> the keys it includes. Source: VmapInterpreterPtr::processImpl and its siblings."""

_FUNCTORCH_MODES = DispatchKeySet(K.FuncTorchDynamicLayerFrontMode, K.FuncTorchDynamicLayerBackMode)


def family(debug: str) -> str:
    """The file a kernel was registered in, without number and ending: "VariableType"."""
    path = debug.removeprefix("registered at ").rpartition(":")[0]
    return re.sub(r"_\d+$", "", PurePosixPath(path).stem)


def next_step(
    schema: Schema, arguments: Arguments, cell: Cell, keys: DispatchKeySet, now: Situation
) -> Next:
    """What the kernel in `cell`, entered with `keys`, does about its own operator."""
    if cell.kernel is None:
        return Next("ends", "nothing can run: this is the error")
    functionality = keys.slot_key().functionality
    if cell.reason == "math kernel" or cell.reason == "nested kernel":
        return Next("ends", "a formula in other operators")
    if functionality is K.Dense or functionality is K.Undefined:
        return Next("ends", "computes the result")
    if cell.reason == "default backend kernel":
        return Next("ends", "one kernel for every backend, made of other operators")
    contract = _CONTRACTS.get((functionality, family(cell.kernel.debug)))
    if functionality is K.Functionalize and cell.reason == "kernel":
        contract = None  # lift and its kin: written by hand, in the fallback's file
    if contract is None:
        return Next("decides", f"{family(cell.kernel.debug)} has code of its own for this operator")
    return contract(schema, arguments, keys, now)


Contract = Callable[[Schema, Arguments, DispatchKeySet, Situation], Next]


def _autograd(schema: Schema, _: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
    tracks_views = schema.is_mutable or schema.is_view
    guard = AUTOGRAD_KEYS | DispatchKeySet(*([] if tracks_views else [K.ADInplaceOrView]))
    return Next(
        "redispatch",
        "records what backward needs (if a gradient is wanted), then redispatches below autograd",
        keys & AFTER_AUTOGRAD,
        now.excluding(guard),
    )


def _autograd_fallback(_s: Schema, _a: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
    return Next(
        "redispatch",
        "has no derivative to record; redispatches below autograd",
        keys & AFTER_AUTOGRAD,
        now,
    )


def _in_place_or_view(_s: Schema, _a: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
    return Next(
        "redispatch",
        "redispatches below itself, then raises the version or links the view to its base",
        keys & AFTER_ADINPLACEORVIEW,
        now.excluding(DispatchKeySet(K.ADInplaceOrView)),
    )


def _resolve(key: DispatchKey, what: str) -> Contract:
    def contract(_s: Schema, _a: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
        below = keys & DispatchKeySet.full_after(key)
        return Next("redispatch", f"{what}, then redispatches below itself", below, now)

    return contract


def _autocast(_s: Schema, _a: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
    tracked = now.included.has(K.ADInplaceOrView)
    sets = [key_set_of(tensor) for _, tensor in now.tensors]
    if tracked and any(keys is not None and not keys.has(K.ADInplaceOrView) for keys in sets):
        return Next("decides", "casts an inference tensor: the copy has other keys")
    return Next(
        "call",
        "casts its arguments, then calls the operator again with autocast excluded",
        situation=now.excluding(DispatchKeySet(keys.slot_key())),
    )


def _backend_select(_s: Schema, arguments: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    device = torch.device(arguments.get("device") or torch.get_default_device())
    layout = arguments.get("layout") or torch.strided
    prefix = _LAYOUTS.get(layout, "")
    renamed = device.type == torch.utils.backend_registration._privateuse1_backend_name
    backend = "PrivateUse1" if renamed else _DEVICES.get(device.type, device.type.upper())
    key = DispatchKey.parse(f"{prefix}{backend}")
    text = f"device={device} and layout={layout} name a backend: {key}"
    if not now.tensors:
        return Next("redispatch", f"no tensor names a backend, so {text}", DispatchKeySet(key), now)
    union = DispatchKeySet(key) | now.included
    for _, tensor in now.tensors:
        union |= key_set_of(tensor) or DispatchKeySet()
    keys = (union - now.excluded) & DispatchKeySet.full_after(K.BackendSelect)
    return Next("redispatch", f"{text}, beside those of the tensors", keys, now)


_LAYOUTS = {
    torch.sparse_coo: "Sparse", torch.sparse_csr: "SparseCsr", torch.sparse_csc: "SparseCsr",
    torch.sparse_bsr: "SparseCsr", torch.sparse_bsc: "SparseCsr",
}  # fmt: skip
_DEVICES = {"meta": "Meta", "lazy": "Lazy", "maia": "MAIA"}


def _snapshot(_s: Schema, _a: Arguments, keys: DispatchKeySet, now: Situation) -> Next:
    return Next(
        "redispatch",
        "saves the thread's key sets for the mode to see, then redispatches below itself",
        keys & DispatchKeySet.full_after(K.PythonTLSSnapshot),
        replace(now, snapshot=(now.included, now.excluded)),
    )


def _python(_s: Schema, _a: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    if now.modes == 0:
        return Next("decides", "hands the call to a tensor subclass's __torch_dispatch__")
    included, excluded = now.snapshot or (now.included, now.excluded)
    left = now.modes - 1
    inside = replace(
        now,
        included=included if left else included - MODE_KEYS,
        excluded=excluded | ABOVE_PYTHON,
        modes=left,
        snapshot=None,
    )
    return Next(
        "call",
        "hands the call to the mode's __torch_dispatch__; if that calls the operator, it goes on "
        "with everything above Python excluded and this mode set aside",
        situation=inside,
        assumed=True,
    )


def _functionalize(_s: Schema, _a: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    inner = tuple((path, _inside_functional(t)) for path, t in now.tensors)
    return Next(
        "call",
        "unwraps its functional tensors and calls the operator on what is inside",
        situation=replace(now, tensors=inner).excluding(DispatchKeySet(K.Functionalize)),
    )


def _inside_functional(tensor: Any) -> Any:
    wrapped = isinstance(tensor, torch.Tensor) and torch._is_functional_tensor(tensor)
    return torch._from_functional_tensor(tensor) if wrapped else tensor


def _front(_s: Schema, _a: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    kind = now.layers[-1][0] if now.layers else "no layer"
    if kind not in LAYER_KEYS:
        return Next("decides", f"functorch's innermost layer is {kind}, which rewrites the call")
    entered = (kind, now.included, now.excluded)
    inside = replace(
        now,
        included=now.included | LAYER_INCLUDES[kind],
        excluded=(now.excluded | DYNAMIC_LAYER_KEYS) - LAYER_KEYS[kind],
        layers=(*now.layers[:-1], entered),
    )
    return Next("call", f"enters functorch's {kind} layer: only its keys stay", situation=inside)


def _back(_s: Schema, _a: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    _, included, excluded = now.layers[-1] if now.layers else ("", None, None)
    if included is None or excluded is None:
        return Next("decides", "leaves a functorch layer that was entered elsewhere")
    outside = now.layers[:-1]
    return Next(
        "call",
        "leaves the layer: the thread's key sets are again what they were outside it",
        situation=replace(
            now,
            included=included if outside else included - _FUNCTORCH_MODES,
            excluded=excluded,
            layers=outside,
        ),
    )


def _batch_rule(_s: Schema, _a: Arguments, _k: DispatchKeySet, now: Situation) -> Next:
    level = len(now.layers)
    values = tuple(
        (path, _C._functorch.get_unwrapped(t) if _batched_at(t, level) else t)
        for path, t in now.tensors
    )
    return Next(
        "call",
        "takes the batch dimension into the shape and calls the operator on the whole batch",
        situation=replace(now, tensors=values).excluding(DispatchKeySet(K.FuncTorchBatched)),
    )


def _batched_at(tensor: Any, level: int) -> bool:
    functorch = _C._functorch
    if not isinstance(tensor, torch.Tensor):
        return False
    return bool(functorch.is_batchedtensor(tensor) and functorch.maybe_get_level(tensor) == level)


_CONTRACTS: dict[tuple[DispatchKey, str], Contract] = {
    (K.ADInplaceOrView, "ADInplaceOrViewType"): _in_place_or_view,
    (K.ADInplaceOrView, "VariableTypeManual"): _in_place_or_view,
    (K.BackendSelect, "RegisterBackendSelect"): _backend_select,
    (K.PythonTLSSnapshot, "PythonFallbackKernel"): _snapshot,
    (K.Python, "PythonFallbackKernel"): _python,
    (K.Functionalize, "FunctionalizeFallbackKernel"): _functionalize,
    (K.Conjugate, "ConjugateFallback"): _resolve(K.Conjugate, "conjugates for real"),
    (K.Negative, "NegateFallback"): _resolve(K.Negative, "negates for real"),
    (K.ZeroTensor, "ZeroTensorFallback"): _resolve(K.ZeroTensor, "fills the zeros in for real"),
    (K.FuncTorchDynamicLayerFrontMode, "DynamicLayer"): _front,
    (K.FuncTorchDynamicLayerBackMode, "DynamicLayer"): _back,
    (K.FuncTorchBatched, "BatchRulesUnaryOps"): _batch_rule,
    (K.FuncTorchBatched, "BatchRulesBinaryOps"): _batch_rule,
}
for _key in (K.AutogradOther, K.AutogradFunctionality, K.AutogradNestedTensor):
    _CONTRACTS[_key, "VariableType"] = _autograd
    _CONTRACTS[_key, "VariableTypeManual"] = _autograd
    _CONTRACTS[_key, "VariableFallbackKernel"] = _autograd_fallback
for _key in AUTOCAST_SET:
    _CONTRACTS[_key, "autocast_mode"] = _autocast
