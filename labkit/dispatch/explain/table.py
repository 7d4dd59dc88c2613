"""The whole table of one operator with the reason of each cell, and a search over operators.

Source   torch._C._dispatch_dump, torch._C._dispatch_dump_table
"""

from collections.abc import Mapping
from typing import Any

from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.dispatch.dispatcher import dispatcher as default_dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.packet import OverloadPacket
from labkit.dispatch.table import Cell, compute_table, rules_tried


def explain_table(op: Any) -> dict[str, Any]:
    """The operator's table as plain data.

    op   a labkit operator, a torch OpOverload, or the name of either ("aten::add.Tensor")

    operator, side, schema
    registrations   [{key, alias, kernel, form, active}], newest first per key
    cells           [{slot, index, kernel, reason, rule, source, fallthrough, stored_kernel,
                    stale}], one per slot in table order; kernel "" where there is none;
                    stored_kernel and stale are None for PyTorch's operators, which show only the
                    recomputed table
    stale           does the stored table differ? for PyTorch's operators, by its own check

    Raises   KeyError    no operator of that name
             TypeError   neither an operator nor a name
    """
    if isinstance(op, OverloadPacket):
        op = op.default
    op = named(op)
    return _labkit_table(op) if isinstance(op, OperatorHandle) else _torch_table(op)


def named(op: Any) -> Any:
    """The labkit operator of a name that PyTorch does not have; whatever else is given, as it is.

    labkit's own `aten` operators are named after PyTorch's: pass the operator to mean labkit's.
    """
    from labkit.dispatch import torch_tables

    if not isinstance(op, str) or op not in default_dispatcher().operators:
        return op
    if op.startswith("aten::") and op in torch_tables.operator_names():
        return op
    return default_dispatcher().find(op)


def explain_cell(op: Any, slot: str | DispatchKey) -> list[dict[str, Any]]:
    """The rules that were asked about one cell: [{rule, question, decides}], the last decided.

    Raises   ValueError   no such key, or an alias, which has no slot
    """
    key = DispatchKey.parse(slot)
    if key not in RUNTIME_KEYS:
        raise ValueError(f"{key} has no slot of its own")
    kernels, fallbacks = _kernels_and_fallbacks(op)
    return [tried._asdict() for tried in rules_tried(key, kernels, fallbacks)]


def find_operators(text: str, limit: int = 50) -> list[str]:
    """Names that contain the text, labkit's and PyTorch's, those that start with it first."""
    from labkit.dispatch import torch_tables

    names = {*default_dispatcher().operators, *torch_tables.operator_names()}
    found = [name for name in names if text.lower() in name.lower()]
    base = text.lower()
    return sorted(found, key=lambda name: _rank(name.lower(), base))[:limit]


def _rank(name: str, text: str) -> tuple[int, int, str]:
    after = name.partition("::")[2]
    return (0 if text in (name, after) else 1 if after.startswith(text) else 2, len(name), name)


def _kernels_and_fallbacks(
    op: Any,
) -> tuple[Mapping[DispatchKey, Kernel], Mapping[DispatchKey, Kernel]]:
    op = named(op)
    if isinstance(op, OperatorHandle):
        return op.active_kernels, op.dispatcher.fallbacks
    from labkit.dispatch import torch_operator, torch_tables

    name = torch_operator.resolve(op, (), {}).name()
    return torch_tables.kernels_of(name), torch_tables.global_fallbacks()


def _labkit_table(op: OperatorHandle) -> dict[str, Any]:
    registrations = [
        _registration(key, kernel, number == 0)
        for key, kernels in op.kernels.items()
        for number, kernel in enumerate(kernels)
    ]
    cells = []
    for number, (cell, kept) in enumerate(zip(op.computed_table(), op.dispatch_table, strict=True)):
        data = _cell(number, cell)
        data["stored_kernel"] = _debug(kept)
        data["stale"] = cell.kernel is not kept.kernel
        cells.append(data)
    schema = str(op.schema) if op.has_schema else ""
    stale = any(cell["stale"] for cell in cells)
    return _table(op.name, "labkit", schema, registrations, cells, stale)


def _torch_table(op: Any) -> dict[str, Any]:
    import torch

    from labkit.dispatch import torch_operator, torch_tables

    op = torch_operator.resolve(op, (), {})
    name = op.name()
    registrations = [
        _registration(entry.key, entry.kernel, entry.active)
        for entry in torch_tables.registrations(name)
    ]
    table = compute_table(torch_tables.kernels_of(name), torch_tables.global_fallbacks())
    cells = [
        {**_cell(number, cell), "stored_kernel": None, "stale": None}
        for number, cell in enumerate(table)
    ]
    schema = str(torch_operator.schema_of(op))
    side = f"PyTorch {torch.__version__}"
    return _table(name, side, schema, registrations, cells, torch_operator.is_stale(name))


def _table(
    operator: str, side: str, schema: str, registrations: Any, cells: Any, stale: bool
) -> dict[str, Any]:
    return {
        "operator": operator,
        "side": side,
        "schema": schema,
        "registrations": registrations,
        "cells": cells,
        "stale": stale,
    }


def _registration(key: DispatchKey, kernel: Kernel, active: bool) -> dict[str, Any]:
    return {
        "key": key.name,
        "alias": key.is_alias,
        "kernel": kernel.debug,
        "form": kernel.form,
        "active": active,
    }


def _cell(number: int, cell: Cell) -> dict[str, Any]:
    return {
        "slot": RUNTIME_KEYS[number].name,
        "index": number,
        "kernel": _debug(cell),
        "reason": cell.reason,
        "rule": cell.rule,
        "source": cell.source.name if cell.source is not None else None,
        "fallthrough": cell.kernel is not None and cell.kernel.is_fallthrough,
    }


def _debug(cell: Cell) -> str:
    return cell.kernel.debug if cell.kernel is not None else ""
