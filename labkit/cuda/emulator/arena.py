"""Device memory: a stated number of bytes at real addresses, shared with the worker.

Only the worker can touch them where they are. In this process the addresses that kernels and
tensors carry lead nowhere: who follows one by mistake is ended by a segmentation fault, as a
GPU's address would end him. Copies reach the bytes through a second mapping, `Arena.window`.
"""

import ctypes
import mmap
import os
import weakref
from bisect import bisect_right, insort
from collections.abc import Iterable

from labkit.cuda.errors import CudaError, InvalidValueError, OutOfMemoryError

ALIGNMENT = 512  # bytes; what cudaMalloc's addresses are multiples of
GRANULARITY = 2 << 20  # bytes; of virtual memory, as on NVIDIA's devices
FIRST_BASE = 0x100000000000
LAST_BASE = 0x550000000000  # programs, the worker too, lie above; where, chance decides
_BASE_STEP = 0x002000000000  # 128 GiB
_FREED_KEPT = 64  # allocations whose end is remembered, for who goes on using one
_PUNCH_FROM = 1 << 20  # smaller holes are not worth the system call

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
_MAP_FIXED, _MAP_FIXED_NOREPLACE, _MAP_NORESERVE = 0x10, 0x100000, 0x4000
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_FAILED = ctypes.c_void_p(-1).value


class Ranges:
    """Free gaps of a number line, taken first fit, merged when given back."""

    def __init__(self, start: int, size: int) -> None:
        self._starts = [start] if size else []
        self._sizes = {start: size} if size else {}

    def take(self, size: int) -> int | None:
        """The start of `size` bytes in the lowest gap that holds them, None when none does."""
        for index, start in enumerate(self._starts):
            gap = self._sizes[start]
            if gap >= size:
                del self._starts[index], self._sizes[start]
                if gap > size:
                    self._starts.insert(index, start + size)
                    self._sizes[start + size] = gap - size
                return start
        return None

    def give_back(self, start: int, size: int) -> None:
        """The bytes are a gap again, one with its neighbours."""
        index = bisect_right(self._starts, start)
        if index < len(self._starts) and self._starts[index] == start + size:
            following = self._starts.pop(index)
            size += self._sizes.pop(following)
        if index and self._starts[index - 1] + self._sizes[self._starts[index - 1]] == start:
            start = self._starts.pop(index - 1)
            size += self._sizes[start]
        insort(self._starts, start)
        self._sizes[start] = size

    @property
    def largest(self) -> int:
        """Bytes of the largest gap."""
        return max(self._sizes.values(), default=0)


def wanted_bytes() -> int:
    """Of device memory: $LABKIT_EMULATOR_MEMORY (MiB), else 4 GiB."""
    return round(float(os.environ.get("LABKIT_EMULATOR_MEMORY") or 4096) * (1 << 20))


class Arena:
    """`capacity` bytes of device memory, and room for virtual addresses behind them.

    Both halves live in one memory file: the first `capacity` bytes are mapped for `malloc`, the
    rest backs `create`d handles. Together they never hold more than `capacity`.

    base     the first address, of no access in this process
    window   how far above each address its bytes can be read and written here
    """

    def __init__(self, capacity: int) -> None:
        page = mmap.PAGESIZE
        self.capacity = -(-capacity // GRANULARITY) * GRANULARITY
        if capacity <= 0:
            raise InvalidValueError(f"a device has at least 1 byte of memory, got {capacity}")
        room = max(16 * self.capacity, 64 << 30)
        self.reserved = self.capacity + room
        self.fd = os.memfd_create("labkit-device", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, 2 * self.capacity)
        self.base = _room(self.reserved, range(FIRST_BASE, LAST_BASE, _BASE_STEP))
        self.window = _room(self.reserved, (None,)) - self.base
        _map(self.base + self.window, self.capacity, self.fd, 0)
        assert self.base % page == 0
        ranges = (self.base, self.base + self.window)
        self._ending = weakref.finalize(self, _end, ranges, self.reserved, self.fd)
        self._arena = Ranges(self.base, self.capacity)
        self._room = Ranges(self.base + self.capacity, room)
        self._physical = Ranges(self.capacity, self.capacity)
        self.allocations: dict[int, int] = {}
        """Address -> bytes asked for, of everything `malloc` gave out."""
        self._freed: list[tuple[int, int]] = []
        self._taken: dict[int, tuple[int, int]] = {}
        """Address -> bytes it occupies, and bytes of its guard."""
        self.reservations: dict[int, int] = {}
        self.handles: dict[int, int] = {}
        self.mapped: dict[int, tuple[int, int]] = {}
        self.used = 0

    def close(self) -> None:
        """Every byte is back with the operating system."""
        self._ending()
        self.fd = -1

    def malloc(self, size: int, *, alignment: int = ALIGNMENT, guard: int = 0) -> int:
        """Address of `size` bytes, a multiple of 512; they hold what they held before.

        alignment   a larger power of two: the range then has its pages to itself
        guard       addresses behind it that belong to no allocation, if there is room for them

        Raises   OutOfMemoryError   no free range is large enough
        """
        if size < 0:
            raise InvalidValueError(f"cannot allocate {size} bytes")
        if size == 0:
            return 0
        rounded = -(-size // alignment) * alignment
        address = None
        if self.used + rounded <= self.capacity:
            address = self._aligned(rounded + guard, alignment)
            if address is None and guard:
                guard, address = 0, self._aligned(rounded, alignment)
        if address is None:
            raise OutOfMemoryError(
                size, self.capacity - self.used, self.capacity, self._arena.largest
            )
        self.used += rounded
        self.allocations[address] = size
        self._taken[address] = (rounded, guard)
        self._freed = [
            (start, length)
            for start, length in self._freed
            if start + length <= address or address + rounded + guard <= start
        ]
        return address

    def _aligned(self, size: int, alignment: int) -> int | None:
        """The start of `size` free bytes, now taken, at a multiple of `alignment`."""
        spare = alignment - ALIGNMENT
        start = self._arena.take(size + spare)
        if start is None or not spare:
            return start
        address = -(-start // alignment) * alignment
        for low, high in ((start, address), (address + size, start + size + spare)):
            if low < high:
                self._arena.give_back(low, high - low)
        return address

    def free(self, address: int) -> None:
        """The range is free, and large pages of it are the operating system's again.

        Raises   InvalidValueError   `malloc` did not return this address, or it was freed before
        """
        if address == 0:
            return
        size = self.allocations.pop(address, None)
        if size is None:
            raise InvalidValueError(f"{address:#x} is not an address that malloc returned")
        self._freed = [*self._freed[1 - _FREED_KEPT :], (address, size)]
        rounded, guard = self._taken.pop(address)
        self.used -= rounded
        self._arena.give_back(address, rounded + guard)
        self._punch(address - self.base, rounded)

    def _punch(self, offset: int, size: int) -> None:
        first = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
        if end - first >= _PUNCH_FROM:
            _libc.fallocate(self.fd, 3, first, end - first)  # PUNCH_HOLE | KEEP_SIZE

    def reserve(self, size: int) -> int:
        """Room for `size` bytes, without memory."""
        _check_granular(size)
        address = self._room.take(size)
        if address is None:
            raise OutOfMemoryError(size, self._room.largest, self.reserved - self.capacity)
        self.reservations[address] = size
        return address

    def unreserve(self, address: int, size: int) -> None:
        """Room that holds no mapping is given back."""
        if self.reservations.get(address) != size:
            raise InvalidValueError(f"{size} bytes at {address:#x} were not reserved as one")
        inside = [start for start in self.mapped if address <= start < address + size]
        if inside:
            raise InvalidValueError(f"memory is still mapped at {inside[0]:#x}")
        del self.reservations[address]
        self._room.give_back(address, size)

    def create(self, size: int) -> int:
        """A handle of `size` bytes without an address."""
        _check_granular(size)
        offset = self._physical.take(size) if self.used + size <= self.capacity else None
        if offset is None:
            raise OutOfMemoryError(size, self.capacity - self.used, self.capacity)
        self.used += size
        self.handles[offset] = size
        return offset

    def release(self, handle: int) -> None:
        """The handle's memory is free again."""
        size = self.handles.get(handle)
        if size is None:
            raise InvalidValueError(f"{handle:#x} is not a handle of device memory")
        if any(offset == handle for _, offset in self.mapped.values()):
            raise InvalidValueError(f"the memory of handle {handle:#x} is still mapped")
        del self.handles[handle]
        self.used -= size
        self._physical.give_back(handle, size)
        self._punch(handle, size)

    def map(self, address: int, size: int, handle: int) -> None:
        """The handle's memory is reachable at `address`, in this process through the window."""
        if self.handles.get(handle) != size:
            raise InvalidValueError(f"handle {handle:#x} does not hold {size} bytes")
        within = any(
            start <= address and address + size <= start + length
            for start, length in self.reservations.items()
        )
        clash = any(a < address + size and address < a + s for a, (s, _) in self.mapped.items())
        if not within or clash or address % GRANULARITY:
            why = "it is mapped already" if clash else "that range was not reserved"
            raise InvalidValueError(f"cannot map {size} bytes at {address:#x}: {why}")
        _map(address + self.window, size, self.fd, handle)
        self.mapped[address] = (size, handle)

    def unmap(self, address: int, size: int) -> None:
        """The room at `address` is empty again."""
        if self.mapped.get(address, (None, 0))[0] != size:
            raise InvalidValueError(f"no memory of {size} bytes is mapped at {address:#x}")
        del self.mapped[address]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED | _MAP_NORESERVE
        _libc.mmap(address + self.window, size, 0, flags, -1, 0)

    def owner_of(self, address: int) -> tuple[int, int] | None:
        """(start, bytes) of the allocation or mapping that `address` lies in."""
        for start, size in self.allocations.items():
            if start <= address < start + size:
                return start, size
        for start, (size, _) in self.mapped.items():
            if start <= address < start + size:
                return start, size
        return None

    def freed_at(self, address: int) -> tuple[int, int] | None:
        """(start, bytes) of the freed allocation that `address` was in, if nothing came since."""
        return next((one for one in self._freed if one[0] <= address < sum(one)), None)

    def contains(self, address: int) -> bool:
        """True for any address of this device, allocated or not."""
        return self.base <= address < self.base + self.reserved

    def reachable(self, address: int) -> int:
        """Where this process finds the byte: in the window for the device's, else where it is."""
        return address + self.window if self.contains(address) else address


def _check_granular(size: int) -> None:
    if size <= 0 or size % GRANULARITY:
        raise InvalidValueError(f"{size} bytes is not a positive multiple of {GRANULARITY}")


def _room(size: int, places: Iterable[int | None]) -> int:
    """Address space that nothing else in this process uses, at the first place that is free.

    places  None is wherever the system likes
    """
    for wanted in places:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        flags |= 0 if wanted is None else _MAP_FIXED_NOREPLACE
        got = int(_libc.mmap(wanted, size, 0, flags, -1, 0))
        if got != _FAILED and wanted in (got, None):
            return got
        if got != _FAILED:
            _libc.munmap(got, size)
    raise CudaError(f"no address range of {size} bytes is free in this process")


def _end(ranges: tuple[int, ...], size: int, fd: int) -> None:
    for start in ranges:
        _libc.munmap(start, size)
    os.close(fd)


def _map(address: int, size: int, fd: int, offset: int) -> None:
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if _libc.mmap(address, size, _READ_WRITE, flags, fd, offset) != address:
        raise CudaError(f"mapping {size} bytes failed: {os.strerror(ctypes.get_errno())}")
