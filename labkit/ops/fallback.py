"""Operators on device tensors that the host computed, counted: nothing falls back unseen.

A tensor on a device stays there. Where the lab has no kernel for an operator, the operands come to
the host, are computed there, and the result goes back: right values, and a detour worth knowing of.

Source   aten/src/ATen/native/CPUFallback.cpp  cpu_fallback
"""

import contextlib
import threading
import warnings
from collections import Counter
from collections.abc import Iterator

from labkit.core.callers import level_outside_the_lab
from labkit.core.host_compiler import CompilerMissing
from labkit.core.tensor_impl import TensorImpl

NO_KERNEL = "it has no device kernel"

_counts: Counter[str] = Counter()
_thread = threading.local()


class NoKernel(Exception):
    """There is no kernel for these arguments; the words say why, as a clause."""


class FallbackWarning(UserWarning):
    """The host computed what was asked of a device."""


def counts() -> dict[str, int]:
    """Operator -> how often the host served it since the last `reset`."""
    return dict(_counts)


def reset() -> None:
    """Nothing has fallen back: counters are empty, and each operator warns once more."""
    _counts.clear()


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Inside, and in this thread, what would fall back raises `NoKernel` before it has begun.

    A kernel that cannot be compiled for want of a compiler has not begun either.
    """
    before = getattr(_thread, "refused", False)
    _thread.refused = True
    try:
        yield
    except CompilerMissing as missing:
        raise NoKernel("no C++ compiler is installed, and kernels want one") from missing
    finally:
        _thread.refused = before


def note(name: str, why: str) -> None:
    """Count one detour over the host; the first of each operator is a `FallbackWarning`.

    why  a clause that says what is missing, such as "it has no kernel for complex64"

    Raises   NoKernel   detours are `refused` here
    """
    if getattr(_thread, "refused", False):
        raise NoKernel(why)
    _counts[name] += 1
    if _counts[name] == 1:
        warnings.warn(
            f"{name} on a device tensor was computed on the host and copied back: {why}. Said once "
            "per operator; labkit.ops.fallback.counts() has them all",
            FallbackWarning,
            stacklevel=level_outside_the_lab(),
        )


def note_if_on_device(name: str, *operands: TensorImpl) -> None:
    """Count an operator that has a loop for the host alone, when an operand is elsewhere."""
    if any(operand.device.type != "cpu" for operand in operands):
        note(name, NO_KERNEL)
