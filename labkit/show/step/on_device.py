"""What a step asks of the device: memory of the caching allocator, work of the streams."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from labkit.cuda import tensor_memory
from labkit.cuda.operation import Operation
from labkit.cuda.select import chosen_driver
from labkit.cuda.stream import current_stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.history import Action, Frames, History, MempoolId
from labkit.memory.storages import cuda_storages
from labkit.show.launches import addresses
from labkit.show.step.record import Launch, Recording

BORROWED = "For this step labkit's caching allocator served the device's memory."
ONE_OF = "Streams and memory are those of lab:{}, one of {} devices."


class DeviceWatch:
    """Inside `watching`, the recording hears of the allocator's entries and the streams' work.

    Of several devices it is the one that is current at the beginning.

    driver     the device; None where nothing has asked for one yet, and there is nothing to watch
    allocator  the caching allocator that serves it
    outside    address -> bytes of what the driver itself had handed out before
    remarks    what a reader of the record has to know
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.remarks: list[str] = []
        self._devices = getattr(getattr(sys.modules.get("torch"), "lab", None), "_devices", None)
        self.driver: Any = chosen_driver()
        if self._devices is not None:
            self._index = self._devices.shim.current_device()
            self.driver = self._devices[self._index].driver
            if len(self._devices) > 1:
                self.remarks.append(ONE_OF.format(self._index, len(self._devices)))
        self.outside: dict[int, int] = {}
        self._quiet = threading.local()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What is asked of the device inside becomes events."""
        if self.driver is None:
            yield
            return
        with ExitStack() as stack:
            self.allocator = self._serving_allocator(stack)
            if self._devices is not None:
                self.recording.settle = self._devices.take_back
            self.recording.settle()
            kept = self.allocator.reserved.segments
            allocations = getattr(getattr(self.driver, "arena", None), "allocations", {})
            self.outside = {at: size for at, size in allocations.items() if at not in kept}
            stack.enter_context(self._hearing_the_allocator())
            for name, watched in self._watched().items():
                setattr(self.driver, name, watched)  # the class's own is there again afterwards
                stack.callback(delattr, self.driver, name)
            yield

    def snapshot(self) -> dict[str, Any]:
        """The memory when everything queued has run, as PyTorch's snapshots have it."""
        if self.driver is None:
            return {"segments": [], "device_traces": [[]]}
        self.driver.synchronize()  # what is still queued runs, and is seen to
        outside = [_segment(at, size) for at, size in self.outside.items()]
        return {
            "segments": [*self.allocator.memory_map(), *outside],
            "device_traces": [self.recording.trace],
            "allocator_settings": self.allocator.settings.snapshot(),
        }

    def read_later(self, address: int, nbytes: int) -> np.ndarray[Any, Any] | None:
        """Bytes that are there once the device has come to this place of the current stream.

        The copy is queued behind the work that makes them: nothing waits for it. None where the
        address is not this device's.
        """
        if self.driver is None or not self.driver.is_device_address(address):
            return None
        stream = current_stream(self.driver).handle
        if self._devices is not None:
            stream = self._devices.shim.current_stream(self._index)
        host = np.zeros(nbytes, np.uint8)
        options = {"keep": host} if self.driver.name == "emulator" else {}
        self._quiet.now = True
        try:
            self.driver.memcpy_async(host.ctypes.data, address, nbytes, stream, **options)
        finally:
            self._quiet.now = False
        return host

    def _serving_allocator(self, stack: ExitStack) -> CachingAllocator:
        """The caching allocator of the device; one is lent where the driver serves by itself."""
        storages: Any = tensor_memory.serving()
        if self._devices is not None:
            storages = self._devices[self._index]
        elif not hasattr(storages, "allocator"):
            storages = stack.enter_context(_borrowed())
            self.remarks.append(BORROWED)
        allocator: CachingAllocator = storages.allocator
        return allocator

    @contextmanager
    def _hearing_the_allocator(self) -> Iterator[None]:
        before = self.allocator.history
        heard = self.allocator.recorder.history = _HeardHistory(self.recording, before)
        try:
            yield
        finally:
            if self.allocator.history is heard:
                self.allocator.recorder.history = before

    def _watched(self) -> dict[str, Callable[..., Any]]:
        """The driver's doors for work, each telling of what goes through it."""
        free = self.driver.free

        def freed(address: int) -> None:
            size = self.outside.get(address)
            if size is not None:
                del self.outside[address]
                for action in ("free_requested", "free_completed", "segment_free"):
                    self.recording.trace.append(_entry(action, address, size))
                self.recording.tick("free", f"{size:,} bytes go back to the device")
            free(address)

        if self.driver.name == "emulator":
            return {"submit": self._submit(), "free": freed}
        return {"launch": self._launch(), "free": freed}

    def _submit(self) -> Callable[..., None]:
        submit = self.driver.submit

        def submitted(stream: int, operation: Operation) -> None:
            submit(stream, operation)
            if getattr(self._quiet, "now", False):
                return
            launch = self._queued(stream, operation)
            work = self.driver.queue.last(stream)
            if work is not None and work.run is not None:
                work.run = self._noting(work.run, launch)

        return submitted

    def _launch(self) -> Callable[..., None]:
        """A GPU says what it is given, not when it has done it."""
        launch = self.driver.launch

        def launched(operation: Operation, stream: int) -> None:
            launch(operation, stream)
            self._queued(stream, operation)

        return launched

    def _queued(self, stream: int, operation: Operation) -> Launch:
        touched = addresses(operation)
        reads, writes = ([at for way, at in touched if way == one] for one in ("reads", "writes"))
        launch = Launch(
            operation.name, operation.kind, stream, operation.grid, operation.block, reads, writes
        )
        recording = self.recording
        launch.call = recording.call
        recording.launches.append(launch)
        text = f"{launch.name} is queued on stream {stream}"
        launch.queued = recording.tick("kernel queued", text, kernel=len(recording.launches) - 1)
        return launch

    def _noting(self, run: Callable[[], None], launch: Launch) -> Callable[[], None]:
        number = len(self.recording.launches) - 1

        def noted() -> None:
            run()
            text = f"{launch.name} has run on stream {launch.stream}"
            launch.ran = self.recording.tick("kernel runs", text, kernel=number)

        return noted


class _HeardHistory(History):
    """A history whose entries the recording gets, and the history that was there before."""

    def __init__(self, recording: Recording, before: History | None) -> None:
        super().__init__(context=None if before is None else before.context, max_entries=0)
        self._recording, self._before = recording, before

    def record(
        self, action: Action, address: int, size: int, stream: int, pool: MempoolId,
        frames: Frames | None = None,
    ) -> None:  # fmt: skip
        """One more entry, and an event of the step unless nothing can be seen of it."""
        if self._before is not None:
            self._before.record(action, address, size, stream, pool, frames)
        if action == "snapshot":
            return
        trace = self._recording.trace
        trace.append(_entry(action, address, size, stream, pool))
        kind, text = _SAID.get(action, ("", ""))
        if kind:
            self._recording.tick(kind, text.format(size))


_SAID: dict[str, tuple[Any, str]] = {
    "alloc": ("allocation", "{:,} bytes are asked for: a block is handed out"),
    "free_completed": ("free", "a block of {:,} bytes is free again"),
    "segment_alloc": ("segment", "a segment of {:,} bytes comes from the device"),
    "segment_free": ("segment", "a segment of {:,} bytes goes back to the device"),
    "segment_map": ("segment", "{:,} bytes more are mapped into a segment"),
    "segment_unmap": ("segment", "{:,} bytes of a segment are unmapped"),
    "oom": ("out of memory", "{:,} bytes are asked for, and there is no room"),
}


def _entry(
    action: str, address: int, size: int, stream: int = 0, pool: MempoolId = (0, 0)
) -> dict[str, Any]:
    where = "device_free" if action == "oom" else "addr"
    return {"action": action, where: address, "size": size, "stream": stream, "time_us": 0,
            "pool_id": pool}  # fmt: skip


def _segment(address: int, size: int) -> dict[str, Any]:
    """Memory that no caching allocator has, as a snapshot says it."""
    rounded = -(-size // 512) * 512
    block = {"address": address, "size": rounded, "requested_size": size,
             "state": "active_allocated", "frames": []}  # fmt: skip
    return {
        "device": 0, "address": address, "total_size": rounded, "allocated_size": rounded,
        "active_size": rounded, "requested_size": size, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block],
    }  # fmt: skip


@contextmanager
def _borrowed() -> Iterator[cuda_storages.CudaStorages]:
    """A caching allocator serves labkit's device memory, which the driver served before."""
    tensor_memory.install(_LENT)
    try:
        yield _LENT
    finally:
        tensor_memory.install()


_LENT = cuda_storages.CudaStorages()
"""The same for every step: what one leaves behind is memory of the next."""
