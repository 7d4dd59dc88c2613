"""Autocast as a layer: cast, then call again with this layer excluded.

Asks of a tensor: `dtype`, and `to(dtype)`.

Source   aten/src/ATen/autocast_mode.h  CastPolicy, WrapFunction_
"""

from collections.abc import Callable
from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.thread_local_state import CarriedLocal
from labkit.dispatch import tls
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.layers.layer import declares, map_stack, put_results
from labkit.dispatch.library import Library, RegistrationHandle
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.situation import Next, Situation


class _Dtype(CarriedLocal):
    lower_precision: Any = "bfloat16"


_DTYPE = _Dtype()


class Autocast:
    """Inside the `with`, the device's autocast key is no longer excluded.

    device   "CPU", "CUDA", ...
    dtype    what lower_precision operators cast to

    Source   torch/amp/autocast_mode.py  autocast
    Differs  No cache of cast weights.
    """

    def __init__(self, device: str = "CPU", dtype: Any = "bfloat16") -> None:
        self.key = DispatchKeySet(f"Autocast{device}")
        self.dtype = dtype

    def __enter__(self) -> None:
        self._saved = (tls.excluded(), _DTYPE.lower_precision)
        tls.set_local(tls.included(), self._saved[0] - self.key)
        _DTYPE.lower_precision = self.dtype

    def __exit__(self, *_exception: object) -> None:
        excluded, _DTYPE.lower_precision = self._saved
        tls.set_local(tls.included(), excluded)


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Calls again, without itself."""
    text = "casts its arguments, then calls the operator again with autocast excluded"
    return Next("call", text, situation=now.excluding(DispatchKeySet(keys.slot_key())))


def _policy(to_dtype: Callable[[], Any]) -> Callable[..., None]:
    @declares(contract)
    def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
        target = to_dtype()
        with tls.ExcludeDispatchKeyGuard(keys.slot_key()):
            cast = map_stack(stack, lambda value: _cast(value, target))
            put_results(stack, op.call_boxed(cast))

    return kernel


def _cast(value: Any, dtype: Any) -> Any:
    is_floating = key_set_of(value) is not None and "float" in str(value.dtype)
    return value.to(dtype) if is_floating and str(value.dtype) != str(dtype) else value


lower_precision = _policy(lambda: _DTYPE.lower_precision)
fp32 = _policy(lambda: "float32")
POLICIES = {"lower_precision": lower_precision, "fp32": fp32}


def register_for(
    library: Library, op: OperatorHandle, policy: str = "lower_precision", device: str = "CPU"
) -> RegistrationHandle:
    """The operator is cast by this policy while autocast is on for the device.

    Raises   ValueError   no such policy
    """
    if policy not in POLICIES:
        raise ValueError(f"no cast policy {policy!r}; there are {', '.join(POLICIES)}")
    return library.impl(op, POLICIES[policy], f"Autocast{device}", boxed=True)
