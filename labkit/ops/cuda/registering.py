"""Kernels of operators at the CUDA key; where one cannot serve a call, the host does, and says why.

    @device_kernel("mm")
    def mm(self, mat2):
        check_floats(self, mat2)      # NoKernel("its kernel computes in float32, and got int64")
        ...

A kernel raises `NoKernel` before it has written anything; then the boxed fallback takes the call.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from labkit.dispatch.library import SPEAK_FOR_OTHERS
from labkit.ops.aten import aten
from labkit.ops.cpu_fallback import on_the_host
from labkit.ops.cuda.launching import NoKernel
from labkit.ops.registration import kernel

Function = TypeVar("Function", bound=Callable[..., Any])

SPEAK_FOR_OTHERS.add(__file__)
DEVICE_KERNELS: dict[str, Callable[..., Any]] = {}
"""Operator -> its device kernel alone, which raises `NoKernel` where it cannot."""


def device_kernel(operator: str) -> Callable[[Function], Function]:
    """The function is the operator's kernel at the CUDA key, and the host is behind it.

    operator  "sum.dim_IntList"; a defined operator
    """
    name, _, overload = operator.partition(".")

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def served(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except NoKernel as missing:
                handle = getattr(getattr(aten, name), overload or "default")
                return on_the_host(handle, args, kwargs, str(missing))

        DEVICE_KERNELS[operator] = function
        kernel(operator, "CUDA")(served)
        return function

    return register
