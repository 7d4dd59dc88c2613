"""One operator of the installed PyTorch: found, described, and put in the words of labkit."""

from typing import Any

import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import torch_keys, torch_tables
from labkit.dispatch.contracts import next_step
from labkit.dispatch.explain.predict import Hop, OperatorView, fallthrough_masks
from labkit.dispatch.schema import Schema, Type
from labkit.dispatch.schema_parser import parse_schema
from labkit.dispatch.situation import Next, Situation, flatten_tensors
from labkit.dispatch.table import Cell, compute_table

_C: Any = torch._C


def resolve(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The OpOverload that `op` means for these arguments.

    op   torch.ops.aten.add.Tensor, torch.ops.aten.add (the overload that fits is found), or a
         name: "aten::add.Tensor"

    Raises   TypeError   something else, such as torch.add: a Python binding that picks an
                         operator itself
             KeyError    no operator of that name
    """
    if isinstance(op, str):
        op = _by_name(op)
    if isinstance(op, torch._ops.OpOverloadPacket):
        overload = _C._jit_resolve_packet(op._qualified_op_name, *args, **kwargs)
        return getattr(op, overload or "default")
    if isinstance(op, torch._ops.OpOverload):
        return op
    raise TypeError(
        f"explain needs an operator such as torch.ops.aten.add.Tensor or its name, got {op!r}"
        + (f"; try torch.ops.aten.{op.__name__}" if hasattr(op, "__name__") else "")
    )


def _by_name(name: str) -> Any:
    """The operator of exactly that name, or the packet of all its overloads."""
    base, _, overload = name.partition(".")
    namespace, _, base = base.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), base)
        if overload or "default" in packet.overloads():
            return getattr(packet, overload or "default")
    except AttributeError:
        raise KeyError(f"the installed PyTorch has no operator called {name!r}") from None
    return packet


def schema_of(op: Any) -> Schema:
    """The operator's schema."""
    return parse_schema(torch_tables.schema_text(op.name()))


def view(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OperatorView:
    """The operator's table, masks and contracts."""
    name = op.name()
    schema = schema_of(op)
    values = schema.stack(args, kwargs)
    named = {a.name: value for a, value in zip(schema.arguments, values, strict=False)}
    cells = compute_table(torch_tables.kernels_of(name), torch_tables.global_fallbacks())

    def then(cell: Cell, keys: DispatchKeySet, now: Situation) -> Next:
        return next_step(schema, named, cell, keys, now)

    return OperatorView(name, cells, fallthrough_masks(cells), then)


class WrappedNumber:
    """What PyTorch makes of a Python number given for a Tensor: a CPU tensor without dimensions."""

    def __init__(self, value: Any) -> None:
        tracked = () if torch.is_inference_mode_enabled() else ("ADInplaceOrView", "AutogradCPU")
        self._key_set = DispatchKeySet("CPU", "AutocastCPU", *tracked)
        self.value = value


def _as_tensor(kind: Type, value: Any) -> Any:
    is_number = isinstance(value, int | float | complex) and not isinstance(value, torch.Tensor)
    return WrappedNumber(value) if is_number and kind.is_tensor_like else value


def situation(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Situation:
    """What a call of the operator would meet on this thread now."""
    schema = schema_of(op)
    values = schema.stack(args, kwargs)
    names = [schema.arguments[i].name for i in schema.dispatch_positions]
    chosen = [_as_tensor(schema.arguments[i].type, values[i]) for i in schema.dispatch_positions]
    layers = _C._functorch.get_interpreter_stack() or ()
    return Situation(
        flatten_tensors(
            names, chosen, lambda value: isinstance(value, torch.Tensor | WrappedNumber)
        ),
        torch_keys.included(),
        torch_keys.excluded(),
        tuple((str(layer.key()).rpartition(".")[2], None, None) for layer in layers),
        _C._len_torch_dispatch_stack(),
    )


def is_stale(name: str) -> bool:
    """True when PyTorch's own check finds its stored table different from the recomputed one."""
    try:
        _C._dispatch_check_invariants(name)
    except RuntimeError:
        return True
    return False


def backends_of(hops: list[Hop]) -> tuple[str, ...]:
    """Every backend that a key set on the way names."""
    return tuple({name for hop in hops for name in hop.keys.backends()})
