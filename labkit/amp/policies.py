"""The cast policies: what an operator is called with instead of its arguments.

Source   aten/src/ATen/autocast_mode.h  CastPolicy, cached_cast, promote_type
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.amp.casting import cached_cast, is_eligible
from labkit.amp.lists import LISTS
from labkit.core import dtype as dtypes
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dtype import DType, dtype
from labkit.dispatch.layers.autocast import Policy, casting, lower_precision_dtype
from labkit.dispatch.layers.layer import map_stack
from labkit.dispatch.library import Library

KEYS = {"cpu": DispatchKey.AutocastCPU, "cuda": DispatchKey.AutocastCUDA}
"""Device type -> the key its policies stand at."""
_DEVICE_TYPES = {key: device_type for device_type, key in KEYS.items()}


def _all_cast(stack: list[Any], to: DType, key: DispatchKey) -> list[Any]:
    lower = dtype(lower_precision_dtype(key))
    cast = partial(cached_cast, dtype=to, device_type=_DEVICE_TYPES[key], lower=lower)
    return map_stack(stack, cast)


def lower_precision_fp(_op: Any, key: DispatchKey, stack: list[Any]) -> list[Any]:
    """All arguments in the region's type: sums of products, which tensor cores compute."""
    return _all_cast(stack, dtype(lower_precision_dtype(key)), key)


def fp32(_op: Any, key: DispatchKey, stack: list[Any]) -> list[Any]:
    """All arguments in float32: what overflows a half, or loses its digits in one."""
    return _all_cast(stack, dtypes.float32, key)


def fp32_set_opt_dtype(op: Any, key: DispatchKey, stack: list[Any]) -> list[Any]:
    """`dtype=float32`, where the caller named no dtype: the operator casts for itself."""
    place = next(i for i, each in enumerate(op.schema.arguments) if each.name == "dtype")
    if stack[place] is not None or not is_eligible(stack[0], _DEVICE_TYPES[key]):
        return stack
    return [*stack[:place], dtypes.float32, *stack[place + 1 :]]


def promote(_op: Any, key: DispatchKey, stack: list[Any]) -> list[Any]:
    """All arguments in the widest of their types, float32 at most.

    Raises   RuntimeError   a 16-bit type that is not the region's
    """
    widest = lower = dtype(lower_precision_dtype(key))
    for value in stack:
        for each in value if isinstance(value, list | tuple) else (value,):
            if not is_eligible(each, _DEVICE_TYPES[key]):
                continue
            if dtypes.float32 in (widest, each.dtype):
                widest = dtypes.float32
            elif each.dtype is not lower:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _all_cast(stack, widest, key)


def banned(op: Any, key: DispatchKey, stack: list[Any]) -> list[Any]:
    """Never called with anything.

    Raises   RuntimeError   always
    """
    raise RuntimeError(
        f"{op.name} is unsafe to autocast: its gradient overflows in float16. Use "
        "binary_cross_entropy_with_logits, or call it with autocast disabled and in float32"
    )


POLICIES: dict[str, Policy] = {
    policy.__name__: policy
    for policy in (lower_precision_fp, fp32, fp32_set_opt_dtype, promote, banned)
}
_KERNELS: dict[str, Callable[..., None]] = {
    name: casting(policy) for name, policy in POLICIES.items()
}


def register() -> Library:
    """Every operator of the lists that labkit has is cast inside a region."""
    library = Library("aten", "IMPL")
    for device_type, lists in LISTS.items():
        for policy, names in lists.items():
            for name in names.split():
                if f"aten::{name}" in library.dispatcher.operators:
                    library.impl(name, _KERNELS[policy], KEYS[device_type], boxed=True)
    return library
