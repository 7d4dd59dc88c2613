"""One call, made and explained in each situation it can be in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from labkit.dispatch.explain import explain_call
from labkit.dispatch.explain.steps import Explanation
from labkit.dispatch.explain.table import named
from labkit.dispatch.layers import Autocast, DispatchMode
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.packet import OverloadPacket
from labkit.dispatch.schema_parser import parse_schema
from labkit.dispatch.tls import InferenceMode
from labkit.widgets.picture import short

LABELS = {
    "plain": "as called",
    "no_grad": "no_grad",
    "inference_mode": "inference mode",
    "autocast": "autocast",
    "vmap": "vmap",
    "functionalize": "functionalize",
    "mode": "a Python mode",
}
"""Each of `labkit.dispatch.contexts`, and how the picture calls it."""
ON_COPIES = ("vmap", "functionalize")
"""Contexts that call on tensors of their own, so that even a writing operator can be run again."""
REASON_LENGTH = 140
NOT_IN_LABKIT = {
    "no_grad": "labkit's no_grad is a flag of its autograd, which no key set shows",
    "vmap": "labkit has no vmap",
    "functionalize": "labkit has no functionalization",
}
_LABKIT: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "inference_mode": InferenceMode,
    "autocast": Autocast,
    "mode": DispatchMode,
}


def resolved(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The one operator that is meant: labkit's handle, or PyTorch's overload.

    Raises   TypeError   op is no operator, or no overload takes the arguments
             KeyError    no operator of that name
    """
    op = named(op)
    if isinstance(op, OverloadPacket):
        return op.resolve(*args, **kwargs)
    if isinstance(op, OperatorHandle):
        return op
    from labkit.dispatch import torch_operator

    return torch_operator.resolve(op, args, kwargs)


def explained_in_contexts(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], contexts: Sequence[str] | None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The explanations as plain data, and the contexts left out with the reason.

    contexts   None: all that take this call. A context asked for by name is not left out: what
               goes wrong in it is raised.

    Raises   ValueError   no such context, none at all, or one that this operator has not
    """
    chosen = tuple(LABELS) if contexts is None else tuple(contexts)
    unknown = [name for name in chosen if name not in LABELS]
    if unknown or not chosen:
        what = f"no context {unknown[0]!r}" if unknown else "no context was asked for"
        raise ValueError(f"{what}; there are {', '.join(LABELS)}")
    explain = _explain_labkit if isinstance(op, OperatorHandle) else _explain_torch
    calls: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for name in chosen:
        writes = bool(calls) and parse_schema(calls[0]["schema"]).is_mutable
        run = not writes or name in ON_COPIES
        with nullcontext() if not calls else _random_state_kept():
            try:
                made = explain(name, op, args, kwargs, run)
            except Exception as error:
                if contexts is not None or name == "plain":
                    raise
                left_out[name] = short(str(error).partition("\n")[0], REASON_LENGTH)
                continue
        calls.append(_call(name, made, run))
    return calls, left_out


def _call(name: str, made: Explanation, run: bool) -> dict[str, Any]:
    note = "" if run else "It writes its argument, so it was run in the first context only."
    notes = " ".join(text for text in (made.note, note) if text)
    return {**made.data(), "context": name, "label": LABELS[name], "note": notes}


def _explain_torch(
    name: str, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: bool
) -> Explanation:
    from labkit.dispatch.contexts import explain_in  # late: `import labkit.show` loads no torch

    return explain_in(name, op, *args, run=run, **kwargs)


def _explain_labkit(
    name: str, op: OperatorHandle, args: tuple[Any, ...], kwargs: dict[str, Any], run: bool
) -> Explanation:
    if name in NOT_IN_LABKIT:
        raise ValueError(NOT_IN_LABKIT[name])
    with _LABKIT[name]():
        return explain_call(op, args, kwargs, run=run)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """PyTorch's generators afterwards are where they were: a look does not move them."""
    import torch

    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)):
        yield
