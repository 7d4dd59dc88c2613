"""The events of an emulated device, and what each of them completes with."""

from labkit.cuda.emulator.queue import Work
from labkit.cuda.errors import CudaError, InvalidValueError


class Events(dict[int, Work | None]):
    """Event -> the work it was recorded as; None before, when it counts as complete."""

    def check(self, event: int) -> None:
        """Pass for an event that exists.

        Raises   InvalidValueError   it does not
        """
        if event not in self:
            raise InvalidValueError(f"there is no event {event}", "cudaErrorInvalidResourceHandle")

    def remove(self, event: int) -> None:
        """The event is gone."""
        self.check(event)
        del self[event]

    def is_complete(self, event: int) -> bool:
        """Whether everything before it has run."""
        self.check(event)
        work = self[event]
        return work is None or work.done_as is not None

    def completed_as(self, event: int) -> int:
        """How many pieces of work the device had done before it.

        Raises   CudaError   it was not recorded, or has not completed
        """
        self.check(event)
        work = self[event]
        if work is None or work.done_as is None:
            code = "cudaErrorInvalidResourceHandle" if work is None else "cudaErrorNotReady"
            raise CudaError(f"event {event} has not completed", code)
        return work.done_as
