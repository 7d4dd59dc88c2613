"""A device does not come along into a forked process: there every call says so, as CUDA does.

Source   torch/cuda/__init__.py  _lazy_init
"""

import os
import weakref
from typing import Any, NoReturn

from labkit.cuda.errors import CudaError

_drivers: weakref.WeakSet[Any] = weakref.WeakSet()


class ForkedDevice:
    """Stands where a driver's lock stood before a fork: in the child no call gets past it."""

    def __enter__(self) -> NoReturn:
        raise CudaError(
            "this process was forked from one that had opened the device, and the device does not "
            "come along: its memory and its work stay with the parent. Start processes that use "
            'the device with multiprocessing.get_context("spawn")',
            "cudaErrorInitializationError",
        )

    def __exit__(self, *error: object) -> None:
        raise AssertionError("unreachable: nothing enters")


def close_to_children(driver: Any) -> None:
    """In a process that is forked from now on, the driver's `_lock` lets nobody in."""
    _drivers.add(driver)


def _close_to_this_child() -> None:
    for driver in _drivers:
        driver._lock = ForkedDevice()


os.register_at_fork(after_in_child=_close_to_this_child)
