"""What a call says when its slot has nothing to run.

Source   aten/src/ATen/core/dispatch/OperatorEntry.cpp  OperatorEntry::reportError
"""

from collections.abc import Sequence

from labkit.core.alias_keys import BACKENDS_OF_AUTOGRAD
from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.dispatch.table import AMBIGUOUS, Cell, Kernels


def no_kernel(
    name: str, kernels: Kernels, stored: Sequence[Cell], slot: DispatchKey, cell: Cell
) -> Exception:
    """The error for a missing, ambiguous or fallthrough cell; it lists what there is.

    name, kernels, stored   of the operator: its full name, its active kernels, its table
    """
    if cell.reason == AMBIGUOUS:
        sharing = [key.name for key in kernels if key in BACKENDS_OF_AUTOGRAD[slot]]
        return RuntimeError(
            f"{name} has a CompositeImplicitAutograd kernel, and kernels of backends that share "
            f"the {slot} slot: {', '.join(sharing)}. Which of them is meant for {slot} is "
            f"ambiguous: register a kernel for {slot} itself."
        )
    exists = f"It has kernels for:\n{what_exists(stored)}"
    if cell.kernel is not None:
        return RuntimeError(
            f"{name}: a redispatch reached {slot}, but its cell is a fallthrough. Falling "
            f"through happens at the first dispatch only. {exists}"
        )
    if slot is DispatchKey.Undefined:
        return NotImplementedError(
            f"{name} was called without any tensor to choose a kernel by, and has no kernel "
            f"for that (Undefined). {exists}"
        )
    return NotImplementedError(f"{name} has no kernel for {slot}. {exists}")


def what_exists(stored: Sequence[Cell]) -> str:
    """One line per kernel that calls can reach: its slots, where it was registered, the rule."""
    slots: dict[str, list[str]] = {}
    for key, cell in zip(RUNTIME_KEYS, stored, strict=True):
        if cell.kernel is not None and not cell.kernel.is_fallthrough:
            slots.setdefault(f"{cell.kernel.debug} [{cell.reason}]", []).append(key.name)
    lines = []
    for kernel, names in slots.items():
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        lines.append(f"  {shown}: {kernel}")
    return "\n".join(lines) or "  (nothing)"
