"""One cast of a tensor, and the casts of weights that a region keeps.

Source   aten/src/ATen/autocast_mode.cpp  cached_cast, clear_cache
"""

from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.core.thread_local_state import CarriedLocal


class _Cache(CarriedLocal):
    """Of one thread.

    Differs  PyTorch has one cache for all threads, behind a lock.
    """

    enabled: bool = True
    nesting: int = 0

    def __init__(self) -> None:
        super().__init__()
        self.casts: dict[int, tuple[Any, Any]] = {}
        """id(weight) -> the weight, which keeps the id its own, and its cast."""


CACHE = _Cache()


def cached_weights() -> list[tuple[Any, Any]]:
    """Every weight whose cast is kept, with the cast."""
    return list(CACHE.casts.values())


def clear_autocast_cache() -> None:
    """No cast is kept.

    Source   torch/amp/autocast_mode.py  autocast.__exit__
    """
    CACHE.casts.clear()


def is_eligible(value: Any, device_type: str) -> bool:
    """Would autocast touch it: a floating tensor of the device, of less than 64 bits."""
    return (
        isinstance(value, TensorImpl)
        and value.device.type == device_type
        and value.dtype.is_floating_point
        and value.dtype is not dtypes.float64
    )


def cached_cast(value: Any, dtype: DType, device_type: str, lower: DType) -> Any:
    """The value in the type, where autocast may cast it; a weight is cast once in a region.

    lower   the region's lower-precision type: only casts down to it are kept

    A cast is kept until the outermost region ends, even when the weight is written meanwhile.
    """
    if not is_eligible(value, device_type) or value.dtype is dtype:
        return value
    weight: Any = value
    if not (
        CACHE.enabled
        and CACHE.nesting
        and (value.dtype, dtype) == (dtypes.float32, lower)
        and (weight.requires_grad and weight.is_leaf and value.base is None)
    ):
        return weight.to(dtype)
    kept = CACHE.casts.get(id(weight))
    if kept is None:
        kept = CACHE.casts[id(weight)] = weight, weight.to(dtype)
    return kept[1]
