"""What is behind "lab:0": a driver of labkit, and the caching allocator over its memory.

labkit's own storages on "cuda" come from the same allocator from now on, so what a kernel of
labkit returns can become a tensor of PyTorch's without a copy.
"""

import contextlib
import ctypes
import itertools
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from labkit import cuda
from labkit.core.allocator import DataPtr
from labkit.core.host_compiler import CompilerMissing
from labkit.cuda import tensor_memory
from labkit.cuda.driver import Driver
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.memory_calls import MemoryCalls
from labkit.cuda.select import current_driver
from labkit.cuda.stream import Event, Stream, current_stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.storages.storage_allocator import StorageAllocator
from labkit.torch_shim.native import Answer, Shim, Verb
from labkit.torch_shim.tracing import Tracing
from labkit.torch_shim.without_compiler import PythonShim

FIGURES = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
POOLS = ("all", "small_pool", "large_pool")
NUMBERS = ("current", "peak", "allocated", "freed")


class LabDevice:
    """One device: its driver, and the caching allocator that PyTorch's tensors come from."""

    def __init__(self, index: int, driver: Driver) -> None:
        self.index, self.driver = index, driver
        self.allocator = CachingAllocator(MemoryCalls(driver), device=index)
        self.storages = StorageAllocator(
            self.allocator, "cuda", lambda: current_stream(driver).handle
        )


class Devices:
    """All devices of the name, and the shim that asks for what they have.

    $LABKIT_DEVICES is how many there are, 1 by default: PyTorch's engine counts them once. The
    first is the device that serves labkit's own "cuda"; more than one needs the emulator.
    """

    def __init__(self) -> None:
        count = int(os.environ.get("LABKIT_DEVICES", "1"))
        first = current_driver()
        if not 1 <= count <= 8 or (count > 1 and first.name != "emulator"):
            raise ValueError(
                f"$LABKIT_DEVICES is 1 to 8, and 1 on a real GPU; it is {count} on the {first.name}"
            )
        others = [EmulatorDriver(why="one more, for lab") for _ in range(1, count)]
        self._all = [LabDevice(i, driver) for i, driver in enumerate([first, *others])]
        self._events: dict[int, tuple[Event, Driver]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self.shim = _shim(self._answers(), count)
        tensor_memory.install(self)

    def __getitem__(self, index: int) -> LabDevice:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    @contextlib.contextmanager
    def serving(self, index: int) -> Iterator[LabDevice]:
        """Inside, labkit's kernels run on this device, on the stream PyTorch has current there."""
        device = self._all[index]
        driver = device.driver
        stream = self.shim.current_stream(index)
        with self._lock, contextlib.ExitStack() as inside:
            if current_driver() is not driver:
                inside.enter_context(cuda.use(driver))
            if current_stream(driver).handle != stream:
                inside.enter_context(Stream.from_handle(stream, driver))
            yield device

    # Memory

    def allocate(self, nbytes: int) -> DataPtr:
        """Memory for a storage of labkit's, on the device that serves.

        Raises   OutOfMemoryError   nothing that is cached could be released to make room
        """
        self.take_back()
        driver = current_driver()
        for device in self._all:
            if device.driver is driver:
                return device.storages.allocate(nbytes)
        return tensor_memory.DriverAllocator().allocate(nbytes)

    def take_back(self) -> None:
        """What PyTorch has given up is free, in the order in which it gave it up."""
        with self._lock:
            for is_event, value in self.shim.released():
                if is_event:
                    self._events.pop(value, None)
                else:
                    self.owner_of(value).storages.free(value)

    def owner_of(self, address: int) -> LabDevice:
        """The device that a device address belongs to."""
        if len(self._all) == 1:
            return self._all[0]
        return next(each for each in self._all if each.driver.is_device_address(address))

    def _allocate(self, index: int, nbytes: int, stream: int, _: int) -> int:
        self.take_back()
        return self._all[index].storages.take(nbytes, stream)

    def _copy(self, index: int, to: int, source: int, nbytes: int) -> None:
        driver, stream = self._all[index].driver, self.shim.current_stream(index)
        tensor_memory.copy_now(driver, to, source, nbytes, stream)

    def _record_stream(self, index: int, address: int, stream: int, _: int) -> None:
        self.owner_of(address).storages.record_address(address, stream)

    def empty_cache(self, *_: int) -> None:
        """Everything that nothing uses is back with the devices."""
        self.take_back()
        for device in self._all:
            device.storages.empty_cache()

    def statistics(self, index: int) -> dict[str, int]:
        """The 123 figures of `torch.cuda.memory_stats`."""
        self.take_back()
        return self._all[index].allocator.memory_stats()

    def _statistics(self, index: int, into: int, *_: int) -> None:
        found = self.statistics(index)
        numbers = [
            found[f"{figure}.{pool}.{number}"]
            for figure in FIGURES
            for pool in POOLS
            for number in NUMBERS
        ]
        _write(into, [*numbers, found["num_alloc_retries"], found["num_ooms"]])

    def reset_statistics(self, index: int, peaks: int, *_: int) -> None:
        """The peaks, or what has been counted, start again."""
        stats = self._all[index].allocator.stats
        if peaks:
            stats.reset_peak()
        else:
            stats.reset_accumulated()

    def _memory_info(self, index: int, into: int, *_: int) -> None:
        _write(into, list(self._all[index].driver.memory_info()))

    # Streams and events

    def _new_stream(self, index: int, priority: int, *_: int) -> int:
        return Stream(min(priority, 0), driver=self._all[index].driver).handle

    def _query_stream(self, index: int, stream: int, *_: int) -> int:
        return self._all[index].driver.stream_query(stream)

    def _synchronize_stream(self, index: int, stream: int, *_: int) -> None:
        self._all[index].driver.stream_synchronize(stream)

    def synchronize(self, index: int, *_: int) -> None:
        """Everything queued on the device has run.

        Raises   KernelFailure   a kernel among it failed
        """
        self._all[index].driver.synchronize()

    def _record_event(self, index: int, stream: int, number: int, _: int) -> int:
        driver = self._all[index].driver
        if not number:
            number = next(self._numbers)
            self._events[number] = Event(driver=driver), driver
        event, owner = self._events[number]
        event.record(Stream.from_handle(stream, owner))
        return number

    def _wait_event(self, index: int, stream: int, number: int, _: int) -> None:
        event, owner = self._events[number]
        driver = self._all[index].driver
        if owner is driver:
            event.wait(Stream.from_handle(stream, driver))
        else:
            event.synchronize()  # another device's queue cannot be waited for from this one

    def _query_event(self, number: int, *_: int) -> int:
        return self._events[number][0].query()

    def _synchronize_event(self, number: int, *_: int) -> None:
        self._events[number][0].synchronize()

    def _elapsed(self, start: int, end: int, *_: int) -> int:
        return round(self._events[start][0].elapsed_time(self._events[end][0]) * 1e6)

    def _profiled(self, start: int, end: int, *_: int) -> int:
        """On the emulator, which has no seconds, each kernel and copy counts a microsecond."""
        (first, driver), (last, _owner) = self._events[start], self._events[end]
        if not isinstance(driver, EmulatorDriver):
            return self._elapsed(start, end)
        assert first.handle is not None and last.handle is not None  # they are recorded when made
        return 1000 * driver.work_between(first.handle, last.handle)

    def _start_trace(self, *_: int) -> None:
        assert isinstance(self.shim, Shim)  # the other has no tracer, which alone asks this
        self._tracing = Tracing([each.driver for each in self._all], self.shim.correlation)

    def _stop_trace(self, *_: int) -> None:
        assert isinstance(self.shim, Shim)
        for work in self._tracing.stopped():
            self.shim.traced(work)

    def _answers(self) -> dict[Verb, Answer]:
        return {
            Verb.ALLOCATE: self._allocate, Verb.COPY: self._copy,
            Verb.RECORD_STREAM: self._record_stream, Verb.EMPTY_CACHE: self.empty_cache,
            Verb.STATISTICS: self._statistics, Verb.RESET_STATISTICS: self.reset_statistics,
            Verb.MEMORY_INFO: self._memory_info, Verb.NEW_STREAM: self._new_stream,
            Verb.QUERY_STREAM: self._query_stream,
            Verb.SYNCHRONIZE_STREAM: self._synchronize_stream,
            Verb.SYNCHRONIZE_DEVICE: self.synchronize, Verb.RECORD_EVENT: self._record_event,
            Verb.WAIT_EVENT: self._wait_event, Verb.QUERY_EVENT: self._query_event,
            Verb.SYNCHRONIZE_EVENT: self._synchronize_event,
            Verb.ELAPSED_NANOSECONDS: self._elapsed, Verb.PROFILED_NANOSECONDS: self._profiled,
            Verb.START_TRACE: self._start_trace, Verb.STOP_TRACE: self._stop_trace,
        }  # fmt: skip


_begun: list[Shim | PythonShim] = []


def _shim(answers: dict[Verb, Answer], count: int) -> Shim | PythonShim:
    """The shim; where no C++ compiler is found, what Python can be of it, and a warning.

    Raises   RuntimeError   there is one already: PyTorch ends the process at a second
    """
    if _begun:
        raise RuntimeError(
            "this process has begun a device for PyTorch already, even if that ended in an error, "
            "and PyTorch takes only one: restart the kernel, and begin it before the first backward"
        )
    try:
        shim = Shim(answers, count)
        _begun.append(shim)
        return shim
    except CompilerMissing as missing:
        if count > 1:
            raise
        warnings.warn(
            "no C++ compiler is found, so the host computes every operator of the device, and "
            f"there are no streams, events or pinned memory on it. {missing}",
            stacklevel=2,
        )
        _begun.append(made := PythonShim(answers))
        return made


def _write(address: int, numbers: list[Any]) -> None:
    (ctypes.c_int64 * len(numbers)).from_address(address)[:] = numbers
