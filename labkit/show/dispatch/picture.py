"""`show.dispatch` walks a call through the dispatcher, `show.dispatch_table` a whole table."""

from collections.abc import Sequence
from typing import Any

from labkit.core.dispatch_key import BACKENDS, FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import FULL_MASK, bits_of
from labkit.dispatch.explain.table import explain_cell, explain_table, find_operators
from labkit.dispatch.table import RULES
from labkit.show.dispatch.contexts import explained_in_contexts, resolved
from labkit.show.dispatch.paths import shortened
from labkit.widgets.dispatch.dispatch_view import DispatchView

KEYS = {
    "functionalities": [key.name for key in FUNCTIONALITIES],
    "backends": list(BACKENDS),
    "per_backend": [key.name for key in FUNCTIONALITIES if key.is_per_backend],
}


def dispatch(
    op: Any,
    *args: Any,
    contexts: Sequence[str] | None = None,
    at: int | str | None = None,
    **kwargs: Any,
) -> DispatchView:
    """The call is made, and every step of its way through the dispatcher can be walked.

    op        torch.ops.aten.add.Tensor, torch.ops.aten.add, "aten::add.Tensor", or an operator of
              labkit, or its name
    contexts  where to make it: plain, no_grad, inference_mode, autocast, vmap, functionalize, mode
              (a pass-through Python mode). Left out, all that take this call; "plain" is the
              thread as it is now. An operator that writes its argument is run once, in the first
              context; where the others do not work on copies they are predicted, not run.
    at        the step to open at: its number, from 1, or words of its text

    Raises   TypeError    op is no operator, or the arguments do not fit its schema
             KeyError     no operator of that name
             ValueError   no such context, no context at all, or no step `at`
    """
    operator = resolved(op, args, kwargs)
    calls, left_out = explained_in_contexts(operator, args, kwargs, contexts)
    view = DispatchView(KEYS, _table(operator), shortened(calls), left_out=left_out)
    return view.open_at(at)


def dispatch_table(
    op: Any, slot: str = "", slots: Sequence[str] = (), *, simple: bool = False
) -> DispatchView:
    """Every slot of the operator's table with its kernel, the reason, and the rules asked.

    op      an operator of PyTorch or labkit, or its name
    slot    the cell to begin with; left out: CPU, or the first of `slots`
    slots   the small view: only these, and their bits in one word to toggle
    simple  only which slots have a kernel, for a first look

    While Python is there, the page searches all operators and shows the one chosen; a small view
    has this operator alone.

    Raises   KeyError     no operator of that name
             TypeError    neither an operator nor a name
             ValueError   no such slot
    """
    shown = [_slot_number(name) for name in slots]
    cell = _slot_number(slot) if slot or not shown else shown[0]
    find, load = (None, None) if shown else (find_operators, _table)
    return DispatchView(
        KEYS, _table(op), find=find, load=load, cell=cell, shown=shown, simple=simple
    )


def _slot_number(name: str) -> int:
    """The place of a slot in the table; "" is CPU."""
    key = DispatchKey.parse(name or "CPU")
    if key not in RUNTIME_KEYS:
        raise ValueError(f"{key} has no slot of its own")
    return RUNTIME_KEYS.index(key)


def _table(op: Any) -> dict[str, Any]:
    table = explain_table(op)
    cells = table["cells"]
    asked = [[tried["question"] for tried in explain_cell(op, cell["slot"])] for cell in cells]
    masks = getattr(op, "masks", None) or _masks(cells)
    return {**shortened(table), "asked": asked, "masks": list(masks), "rules": RULES}


def _masks(cells: Sequence[dict[str, Any]]) -> list[int]:
    """Per backend, the word without the functionalities that fall through there."""
    masks = [FULL_MASK] * len(BACKENDS)
    for cell in cells:
        if not cell["fallthrough"]:
            continue
        slot = DispatchKey.parse(cell["slot"])
        for backend in range(len(BACKENDS)):
            if slot.backend_bit in (-1, backend):
                masks[backend] &= ~bits_of(slot.functionality)
    return masks
