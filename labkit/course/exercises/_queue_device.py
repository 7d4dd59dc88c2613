"""A device with a queue and a clock of its own, and one that writes down who did what when."""

from collections.abc import Callable
from typing import Any


class QueueDevice:
    """A device with a queue and a clock of its own: no second of it takes a second.

    The host puts work into the queue and goes on; the device works it off in order. Nothing but
    `now`, `synchronize`, `read_back` and `sleep` is there for a timer to use.
    """

    def __init__(
        self,
        launch: float = 5.0,
        work: float = 60.0,
        start_up: float = 900_000.0,
        earlier: float = 0.0,
        copy: float = 4_000.0,
    ) -> None:
        self.__parts = launch, work, copy
        self.__start_up = start_up
        self.__host = 0.0
        self.__busy_until = earlier

    def now(self) -> float:
        """Microseconds on the host's clock."""
        return self.__host

    def synchronize(self) -> None:
        """Return when the queue is empty."""
        self.__host = max(self.__host, self.__busy_until)

    def read_back(self) -> None:
        """Copy one element to the host, behind everything queued, and wait for it."""
        self.synchronize()
        self.__host += self.__parts[2]

    def sleep(self, microseconds: float) -> None:
        """The host does nothing for a while; the device goes on."""
        self.__host += max(0.0, microseconds)

    def launch(self) -> None:
        """What the function to be timed does: queue one piece of work and return."""
        launch, work, _ = self.__parts
        self.__host += launch + self.__start_up
        self.__start_up = 0.0
        self.__busy_until = max(self.__busy_until, self.__host) + work


class WatchedDevice(QueueDevice):
    """A `QueueDevice` that can be drawn: what host and device did, and when the clock was read."""

    def __init__(
        self, launch: float = 5.0, work: float = 60.0, start_up: float = 900_000.0
    ) -> None:
        super().__init__(launch, work, start_up)
        self._spans: list[dict[str, Any]] = []
        self._read: list[float] = []
        self._work, self._free_at = work, 0.0

    def now(self) -> float:
        """Microseconds on the host's clock; the picture marks the interval between two readings."""
        self._read.append(super().now())
        return self._read[-1]

    def launch(self) -> None:
        """Queue one piece of work and return."""
        name = "abcdefghijklmnopqrstuvwxyz"[sum(s["lane"] == "device" for s in self._spans) % 26]
        self._host(f"launch {name}", super().launch)
        start = max(self._free_at, super().now())
        self._free_at = start + self._work
        self._spans.append({"lane": "device", "name": name, "start": start, "end": self._free_at})

    def synchronize(self) -> None:
        """Return when the queue is empty."""
        self._host("synchronize", super().synchronize)

    def finished(self) -> int:
        """How many pieces of work are done by now."""
        ends = [span["end"] for span in self._spans if span["lane"] == "device"]
        return sum(end <= super(WatchedDevice, self).now() for end in ends)

    def picture(self) -> Any:
        """Host, device and the clock, from the first launch on."""
        from labkit import show  # drawing is for whoever looks

        spans = list(self._spans)
        if len(self._read) > 1:
            begin, end = self._read[-2:]
            name = f"the clock says {end - begin:g}"
            spans.append({"lane": "clock", "name": name, "start": begin, "end": end})
        return show.timeline(spans, unit="us")

    def _host(self, name: str, do: Callable[[], None]) -> None:
        begin = super().now()
        do()
        self._spans.append({"lane": "host", "name": name, "start": begin, "end": super().now()})
