"""vmap as a layer: a tensor with a hidden leading dimension.

An operator with a batch rule (a kernel at FuncTorchBatched) unwraps and computes on the whole
batch; any other is run once per example and the results are stacked.

Asks of a tensor: `value[i]` and `len(value)`; stacking is given to `vmap`.

Source   aten/src/ATen/functorch/BatchedTensorImpl.h; BatchedFallback.cpp
Differs  The batch is dimension 0, and one level deep.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.layers.layer import declares, map_stack, put_results
from labkit.dispatch.library import Library
from labkit.dispatch.situation import Next, Situation
from labkit.dispatch.tls import ExcludeDispatchKeyGuard

_KEY = DispatchKeySet(DispatchKey.FuncTorchBatched)


class BatchedTensorImpl:
    """One example, to whoever looks at it; inside, all of them.

    value   the whole batch, examples along dimension 0
    stack   list of results -> the batch of them

    Source   aten/src/ATen/functorch/BatchedTensorImpl.h  BatchedTensorImpl
    """

    def __init__(self, value: Any, stack: Callable[[Sequence[Any]], Any]) -> None:
        self.value = value
        self.stack = stack
        self._key_set = (key_set_of(value) or keyset(0)) | _KEY

    def __repr__(self) -> str:
        return f"BatchedTensorImpl({self.value!r})"


def vmap(function: Callable[..., Any], stack: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """The function, mapped over dimension 0 of its tensor arguments.

    Source   torch/func  vmap
    """

    def call(*args: Any) -> Any:
        batched = (BatchedTensorImpl(a, stack) if key_set_of(a) is not None else a for a in args)
        result = function(*batched)
        return result.value if isinstance(result, BatchedTensorImpl) else result

    return call


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Once per example: how often, the batch decides."""
    return Next("decides", "calls the operator once per example and stacks the results")


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Run the operator once per example.

    Raises   ValueError   the batches differ in length
    """
    batches = [value for value in _flat(stack) if isinstance(value, BatchedTensorImpl)]
    lengths = {len(batch.value) for batch in batches}
    if len(lengths) != 1:
        raise ValueError(f"{op.name}: the batches have lengths {sorted(lengths)}, not one")
    with ExcludeDispatchKeyGuard(DispatchKey.FuncTorchBatched):
        results = [
            op.call_boxed(map_stack(stack, partial(_example, i))) for i in range(lengths.pop())
        ]
    put_results(stack, BatchedTensorImpl(batches[0].stack(results), batches[0].stack))


def _flat(stack: list[Any]) -> list[Any]:
    return [
        item for value in stack for item in (value if isinstance(value, list | tuple) else [value])
    ]


def _example(i: int, value: Any) -> Any:
    return value.value[i] if isinstance(value, BatchedTensorImpl) else value


def install(library: Library) -> None:
    """Every operator without a batch rule runs this loop."""
    library.fallback(kernel, DispatchKey.FuncTorchBatched)
