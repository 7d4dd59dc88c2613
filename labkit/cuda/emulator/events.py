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

    def recorded_as(self, event: int) -> Work:
        """The mark it was recorded as.

        Raises   CudaError   it was not recorded
        """
        self.check(event)
        work = self[event]
        if work is None:
            raise CudaError(f"event {event} was not recorded", "cudaErrorInvalidResourceHandle")
        return work

    def completed_as(self, event: int) -> int:
        """How many pieces of work the device had done before it.

        Raises   CudaError   it was not recorded, or has not completed
        """
        done_as = self.recorded_as(event).done_as
        if done_as is None:
            raise CudaError(f"event {event} has not completed", "cudaErrorNotReady")
        return done_as
