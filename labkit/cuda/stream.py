"""Streams as PyTorch has them: values that name pooled queues, and a current one per thread; and
events, the marks in them that other streams and the host can wait for.

A `Stream` owns nothing. Asking for a 33rd gives the first queue again.

Source   c10/cuda/CUDAStream.h, c10/cuda/CUDAStream.cpp  getStreamFromPool
         torch/cuda/streams.py  Event; aten/src/ATen/cuda/CUDAEvent.h
"""

import threading
from typing import Any, Self
from weakref import WeakKeyDictionary

from labkit.cuda.driver import Driver
from labkit.cuda.errors import CudaError, InvalidValueError
from labkit.cuda.select import current_driver

STREAMS_PER_POOL = 32
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, -3


class _Pools:
    """The queues of one driver: made on first use, handed out round robin."""

    def __init__(self) -> None:
        self.handles: dict[tuple[int, int], int] = {}
        self.counters: dict[int, int] = {}
        self.ids: dict[int, int] = {0: 0}
        self.lock = threading.Lock()

    def take(self, driver: Driver, priority: int) -> tuple[int, int]:
        """(handle, stream id) of the next queue of this priority."""
        with self.lock:
            index = self.counters.get(priority, 0) % STREAMS_PER_POOL
            self.counters[priority] = index + 1
            if (priority, index) not in self.handles:
                handle = driver.stream_create(non_blocking=True, priority=priority)
                self.handles[priority, index] = handle
                # bit 0: a native stream, bits 1 to 4: its pool, above: its place in the pool
                self.ids[handle] = index << 5 | (1 - priority) << 1 | 1
            handle = self.handles[priority, index]
            return handle, self.ids[handle]


_pools_by_driver: WeakKeyDictionary[Driver, _Pools] = WeakKeyDictionary()
_thread = threading.local()


def _pools(driver: Driver) -> _Pools:
    known = _pools_by_driver.get(driver)
    if known is None:
        known = _pools_by_driver[driver] = _Pools()
    return known


def stream_id(handle: int, driver: Driver | None = None) -> int:
    """PyTorch's number for a queue; the handle itself for one that is not from a pool."""
    return _pools(driver or current_driver()).ids.get(handle, handle)


class Event:
    """A mark; created on first record, complete until then.

    Differs  on the emulator `elapsed_time` counts steps of the device, not milliseconds.
    """

    def __init__(self, *, driver: Driver | None = None) -> None:
        self.driver = driver or current_driver()
        self.handle: int | None = None
        """The driver's, None before the first record."""

    def record(self, stream: "Stream | None" = None) -> None:
        """The mark is behind everything queued on the stream (the current one by default)."""
        if self.handle is None:
            self.handle = self.driver.event_create()
        self.driver.event_record(self.handle, handle_of(stream, self.driver))

    def wait(self, stream: "Stream | None" = None) -> None:
        """What is queued on the stream from now on runs after the mark."""
        if self.handle is not None:
            self.driver.stream_wait_event(handle_of(stream, self.driver), self.handle)

    def query(self) -> bool:
        """True when everything before the mark has run."""
        return self.handle is None or self.driver.event_query(self.handle)

    def synchronize(self) -> None:
        """Everything before the mark has run."""
        if self.handle is not None:
            self.driver.event_synchronize(self.handle)

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this mark to `end` on a GPU; steps on the emulator.

        Raises   CudaError   one of the two was not recorded, or is not complete
        """
        if self.handle is None or end.handle is None:
            raise CudaError("both events must be recorded", "cudaErrorInvalidResourceHandle")
        return self.driver.event_elapsed_ms(self.handle, end.handle)

    def __del__(self) -> None:
        handle: int | None = getattr(self, "handle", None)
        if handle is not None:
            try:
                self.driver.event_destroy(handle)
            except Exception:  # the device was reset, or the interpreter is going down
                return

    def __repr__(self) -> str:
        return f"Event({'never recorded' if self.handle is None else self.handle})"


class Stream:
    """A name for a queue of work.

    priority  0, or down to -3 for more urgent work; below that is -3

    As a context manager it is the current stream inside.

    Source   torch/cuda/streams.py  Stream
    """

    def __init__(self, priority: int = 0, *, driver: Driver | None = None) -> None:
        if priority > LOWEST_PRIORITY:
            raise InvalidValueError(f"a stream's priority is 0 or negative, not {priority}")
        self.driver = driver or current_driver()
        self.priority = max(priority, HIGHEST_PRIORITY)
        self.handle, self.stream_id = _pools(self.driver).take(self.driver, self.priority)
        self._outer: list[Stream] = []

    @classmethod
    def from_handle(cls, handle: int, driver: Driver) -> Self:
        """The stream whose queue has this handle; 0 is the default stream."""
        stream = cls.__new__(cls)
        number = _pools(driver).ids.get(handle)
        stream.driver, stream.handle, stream._outer = driver, handle, []
        stream.stream_id = handle if number is None else number
        stream.priority = 1 - (number >> 1 & 15) if number else 0
        return stream

    def synchronize(self) -> None:
        """Everything queued here has run."""
        self.driver.stream_synchronize(self.handle)

    def query(self) -> bool:
        """True when nothing is left to do."""
        return self.driver.stream_query(self.handle)

    def wait_event(self, event: Event) -> None:
        """What is queued here from now on runs after the event; the host does not wait."""
        event.wait(self)

    def wait_stream(self, other: "Stream") -> None:
        """What is queued here from now on runs after what is queued there now."""
        self.wait_event(other.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind everything queued here."""
        event = event or Event(driver=self.driver)
        event.record(self)
        return event

    def __enter__(self) -> Self:
        self._outer.append(current_stream(self.driver))
        set_stream(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        set_stream(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return other.driver is self.driver and other.handle == self.handle

    def __hash__(self) -> int:
        return hash((id(self.driver), self.handle))

    def __repr__(self) -> str:
        return f"Stream(id={self.stream_id}, priority={self.priority})"


def _currents() -> WeakKeyDictionary[Driver, int]:
    """The handle of the thread's current stream on each driver where one was set.

    A `Stream` would hold its driver, and with it all its memory, for as long as the thread lives.
    """
    if not hasattr(_thread, "current"):
        _thread.current = WeakKeyDictionary()
    currents: WeakKeyDictionary[Driver, int] = _thread.current
    return currents


def default_stream(driver: Driver | None = None) -> Stream:
    """The stream that work goes to when nobody names one."""
    return Stream.from_handle(0, driver or current_driver())


def current_stream(driver: Driver | None = None) -> Stream:
    """The stream this thread queues work on."""
    driver = driver or current_driver()
    return Stream.from_handle(_currents().get(driver, 0), driver)


def set_stream(stream: Stream) -> None:
    """`stream` is this thread's current stream."""
    _currents()[stream.driver] = stream.handle


def handle_of(stream: Any, driver: Driver) -> int:
    """The driver's handle of a stream; None means the current one."""
    if stream is None:
        return _currents().get(driver, 0)
    if isinstance(stream, Stream):
        if stream.driver is not driver:
            raise InvalidValueError("the stream belongs to another device")
        return stream.handle
    if isinstance(stream, int):
        return stream
    raise InvalidValueError(f"a stream is a labkit.cuda.Stream, a handle or None, not {stream!r}")
