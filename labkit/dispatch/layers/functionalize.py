"""Functionalize as a layer: what was written in place becomes a new value behind a wrapper.

`add_` on a wrapper runs `add` on what is inside and puts the result there; every other operator
runs on what is inside and its results are wrapped.

Source   aten/src/ATen/FunctionalTensorWrapper.h; FunctionalizeFallbackKernel.cpp
Differs  Views are not linked: writing one does not change its base.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.layers.layer import declares, map_stack, put_results
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.tls import ExcludeDispatchKeyGuard

_KEY = DispatchKeySet(DispatchKey.Functionalize)


class FunctionalTensorWrapper:
    """A tensor that can be written by replacing what is inside it.

    Source   aten/src/ATen/FunctionalTensorWrapper.h  FunctionalTensorWrapper
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key_set = (key_set_of(value) or keyset(0)) | _KEY
        self.replaced = 0
        """How often an in-place operator put a new value here."""

    def __repr__(self) -> str:
        return f"FunctionalTensorWrapper({self.value!r})"


def unwrap(value: Any) -> Any:
    """What is inside a wrapper; anything else as it is."""
    return value.value if isinstance(value, FunctionalTensorWrapper) else value


def functionalized(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its tensor arguments wrapped on the way in and its result taken out.

    Source   torch/func  functionalize
    """

    def call(*args: Any) -> Any:
        wrapped = (FunctionalTensorWrapper(a) if key_set_of(a) is not None else a for a in args)
        return unwrap(function(*wrapped))

    return call


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Calls the operator on what is inside; of an in-place operator, the other one."""
    inner = tuple((path, unwrap(tensor)) for path, tensor in now.tensors)
    return Next(
        "call",
        "unwraps, and calls the operator on what is inside",
        situation=replace(now, tensors=inner).excluding(_KEY),
    )


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Run the operator, or its out-of-place form, on what is inside."""
    written = [
        value
        for argument, value in zip(op.schema.arguments, stack, strict=True)
        if argument.is_write and isinstance(value, FunctionalTensorWrapper)
    ]
    target = functional_form(op) if written else op
    with ExcludeDispatchKeyGuard(DispatchKey.Functionalize):
        args, kwargs = op.schema.unstack(map_stack(stack, unwrap))
        result = target(*args, **kwargs)
    if written:
        written[0].value = result
        written[0].replaced += 1
        put_results(stack, written[0])
    else:
        wrapped = tuple(map(_wrap, result)) if isinstance(result, tuple) else _wrap(result)
        put_results(stack, wrapped)


def _wrap(value: Any) -> Any:
    return FunctionalTensorWrapper(value) if key_set_of(value) is not None else value


def functional_form(op: OperatorHandle) -> OperatorHandle:
    """`lab::add.Tensor` for `lab::add_.Tensor`.

    Raises   NotImplementedError   it has none
    """
    base, dot, overload = op.name.partition(".")
    try:
        return op.dispatcher.find(f"{base.removesuffix('_')}{dot}{overload}")
    except KeyError as error:
        problem = f"{op.name} writes its argument, and has no form that does not: {error}"
        raise NotImplementedError(problem) from None


def install(library: Library) -> None:
    """Every operator without a Functionalize kernel of its own runs this one."""
    library.fallback(kernel, DispatchKey.Functionalize)
