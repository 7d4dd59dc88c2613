"""Arrays, and what texture and surface objects say about them, as a program asks for them."""

from labkit.cuda.errors import InvalidValueError
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question


class ImageCalls:
    """The runtime's arrays and objects: memory of the device, both of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._objects: set[int] = set()

    def cudaMallocArray(self, question: Question) -> Answer:
        address = self._session.driver.arena.malloc(question.numbers[0])
        self._session.allocated_at[address] = (question.name, question.site)
        return Answer((address,))

    def cudaFreeArray(self, question: Question) -> Answer:
        self._session.driver.free(question.numbers[0])
        self._session.allocated_at.pop(question.numbers[0], None)
        return Answer()

    def cudaCreateTextureObject(self, question: Question) -> Answer:
        """A description of `numbers[0]`, device memory, lies where the answer says."""
        driver = self._session.driver
        if driver.arena.owner_of(question.numbers[0]) is None:
            raise InvalidValueError("a texture or surface is of device memory")
        address = driver.arena.malloc(len(question.data))
        driver.transfers.write(address, question.data)
        self._objects.add(address)
        return Answer((address,))

    def cudaDestroyTextureObject(self, question: Question) -> Answer:
        if question.numbers[0] not in self._objects:
            raise InvalidValueError("there is no such texture or surface object")
        self._objects.remove(question.numbers[0])
        self._session.driver.free(question.numbers[0])
        return Answer()
