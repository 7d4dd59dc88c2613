"""The situations a PyTorch call can be in, by name: to explain one call in each of them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.dispatch.explain import explain_call
from labkit.dispatch.explain.steps import Explanation


class PassThroughMode(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """A __torch_dispatch__ mode that calls every operator on, unchanged."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operator."""
        return func(*args, **(kwargs or {}))


@contextmanager
def _autocast_cpu() -> Iterator[None]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield


_WITH: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": _autocast_cpu,
    "mode": PassThroughMode,
}
CONTEXTS = ("plain", "no_grad", "inference_mode", "autocast", "vmap", "functionalize", "mode")


def explain_in(
    context: str, op: Any, *args: Any, run: bool = True, below: bool = True, **kwargs: Any
) -> Explanation:
    """The call, made and explained inside a context.

    context   plain, no_grad, inference_mode, autocast (CPU, bfloat16), vmap (every tensor gets a
              leading dimension of two), functionalize, mode (a pass-through dispatch mode)

    Raises   ValueError   no such context
    """
    if context not in CONTEXTS:
        raise ValueError(f"no context {context!r}; there are {', '.join(CONTEXTS)}")
    if context in _WITH:
        with _WITH[context]():
            return explain_call(op, args, kwargs, run=run, below=below)
    return _inside_transform(context, op, args, kwargs, run, below)


def _inside_transform(
    context: str, op: Any, args: Any, kwargs: Any, run: bool, below: bool
) -> Explanation:
    leaves, tree = _pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i] for i in places] or [torch.zeros(2)]
    made: list[Explanation] = []

    def body(*inside: Any) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, inside, strict=False):
            values[place] = tensor
        inner_args, inner_kwargs = _pytree.tree_unflatten(values, tree)
        made.append(explain_call(op, inner_args, inner_kwargs, run=run, below=below))
        made[-1].result = None  # it belongs to the transform that is about to end
        return inside[0]

    if context == "vmap":
        batched = [torch.stack([tensor.detach()] * 2) for tensor in tensors]
        torch.vmap(body, randomness="different")(*batched)
    else:
        torch.func.functionalize(body)(*[tensor.detach().clone() for tensor in tensors])
    return made[0]
