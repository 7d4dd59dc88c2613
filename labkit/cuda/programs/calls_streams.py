"""Streams and events, as a program asks for them."""

from labkit.cuda.errors import CudaError
from labkit.cuda.operation import Operation
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question

_NON_BLOCKING = 1
_LEAST, _GREATEST = 0, -5


class StreamCalls:
    """The runtime's stream and event functions."""

    def __init__(self, session: Session) -> None:
        self._session, self._driver = session, session.driver
        self._created_as: dict[int, tuple[int, int]] = {}
        """Stream -> (flags, priority)."""

    def cudaStreamCreate(self, question: Question) -> Answer:
        flags, priority = question.numbers[:2]
        stream = self._driver.stream_create(non_blocking=bool(flags & _NON_BLOCKING))
        self._created_as[stream] = flags, min(_LEAST, max(_GREATEST, priority))
        return Answer((self._session.stream_handle(stream),))

    cudaStreamCreateWithFlags = cudaStreamCreateWithPriority = cudaStreamCreate

    def _stream(self, question: Question, position: int = 0) -> int:
        return self._session.stream(question.numbers[position])

    def cudaStreamGetFlags(self, question: Question) -> Answer:
        return Answer(self._created_as.get(self._stream(question), (0, 0))[:1])

    def cudaStreamGetPriority(self, question: Question) -> Answer:
        return Answer(self._created_as.get(self._stream(question), (0, 0))[1:])

    def cudaStreamDestroy(self, question: Question) -> Answer:
        self._driver.stream_destroy(self._stream(question))
        return Answer()

    def cudaStreamSynchronize(self, question: Question) -> Answer:
        self._driver.stream_synchronize(self._stream(question))
        return Answer()

    def cudaStreamQuery(self, question: Question) -> Answer:
        if not self._driver.stream_query(self._stream(question)):
            raise CudaError("the stream has work left", "cudaErrorNotReady")
        return Answer()

    def cudaStreamWaitEvent(self, question: Question) -> Answer:
        self._driver.stream_wait_event(self._stream(question), question.numbers[1])
        return Answer()

    def cudaLaunchHostFunc(self, question: Question) -> Answer:
        handle, function, argument, is_callback = question.numbers[:4]
        stream = handle if is_callback else None

        def call() -> None:
            self._session.call_host(function, argument, stream)

        self._driver.submit(self._stream(question), Operation("host", "host function", call=call))
        return Answer()

    def cudaEventCreate(self, question: Question) -> Answer:
        return Answer((self._driver.event_create(),))

    cudaEventCreateWithFlags = cudaEventCreate

    def cudaEventDestroy(self, question: Question) -> Answer:
        self._driver.event_destroy(question.numbers[0])
        return Answer()

    def cudaEventRecord(self, question: Question) -> Answer:
        self._driver.event_record(question.numbers[0], self._stream(question, 1))
        return Answer()

    def cudaEventSynchronize(self, question: Question) -> Answer:
        self._driver.event_synchronize(question.numbers[0])
        return Answer()

    def cudaEventQuery(self, question: Question) -> Answer:
        if not self._driver.event_query(question.numbers[0]):
            raise CudaError("the event has not completed", "cudaErrorNotReady")
        return Answer()

    def cudaEventElapsedTime(self, question: Question) -> Answer:
        start, end = question.numbers[:2]
        return Answer((int(self._driver.event_elapsed_ms(start, end)),))
