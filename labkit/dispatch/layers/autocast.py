"""Autocast as a layer: cast, then call again with this layer excluded.

Which operator is cast to what, and the cache, are in `labkit.amp`.

Source   aten/src/ATen/autocast_mode.h  CastPolicy, WrapFunction_
"""

from collections.abc import Callable, Mapping
from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.thread_local_state import CarriedLocal
from labkit.dispatch import tls
from labkit.dispatch.layers.layer import declares, put_results
from labkit.dispatch.situation import Next, Situation

Policy = Callable[[Any, DispatchKey, list[Any]], list[Any]]
"""What an operator is called with instead: of the operator, the autocast key and its arguments."""


class _LowerPrecision(CarriedLocal):
    dtypes: Mapping[DispatchKey, Any] = {}
    """Autocast key -> what lower_precision operators cast to. Never changed in place."""


_LOCAL = _LowerPrecision()


def lower_precision_dtype(key: DispatchKey) -> Any:
    """What operators of the lower-precision list cast to in the innermost region; None outside."""
    return _LOCAL.dtypes.get(key)


class Autocast:
    """Inside the `with`, the device's autocast key is no longer excluded.

    device   "CPU", "CUDA", ...
    dtype    what lower_precision operators cast to
    enabled  False: the key is excluded inside, whatever stood around it

    Source   torch/amp/autocast_mode.py  autocast
    """

    def __init__(
        self, device: str = "CPU", dtype: Any = "bfloat16", *, enabled: bool = True
    ) -> None:
        self.key = DispatchKey[f"Autocast{device}"]
        self.dtype = dtype
        self.enabled = enabled
        self._saved: list[tuple[DispatchKeySet, Mapping[DispatchKey, Any]]] = []

    def __enter__(self) -> None:
        excluded = tls.excluded()
        self._saved.append((excluded, _LOCAL.dtypes))
        key = DispatchKeySet(self.key)
        tls.set_local(tls.included(), excluded - key if self.enabled else excluded | key)
        _LOCAL.dtypes = {**_LOCAL.dtypes, self.key: self.dtype}

    def __exit__(self, *_exception: object) -> None:
        excluded, _LOCAL.dtypes = self._saved.pop()
        tls.set_local(tls.included(), excluded)


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Calls again, without itself."""
    text = "casts its arguments, then calls the operator again with autocast excluded"
    return Next("call", text, situation=now.excluding(DispatchKeySet(keys.slot_key())))


def casting(policy: Policy) -> Callable[..., None]:
    """A boxed kernel that calls its operator again with what the policy makes of the arguments.

    Both run with the key excluded: a cast is not itself cast.
    """

    @declares(contract)
    def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
        key = keys.slot_key()
        with tls.ExcludeDispatchKeyGuard(key):
            put_results(stack, op.call_boxed(policy(op, key, stack)))

    return kernel
