"""`with lab.amp.autocast("cuda"):` each operator inside runs in the precision that suits it.

Source   torch/amp/autocast_mode.py
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from labkit.amp.casting import CACHE, clear_autocast_cache
from labkit.amp.policies import KEYS
from labkit.core import dtype as dtypes
from labkit.core.dtype import DType, dtype
from labkit.dispatch import tls
from labkit.dispatch.layers.autocast import Autocast, lower_precision_dtype

DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


class autocast(Autocast):
    """A region, or with `@autocast("cuda")` a function, whose operators are cast by the lists.

    device_type    "cpu" or "cuda": the tensors that are cast
    dtype          float16 or bfloat16; None: float16 on "cuda", bfloat16 on "cpu"
    enabled        False switches autocast off inside
    cache_enabled  False casts a weight each time it is used; None: as in the region around it

    Raises   RuntimeError   a device type without lists
    Warns    UserWarning    another dtype on "cpu"; nothing is cast inside
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in KEYS:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        chosen = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cpu" and chosen not in (dtypes.float16, dtypes.bfloat16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.",
                stacklevel=2,
            )
            enabled = False
        super().__init__(device_type.upper(), chosen, enabled=enabled)
        self.cache_enabled = cache_enabled
        self._cache_was: list[bool] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._cache_was.append(CACHE.enabled)
        if self.cache_enabled is not None:
            CACHE.enabled = self.cache_enabled
        CACHE.nesting += 1

    def __exit__(self, *exception: object) -> None:
        CACHE.nesting -= 1
        if CACHE.nesting == 0:
            clear_autocast_cache()
        CACHE.enabled = self._cache_was.pop()
        super().__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function runs in this region."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run


def is_autocast_enabled(device_type: str) -> bool:
    """True inside of a region of the device type."""
    return not tls.excluded().has(KEYS[device_type])


def get_autocast_dtype(device_type: str) -> DType:
    """What a region of the device type casts to."""
    return dtype(lower_precision_dtype(KEYS[device_type]) or DEFAULTS[device_type])
