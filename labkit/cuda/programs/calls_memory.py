"""Allocation, copies and fills, as a program asks for them."""

import struct

from labkit.cuda.emulator.arena import ALIGNMENT
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Operation
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question

PAGE = 4096
LEAST_GUARD, MOST_GUARD = 4096, 1 << 20
FRESH = 0xCB
"""What freshly allocated memory holds while a program is watched: a GPU promises nothing."""
_WORD = bytes([FRESH]) * 4
FRESH_NUMBERS = (
    f"{int.from_bytes(_WORD, 'little', signed=True)} "
    f"(as a float {struct.unpack('<f', _WORD)[0]:.0f})"
)
POISONED_AT_MOST = 64 << 20
_SIDES = {
    0: ("host", "host"), 1: ("host", "device"), 2: ("device", "host"), 3: ("device", "device"),
}  # fmt: skip
_NOW, _LATER = 1, 2
"""The program copies itself: before the call returns, or as a node of a graph."""
_TYPES = {"": 0, "pinned": 1, "device": 2, "managed": 3}


class MemoryCalls:
    """The runtime's memory functions; pinned and managed memory is shared with the program."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shared: dict[int, tuple[str, int]] = {}
        """Address -> (pinned or managed, bytes mapped) of memory that the host may touch."""
        self._registered: set[int] = set()

    # Allocation

    def cudaMalloc(self, question: Question) -> Answer:
        size = question.numbers[0]
        guard = min(max(LEAST_GUARD, size), MOST_GUARD) // ALIGNMENT * ALIGNMENT
        driver = self._session.driver
        address = driver.arena.malloc(size, guard=guard if self._session.trace else 0)
        if self._session.trace and address:
            driver.memset(address, FRESH, min(size, POISONED_AT_MOST))
        self._session.allocated_at[address] = (question.name, question.site)
        return Answer((address,))

    cudaMallocPitch = cudaMalloc

    def cudaMallocAsync(self, question: Question) -> Answer:
        size, stream = question.numbers[0], self._session.stream(question.numbers[1])
        if self._session.driver.capture_of(stream) is None:
            return self.cudaMalloc(question)
        address = self._session.driver.arena.malloc(size)
        self._session.graph_memory[address] = size
        return Answer((address,))

    def _share(self, question: Question, kind: str) -> Answer:
        size = question.numbers[0]
        if size == 0:
            raise InvalidValueError(f"{question.name} of 0 bytes")
        mapped = -(-size // PAGE) * PAGE
        address = self._session.driver.arena.malloc(size, alignment=PAGE)
        self._shared[address] = (kind, mapped)
        self._session.allocated_at[address] = (question.name, question.site)
        return Answer((address, mapped))

    def cudaMallocManaged(self, question: Question) -> Answer:
        return self._share(question, "managed")

    def cudaMallocHost(self, question: Question) -> Answer:
        return self._share(question, "pinned")

    cudaHostAlloc = cudaMallocHost

    def cudaFree(self, question: Question) -> Answer:
        address = question.numbers[0]
        if address == 0 or address in self._session.graph_memory:
            return Answer()
        driver = self._session.driver
        if address not in driver.arena.allocations:
            giver = "cudaMallocHost" if question.name == "cudaFreeHost" else "cudaMalloc"
            raise InvalidValueError(f"{address:#x} is not an address that {giver} returned")
        driver.free(address)
        self._session.allocated_at.pop(address, None)
        _, mapped = self._shared.pop(address, ("", 0))
        return Answer((0, mapped))

    cudaFreeAsync = cudaFreeHost = cudaFree

    def cudaHostGetDevicePointer(self, question: Question) -> Answer:
        if self._kind(question.numbers[0]) not in ("pinned", "managed"):
            raise InvalidValueError("that memory is not pinned by cudaHostAlloc")
        return Answer()

    def cudaHostRegister(self, question: Question) -> Answer:
        self._registered.add(question.numbers[0])
        return Answer()

    def cudaHostUnregister(self, question: Question) -> Answer:
        if question.numbers[0] not in self._registered:
            raise InvalidValueError(
                "that memory is not registered", "cudaErrorHostMemoryNotRegistered"
            )
        self._registered.remove(question.numbers[0])
        return Answer()

    def cudaMemGetInfo(self, question: Question) -> Answer:
        return Answer(self._session.driver.memory_info())

    def cudaPointerGetAttributes(self, question: Question) -> Answer:
        return Answer((_TYPES[self._kind(question.numbers[0])],))

    def _kind(self, address: int) -> str:
        """What an address is: device, managed, pinned, or nothing the device knows."""
        if not self._session.driver.arena.contains(address):
            return ""
        owner = self._session.driver.arena.owner_of(address)
        return self._shared[owner[0]][0] if owner and owner[0] in self._shared else "device"

    # Copies

    def cudaMemcpy(self, question: Question) -> Answer:
        to, source, width, height, to_pitch, from_pitch, kind, handle, wait = question.numbers
        if min(width, height) <= 0:
            return Answer()
        if max(to_pitch, from_pitch) < width or min(to_pitch, from_pitch) < width:
            raise InvalidValueError(f"rows of {width} bytes overlap", "cudaErrorInvalidPitchValue")
        self._check_sides(kind, to, source)
        driver, stream = self._session.driver, self._session.stream(handle)
        spans = ((to, to_pitch, "destination"), (source, from_pitch, "source"))
        for address, pitch, what in spans:
            driver.transfers.check(address, pitch * (height - 1) + width, what)
        if not (driver.arena.contains(to) and driver.arena.contains(source)):
            if driver.capture_of(stream) is not None:
                return Answer((_LATER,))
            driver.submit(stream, Operation("empty", "memcpy"))
            driver.stream_synchronize(stream)
            return Answer((_NOW,))
        rows = 1 if to_pitch == from_pitch == width else height
        length = width * (height // rows)
        for row in range(rows):
            driver.memcpy_async(to + row * to_pitch, source + row * from_pitch, length, stream)
        if wait:
            driver.stream_synchronize(stream)
        return Answer()

    cudaMemcpyAsync = cudaMemcpy2D = cudaMemcpy2DAsync = cudaMemcpy

    def _check_sides(self, kind: int, to: int, source: int) -> None:
        """Refuse a direction that the addresses contradict.

        Raises   InvalidValueError   saying both
        """
        if kind not in _SIDES and kind != 4:
            raise InvalidValueError(f"{kind} is no direction", "cudaErrorInvalidMemcpyDirection")
        sides = _SIDES.get(kind, ("", ""))
        for said, address, what in zip(sides, (source, to), ("source", "destination"), strict=True):
            found = {"": "host", "device": "device"}.get(self._kind(address), "")
            if said and found and said != found:
                raise InvalidValueError(
                    f"the copy is said to go from {sides[0]} to {sides[1]}, but its {what} is "
                    f"{found} memory"
                )

    def cudaMemset(self, question: Question) -> Answer:
        address, value, width, height, pitch, handle = question.numbers[:6]
        driver, stream = self._session.driver, self._session.stream(handle)
        if not self._kind(address):
            raise InvalidValueError("that is host memory")
        rows = 1 if pitch == width else height
        for row in range(rows):
            driver.memset_async(
                address + row * pitch, value & 0xFF, width * (height // rows), stream
            )
        return Answer()

    cudaMemsetAsync = cudaMemset2D = cudaMemset2DAsync = cudaMemset

    # Variables of the device

    def cudaGetSymbolAddress(self, question: Question) -> Answer:
        return Answer(self._variable(question.numbers[0]))

    def cudaMemcpyToSymbol(self, question: Question) -> Answer:
        driver = self._session.driver
        address, size, stream = self._within(question)
        source = question.numbers[4]
        driver.stream_synchronize(stream)
        driver.submit(stream, Operation("empty", "memcpy"))
        driver.stream_synchronize(stream)
        data = driver.peek(source, size) if source else question.data
        driver.transfers.write(address, data)
        return Answer()

    def cudaMemcpyFromSymbol(self, question: Question) -> Answer:
        driver = self._session.driver
        address, size, stream = self._within(question)
        driver.submit(stream, Operation("empty", "memcpy"))
        driver.stream_synchronize(stream)
        if question.numbers[4]:
            driver.memcpy(question.numbers[4], address, size)
            return Answer()
        return Answer(data=driver.peek(address, size))

    def _variable(self, place: int) -> tuple[int, int]:
        address, size = self._session.module.variable(place)
        self._session.driver.transfers.variables[address] = size
        return address, size

    def _within(self, question: Question) -> tuple[int, int, int]:
        """(address, bytes, stream) of a copy that stays within its variable.

        Raises   InvalidValueError   it does not
        """
        place, size, offset, handle = question.numbers[:4]
        address, whole = self._variable(place)
        if offset + size > whole:
            raise InvalidValueError(f"{size} bytes at {offset} leave a variable of {whole} bytes")
        return address + offset, size, self._session.stream(handle)
