"""Host arrays as arguments of a kernel: on the device for the length of one launch."""

import contextlib
from collections.abc import Iterator, Sequence
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


@contextlib.contextmanager
def staged(
    driver: Driver, stream: int, bound: Bound, signature: Signature, *, guarded: bool
) -> Iterator[None]:
    """Inside, host arrays are on the device and the arguments point there; afterwards, unless it
    failed, what the kernel may have written is back on the host.

    guarded   with room around each that belongs to no array, so that an index too far is seen
    """
    ranges = _merged(bound.host, signature)
    allocated: list[int] = []
    addresses = []
    try:
        for host in ranges:
            size = host.high - host.low
            block, guard = _malloc(driver, size, guarded)
            allocated.append(block)
            address = block + guard
            addresses.append(address)
            driver.memcpy_async(address, host.low, size, stream)
            for position, operand in bound.host:
                if host.low <= operand.low < host.high:
                    moved = address + operand.address - host.low
                    bound.packed[position] = moved.to_bytes(8, "little")
                    low = address + operand.low - host.low
                    name = signature.params[position].name
                    bound.extents.append(Extent(name, low, operand.high - operand.low))
        yield
        if ranges:
            driver.stream_synchronize(stream)
        for host, address in zip(ranges, addresses, strict=True):
            if host.writable:
                driver.memcpy(host.low, address, host.high - host.low)
    finally:
        for block in allocated:
            driver.free(block)


def _malloc(driver: Driver, size: int, guarded: bool) -> tuple[int, int]:
    """(address, bytes of guard on each side) of memory for an array."""
    guard = min(max(LEAST_GUARD, size), MOST_GUARD) // 512 * 512 if guarded else 0
    try:
        return driver.malloc(size + 2 * guard), guard
    except OutOfMemoryError:
        return driver.malloc(size), 0


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
