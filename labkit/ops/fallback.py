"""Operators on device tensors that the host computed, counted: nothing falls back unseen.

A tensor on a device stays there. Where the lab has no kernel for an operator, the operands come to
the host, are computed there, and the result goes back: right values, and a detour worth knowing of.

Source   aten/src/ATen/native/CPUFallback.cpp  cpu_fallback
"""

import sys
import warnings
from collections import Counter
from types import FrameType

from labkit.core.tensor_impl import TensorImpl

NO_KERNEL = "it has no device kernel"

_counts: Counter[str] = Counter()


class FallbackWarning(UserWarning):
    """The host computed what was asked of a device."""


def counts() -> dict[str, int]:
    """Operator -> how often the host served it since the last `reset`."""
    return dict(_counts)


def reset() -> None:
    """Nothing has fallen back: counters are empty, and each operator warns once more."""
    _counts.clear()


def note(name: str, why: str) -> None:
    """Count one detour over the host; the first of each operator is a `FallbackWarning`.

    why  a clause that says what is missing, such as "it has no kernel for complex64"
    """
    _counts[name] += 1
    if _counts[name] == 1:
        warnings.warn(
            f"{name} on a device tensor was computed on the host and copied back: {why}. Said once "
            "per operator; labkit.ops.fallback.counts() has them all",
            FallbackWarning,
            stacklevel=_caller_outside(),
        )


def _caller_outside() -> int:
    """The `stacklevel`, seen from `note`, of the first caller that is not the lab itself."""
    frame: FrameType | None = sys._getframe(1)
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("labkit."):
        frame, level = frame.f_back, level + 1
    return level + 1


def note_if_on_device(name: str, *operands: TensorImpl) -> None:
    """Count an operator that has a loop for the host alone, when an operand is elsewhere."""
    if any(operand.device.type != "cpu" for operand in operands):
        note(name, NO_KERNEL)
