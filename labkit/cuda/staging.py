"""Host arrays as arguments of a kernel: on the device for the length of one launch."""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.cuda.arguments import Bound, Extent, Operand
from labkit.cuda.driver import Driver
from labkit.cuda.errors import OutOfMemoryError
from labkit.cuda.signature import Signature

LEAST_GUARD, MOST_GUARD = 4096, 1 << 20
"""Bytes on each side of a guarded array: as many as it has, within these."""


@dataclass
class HostArray:
    """Host memory that a launch must see: copied to the device before and back after."""

    low: int
    high: int
    writable: bool


class Staging:
    """Host arrays on the device for the length of one launch.

    guarded   with room around each that belongs to no array, so that an index too far is seen
    """

    def __init__(
        self,
        driver: Driver,
        stream: int,
        bound: Bound,
        signature: Signature,
        *,
        guarded: bool,
    ) -> None:
        self._driver, self._stream, self._bound = driver, stream, bound
        self._ranges = _merged(bound.host, signature)
        self._signature = signature
        self._guarded = guarded
        self._addresses: list[int] = []
        self._allocated: list[int] = []

    def copy_in(self) -> None:
        """Every host array has its bytes on the device, and the arguments point there."""
        for host in self._ranges:
            size = host.high - host.low
            address = self._malloc(size)
            self._addresses.append(address)
            self._driver.memcpy_async(address, host.low, size, self._stream)
            for position, operand in self._bound.host:
                if host.low <= operand.low < host.high:
                    moved = address + operand.address - host.low
                    self._bound.packed[position] = moved.to_bytes(8, "little")
                    name = self._signature.params[position].name
                    low = address + operand.low - host.low
                    self._bound.extents.append(Extent(name, low, operand.high - operand.low))

    def _malloc(self, size: int) -> int:
        guard = min(max(LEAST_GUARD, size), MOST_GUARD) // 512 * 512 if self._guarded else 0
        try:
            allocated = self._driver.malloc(size + 2 * guard)
        except OutOfMemoryError:
            guard, allocated = 0, self._driver.malloc(size)
        self._allocated.append(allocated)
        return allocated + guard

    def copy_out(self) -> None:
        """What the kernel may have written is back on the host."""
        if not self._ranges:
            return
        self._driver.stream_synchronize(self._stream)
        for host, address in zip(self._ranges, self._addresses, strict=True):
            if host.writable:
                self._driver.memcpy(host.low, address, host.high - host.low)

    def close(self) -> None:
        """The device's copies are freed."""
        for address in self._allocated:
            self._driver.free(address)
        self._allocated.clear()


def _merged(host: Sequence[tuple[int, Operand]], signature: Signature) -> list[HostArray]:
    """The host ranges of a launch, overlapping ones as one: views of an array stay views."""
    pieces = sorted(
        (
            HostArray(o.low, o.high, o.writable and not signature.params[position].is_const)
            for position, o in host
            if o.high > o.low
        ),
        key=lambda piece: piece.low,
    )
    merged: list[HostArray] = []
    for piece in pieces:
        if merged and piece.low < merged[-1].high:
            merged[-1].high = max(merged[-1].high, piece.high)
            merged[-1].writable |= piece.writable
        else:
            merged.append(piece)
    return merged
