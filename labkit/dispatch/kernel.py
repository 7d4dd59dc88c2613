"""A kernel: what a table cell holds and a call runs.

Source   aten/src/ATen/core/boxing/KernelFunction.h
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.arguments import check_result
from labkit.dispatch.schema import Schema

Form = Literal["unboxed", "boxed", "fallthrough", "unknown"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """One function with the way it wants to be called; equal only to itself.

    function     None for a fallthrough and for a kernel known from a dump only
    debug        where it was registered, "registered at file.py:12"
    form         unboxed      function(*args, **kwargs), as the operator was called
                 boxed        function(op, keyset, stack): the stack holds one value per schema
                              argument, the function replaces them by the results
                 fallthrough  never runs: its key is masked out before the slot is chosen
                 unknown      a kernel of another dispatcher, read from its dump
    with_keyset  an unboxed function gets the call's DispatchKeySet first
    is_checked   what the function answers must be what the schema promises
    """

    function: Callable[..., Any] | None
    debug: str
    form: Form = "unboxed"
    with_keyset: bool = False
    is_checked: bool = False

    @property
    def is_fallthrough(self) -> bool:
        """True when this only says "skip my key"."""
        return self.form == "fallthrough"

    def __repr__(self) -> str:
        return f"Kernel({self.form}, {self.debug})"


def fallthrough_kernel(*_arguments: object) -> None:
    """Pass this to `impl` or `fallback` to have a key skipped; it is never called.

    Source   torch/library.py  fallthrough_kernel
    """
    raise RuntimeError("the fallthrough kernel marks a key to skip; it cannot be called")


def make_kernel(
    function: Callable[..., Any] | Kernel,
    debug: str,
    *,
    with_keyset: bool = False,
    boxed: bool = False,
) -> Kernel:
    """The kernel for a Python function.

    Raises   TypeError   not callable
    """
    if isinstance(function, Kernel):
        return function
    if function is fallthrough_kernel:
        return Kernel(None, debug, "fallthrough")
    if not callable(function):
        raise TypeError(f"a kernel must be callable, got {function!r}")
    return Kernel(function, debug, "boxed" if boxed else "unboxed", with_keyset and not boxed)


def bind(kernel: Kernel, op: Any, keyset: DispatchKeySet) -> Callable[..., Any]:
    """The kernel as a plain function of the call's arguments, its key set already filled in."""
    if kernel.function is None:
        raise RuntimeError(f"{op.name}: {kernel!r} cannot be called")
    function: Callable[..., Any] = kernel.function
    if kernel.form == "boxed":
        return partial(_call_boxed, function, op, keyset)
    if kernel.with_keyset:
        function = partial(function, keyset)
    return partial(_checked_call, function, op.schema) if kernel.is_checked else function


def _checked_call(
    function: Callable[..., Any], schema: Schema, /, *args: Any, **kwargs: Any
) -> Any:
    """What the function answers, if it is what the schema promises.

    Raises   RuntimeError   it is not

    Source   torch/csrc/utils/python_dispatch.cpp  PythonKernelHolder
    """
    result = function(*args, **kwargs)
    check_result(schema, result)
    return result


def _call_boxed(
    function: Callable[..., Any], op: Any, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any
) -> Any:
    """Arguments onto a stack, the boxed kernel over it, results off it.

    Source   aten/src/ATen/core/boxing/impl/boxing.h  BoxedKernelWrapper
    """
    stack = op.schema.stack(args, kwargs)
    function(op, keyset, stack)
    return stack[0] if len(stack) == 1 else tuple(stack) if stack else None
