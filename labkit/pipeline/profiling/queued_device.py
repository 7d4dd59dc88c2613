"""A host and a device on a simulated clock, with the calls that a program makes."""

from labkit.cuda.simulated_run import SimulatedRun


class Event:
    """A mark in the queue of a `QueuedDevice`: when the device came to it.

    Source   torch/cuda/streams.py  Event
    """

    def __init__(self, device: "QueuedDevice") -> None:
        self._device = device
        self._at = max(device.run.until("device"), device.now())

    def query(self) -> bool:
        """Whether the device has come to it by now."""
        return self._at <= self._device.now()

    def elapsed_time(self, end: "Event") -> float:
        """The device's µs from this mark to that one.

        Raises   RuntimeError   the device has not come to both
        """
        if not (self.query() and end.query()):
            raise RuntimeError("the device has not come to this event yet: synchronize first")
        return end._at - self._at


class QueuedDevice:
    """A host, and a device that works off a queue in order; one clock in µs.

    queueing  µs of the host that it takes to put one piece of work into the queue
    """

    def __init__(self, queueing: float = 20) -> None:
        self.run, self.queueing = SimulatedRun(), queueing

    def now(self) -> float:
        """The host's clock."""
        return self.run.until("host")

    def host(self, name: str, us: float) -> None:
        """The host works."""
        self.run.do("host", name, us, "host")

    def launch(self, name: str, us: float, kind: str = "kernel") -> None:
        """Work for the device is in its queue; the host goes on."""
        queued = self.run.do("host", f"queue {name}", self.queueing, "host")
        self.run.do("device", name, us, kind, [queued])

    def copy(self, name: str, us: float) -> None:
        """A copy is in the queue; the host goes on."""
        self.launch(name, us, "copy")

    def synchronize(self) -> None:
        """The host waits until the queue is empty."""
        self.run.wait("host", self.run.last("device"))

    def event(self) -> Event:
        """A mark behind all that is in the queue now."""
        return Event(self)
