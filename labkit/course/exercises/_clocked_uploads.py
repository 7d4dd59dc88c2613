"""Uploads on a device with a clock: what arrived, when, and which pairs of work nothing orders."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit import cuda
from labkit.cuda.emulator.clocked import FROM_HOST, ClockedQueue
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.happens_before import races

ON_DEVICE = "memcpy device to device"


class NotingDriver(EmulatorDriver):
    """An emulated device with a clock that writes down who waits for what."""

    def __init__(self) -> None:
        self.clock = ClockedQueue({})
        super().__init__(capacity=1 << 26, why="to have a clock", queue=self.clock)
        self.program: list[tuple[Any, ...]] = []

    def event_record(self, event: int, stream: int) -> None:
        """Noted."""
        self.program.append(("record", stream, event))
        super().event_record(event, stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Noted."""
        self.program.append(("wait", stream, event))
        super().stream_wait_event(stream, event)

    def event_synchronize(self, event: int) -> None:
        """Noted."""
        super().event_synchronize(event)
        self.program.append(("host wait", event))

    def event_query(self, event: int) -> bool:
        """Noted when the answer is yes: the host then knows."""
        complete = super().event_query(event)
        if complete:
            self.program.append(("host wait", event))
        return complete

    def stream_synchronize(self, stream: int) -> None:
        """Noted."""
        super().stream_synchronize(stream)
        self.program.append(("synchronize", stream))

    def synchronize(self) -> None:
        """Noted."""
        super().synchronize()
        self.program.append(("synchronize", None))


class Uploads:
    """Frames on their way: staging buffers on the host, buffers on the device, and two streams.

    fill(slot, number)          the host writes frame `number` into a staging buffer
    copy(slot, buffer)          queued on `copying`: staging buffer to buffer of the device
    use(buffer)                 queued on `working`: the network reads the buffer

    staging, buffers  how many there are
    fill_us, copy_us, use_us  how long the three take
    """

    driver: NotingDriver | None = None

    def __init__(
        self,
        frames: Sequence[np.ndarray[Any, Any]],
        staging: int,
        buffers: int,
        fill_us: float,
        copy_us: float,
        use_us: float,
    ) -> None:
        if Uploads.driver is None:
            Uploads.driver = NotingDriver()
        self._driver, self._clock = Uploads.driver, Uploads.driver.clock
        EmulatorDriver.synchronize(self._driver)
        self._clock.restart()
        self._clock.takes = {FROM_HOST: copy_us, ON_DEVICE: use_us}
        self._driver.program.clear()
        self._frames, self._fill_us = frames, fill_us
        self._staging = [np.zeros_like(frames[0]) for _ in range(staging)] if len(frames) else []
        size = frames[0].nbytes if len(frames) else 8
        self._buffers = [self._driver.malloc(size) for _ in range(buffers)]
        self._size, self._results = size, list[int]()
        self.staging, self.buffers = staging, buffers
        self.copying, self.working = (cuda.Stream(driver=self._driver) for _ in range(2))

    def event(self) -> cuda.Event:
        """A new event."""
        return cuda.Event(driver=self._driver)

    def fill(self, slot: int, number: int) -> None:
        """The host has written the frame into the staging buffer."""
        self._driver.program.append(("host", (), (f"staging {slot}",)))
        self._one(slot, self.staging, "staging buffer")
        self._staging[slot][...] = self._frames[self._one(number, len(self._frames), "frame")]
        self._clock.host(self._fill_us, f"fill {number}")

    def copy(self, slot: int, buffer: int) -> None:
        """The copy is queued on the stream `copying`."""
        self._one(slot, self.staging, "staging buffer")
        self._one(buffer, self.buffers, "buffer")
        where = self.copying.handle
        self._driver.program.append(("run", where, (f"staging {slot}",), (f"buffer {buffer}",)))
        self._driver.memcpy_async(
            self._buffers[buffer], self._staging[slot].ctypes.data, self._size, where
        )

    def use(self, buffer: int) -> None:
        """The network's work is queued on the stream `working`."""
        self._one(buffer, self.buffers, "buffer")
        where = self.working.handle
        self._driver.program.append(("run", where, (f"buffer {buffer}",), ()))
        self._results.append(self._driver.malloc(self._size))
        self._driver.memcpy_async(self._results[-1], self._buffers[buffer], self._size, where)

    @staticmethod
    def _one(number: Any, count: int, what: str) -> int:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
            raise ValueError(f"{what} {number!r}: there are {count}, numbered from 0")
        return number

    def finished(self) -> list[np.ndarray[Any, Any]]:
        """Everything has run: what the network read, in order; the device's memory is free."""
        EmulatorDriver.synchronize(self._driver)
        found = []
        for address in self._results:
            data = self._driver.peek(address, self._size)
            found.append(np.frombuffer(data, self._frames[0].dtype).reshape(self._frames[0].shape))
        for address in (*self._results, *self._buffers):
            self._driver.free(address)
        return found

    def microseconds(self) -> float:
        """The host's clock."""
        return self._clock.now

    def races(self) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Pairs of steps that touch one buffer in no order."""
        program = self._driver.program
        return [(program[one], program[other]) for one, other in races(program)]

    def spans(self) -> list[dict[str, Any]]:
        """Rows for `show.timeline`: host, copies and network."""
        lanes = {"host": "host", "copies": "copies", "work": "network"}
        counts = dict.fromkeys(lanes, 0)
        rows = []
        for lane in lanes:
            for span in self._clock.spans:
                if span["lane"] == lane:
                    name = {"copies": f"copy {counts[lane]}", "work": f"use {counts[lane]}"}
                    counts[lane] += 1
                    rows.append({"lane": lanes[lane], "name": name.get(lane, span["name"]),
                                 "start": span["start"], "end": span["end"]})  # fmt: skip
        return rows


def run(
    answer: Callable[[int, Uploads], Any], frames: Sequence[np.ndarray[Any, Any]], *times: Any
) -> tuple[Uploads, list[np.ndarray[Any, Any]]]:
    """(the uploads, what the network read): the answer on a fresh clock.

    times  staging, buffers, fill_us, copy_us, use_us
    """
    uploads = Uploads(frames, *times)
    try:
        answer(len(frames), uploads)
    finally:
        read = uploads.finished()
    return uploads, read
