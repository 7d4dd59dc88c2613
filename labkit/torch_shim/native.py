"""The shim's doors, and Python's answers to its requests.

An exception cannot pass through C: it is answered with a number that means failure, and its words
are left with the shim, which raises them in PyTorch.

Source   c10/util/Exception.h  TORCH_CHECK
"""

import atexit
import ctypes
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import torch

from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.torch_shim import build
from labkit.torch_shim.tracing import Traced

REQUEST = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32, *[ctypes.c_int64] * 4)
FAILED = -(1 << 63)
OUT_OF_MEMORY = FAILED + 1
TAKEN_AT_ONCE = 1024


class Verb(IntEnum):
    """What PyTorch may ask, in the order of `Verb` in device.cpp; the arguments in brackets."""

    ALLOCATE = 0  # (device, bytes, stream) -> address
    COPY = 1  # (device, to, from, bytes)
    RECORD_STREAM = 2  # (device, address, stream)
    EMPTY_CACHE = 3  # ()
    STATISTICS = 4  # (device, address of the numbers)
    RESET_STATISTICS = 5  # (device, 1 for the peaks)
    MEMORY_INFO = 6  # (device, address of two numbers)
    NEW_STREAM = 7  # (device, priority) -> stream
    QUERY_STREAM = 8  # (device, stream) -> 1 when idle
    SYNCHRONIZE_STREAM = 9  # (device, stream)
    SYNCHRONIZE_DEVICE = 10  # (device)
    RECORD_EVENT = 11  # (device, stream, event or 0) -> event
    WAIT_EVENT = 12  # (device, stream, event)
    QUERY_EVENT = 13  # (event) -> 1 when complete
    SYNCHRONIZE_EVENT = 14  # (event)
    ELAPSED_NANOSECONDS = 15  # (event, event) -> nanoseconds
    PROFILED_NANOSECONDS = 16  # (event, event) -> nanoseconds, for the profiler's column
    START_TRACE = 17  # ()
    STOP_TRACE = 18  # ()


Answer = Callable[[int, int, int, int], int | None]


class Released(ctypes.Structure):
    """`struct Released` of the shim: an address, or an event, that nobody holds any more."""

    _fields_ = (("is_event", ctypes.c_int64), ("value", ctypes.c_int64))


class Shim:
    """The library, started: from now on PyTorch has the devices and `answers` serves them."""

    def __init__(self, answers: Mapping[Verb, Answer], devices: int) -> None:
        self._library = library = build.load()
        library.lab_fail.argtypes = [ctypes.c_char_p]
        library.lab_released.restype = ctypes.c_int64
        library.lab_current_stream.restype = ctypes.c_int64
        if hasattr(library, "lab_traced"):  # of PyTorch 2.13 on
            library.lab_correlation.restype = ctypes.c_int64
            library.lab_traced.argtypes = [ctypes.c_char_p, ctypes.c_char, *[ctypes.c_int64] * 5]
        self.current_stream: Callable[[int], int] = library.lab_current_stream
        self.current_device: Callable[[], int] = library.lab_current_device
        self.set_device: Callable[[int], None] = library.lab_set_device
        by_verb = [answers[verb] for verb in Verb]

        def serve(verb: int, a: int, b: int, c: int, d: int) -> int:
            try:
                return by_verb[verb](a, b, c, d) or 0
            except BaseException as error:
                library.lab_fail(_words(error).encode())
                return OUT_OF_MEMORY if isinstance(error, OutOfMemoryError) else FAILED

        self._serve = REQUEST(serve)  # must live as long as the process
        self._buffer = (Released * TAKEN_AT_ONCE)()
        library.lab_start(self._serve, devices)
        library.lab_profile()
        library.lab_trace()
        atexit.register(library.lab_end)

    def default_generator(self, index: int) -> Any:
        """The generator that a device draws from when it is given none."""
        return torch.ops.labkit_device.default_generator(index)

    def synchronize(self, index: int) -> None:
        """Everything queued on the device has run; a failure of it is raised as PyTorch's."""
        torch.accelerator.synchronize(index)

    def correlation(self) -> int:
        """The number that the profiler has for the operator this thread is in; 0 outside of all."""
        return int(self._library.lab_correlation())

    def traced(self, work: Traced) -> None:
        """The profiler, whose session ends, is told of this work."""
        self._library.lab_traced(
            work.name.encode(), work.kind, work.device, work.stream,
            work.began, work.ended, work.correlation,
        )  # fmt: skip

    def released(self) -> list[tuple[bool, int]]:
        """(is an event, its number or address) of what was given up since the last call."""
        found: list[tuple[bool, int]] = []
        while True:
            count = self._library.lab_released(self._buffer, TAKEN_AT_ONCE)
            found += [(bool(each.is_event), each.value) for each in self._buffer[:count]]
            if count < TAKEN_AT_ONCE:
                return found


def _words(error: BaseException) -> str:
    """What an exception says; its type where that is more than "it failed"."""
    text = str(error)
    return text if text and isinstance(error, RuntimeError) else f"{type(error).__name__}: {text}"
