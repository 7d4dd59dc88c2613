"""Events: marks in a stream that other streams and the host can wait for.

Source   torch/cuda/streams.py  Event; aten/src/ATen/cuda/CUDAEvent.h
"""

from typing import TYPE_CHECKING, Any

from labkit.cuda.driver import Driver
from labkit.cuda.errors import CudaError
from labkit.cuda.select import current_driver

if TYPE_CHECKING:
    from labkit.cuda.stream import Stream


class Event:
    """A mark; created on first record, complete until then.

    Differs  on the emulator `elapsed_time` counts steps of the device, not milliseconds.
    """

    def __init__(self, *, driver: Driver | None = None) -> None:
        self.driver = driver or current_driver()
        self._handle: int | None = None

    @property
    def handle(self) -> int | None:
        """The driver's handle, None before the first record."""
        return self._handle

    def record(self, stream: "Stream | None" = None) -> None:
        """The mark is behind everything queued on the stream (the current one by default)."""
        if self._handle is None:
            self._handle = self.driver.event_create()
        self.driver.event_record(self._handle, _handle_of(stream, self.driver))

    def wait(self, stream: "Stream | None" = None) -> None:
        """What is queued on the stream from now on runs after the mark."""
        if self._handle is not None:
            self.driver.stream_wait_event(_handle_of(stream, self.driver), self._handle)

    def query(self) -> bool:
        """True when everything before the mark has run."""
        return self._handle is None or self.driver.event_query(self._handle)

    def synchronize(self) -> None:
        """Everything before the mark has run."""
        if self._handle is not None:
            self.driver.event_synchronize(self._handle)

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this mark to `end` on a GPU; steps on the emulator.

        Raises   CudaError   one of the two was not recorded, or is not complete
        """
        if self._handle is None or end._handle is None:
            raise CudaError("both events must be recorded", "cudaErrorInvalidResourceHandle")
        return self.driver.event_elapsed_ms(self._handle, end._handle)

    def __del__(self) -> None:
        handle: int | None = getattr(self, "_handle", None)
        if handle is not None:
            try:
                self.driver.event_destroy(handle)
            except Exception:  # the device was reset, or the interpreter is going down
                return

    def __repr__(self) -> str:
        return f"Event({'never recorded' if self._handle is None else self._handle})"


def _handle_of(stream: Any, driver: Driver) -> int:
    from labkit.cuda.stream import handle_of  # stream.py needs Event to record one

    return handle_of(stream, driver)
