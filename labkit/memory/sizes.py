"""What a request becomes: the size of its block and the size of a new segment for it.

Source   c10/core/AllocatorConfig.h  kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc,
         kRoundLarge
"""

from collections.abc import Sequence

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

MIN_BLOCK_SIZE = 512
"""Bytes. Every block starts and ends on a multiple of it."""

SMALL_SIZE = 1 * MIB
"""Blocks up to and including this size live in the small pool."""

LARGE_REMAINDER = SMALL_SIZE
"""What is left of a large block is cut off when it is larger; PyTorch says kSmallSize here too."""

SMALL_SEGMENT_SIZE = 2 * MIB
"""What the small pool asks the device for, also the page size of its expandable segments."""

MIN_LARGE_SEGMENT = 10 * MIB
"""A request of at least this size asks for a segment of its size; smaller ones share 20 MiB."""

SEGMENT_GRANULE = 2 * MIB
"""Such a segment is rounded up to a multiple of it; what is left over serves others."""

TRACE_SIZES = {
    "min_block": MIN_BLOCK_SIZE,
    "small_segment": SMALL_SEGMENT_SIZE,
    "large_remainder": LARGE_REMAINDER,
}
"""What whoever rebuilds blocks from a trace has to know, where this module cannot be imported."""

DIVISION_CLASSES = 16
"""One number of power-of-two divisions per interval: [1, 2) MiB, [2, 4) MiB, ..., from 32 GiB."""


def division_class(size: int) -> int:
    """Which of the 16 intervals `size` lies in; everything below 1 MiB is in the first."""
    return min(max(size.bit_length() - 21, 0), DIVISION_CLASSES - 1)


def round_to_division(size: int, divisions: int) -> int:
    """Up to the next of `divisions` (a power of two) equal steps between two powers of two."""
    floor = 1 << (size.bit_length() - 1)
    if size == floor:
        return size
    step = floor // divisions
    if step == 0:
        return floor << 1
    return (size + step - 1) // step * step


def round_size(size: int, divisions: Sequence[int] = ()) -> int:
    """The block size of a request of `size` bytes, > 0.

    divisions  one entry per class of `division_class`; empty: no power-of-two divisions

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::round_size
    """
    if divisions and size >= MIN_BLOCK_SIZE:
        steps = divisions[division_class(size)]
        if steps > 1 and size > MIN_BLOCK_SIZE * steps:
            return round_to_division(size, steps)
    return (size + MIN_BLOCK_SIZE - 1) & -MIN_BLOCK_SIZE


def segment_size(block_size: int, large_segment_size: int = 20 * MIB) -> int:
    """How much to ask the device for when a block of `block_size` bytes finds no room.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_allocation_size
    """
    if is_small(block_size):
        return SMALL_SEGMENT_SIZE
    if block_size < MIN_LARGE_SEGMENT:
        return large_segment_size  # leaves room to split, so middle sizes fragment less
    return (block_size + SEGMENT_GRANULE - 1) // SEGMENT_GRANULE * SEGMENT_GRANULE


def is_small(block_size: int) -> bool:
    """True when blocks of that size live in the small pool.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_pool
    """
    return block_size <= SMALL_SIZE


def is_cut_off(remaining: int, finely: bool) -> bool:
    """True when what is left of a block becomes a block of its own; else it stays with it.

    finely  in the small pool and in expandable segments

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::should_split
    """
    return remaining >= MIN_BLOCK_SIZE if finely else remaining > LARGE_REMAINDER


def format_size(size: int) -> str:
    """The size as PyTorch's messages print it: '512 bytes', '1.50 KiB', '20.00 MiB'."""
    if size <= KIB:
        return f"{size} bytes"
    if size <= MIB:
        return f"{size / KIB:.2f} KiB"
    if size <= GIB:
        return f"{size / MIB:.2f} MiB"
    return f"{size / GIB:.2f} GiB"


def told_size(size: int) -> str:
    """`format_size`, in a smaller unit where it would read as a round number that it is not.

    So 512 bytes more than 1 MiB are '1024.50 KiB'.
    """
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        text = f"{size / unit:.2f}"
        if size > unit and not (size % unit and text.endswith(".00")):
            return f"{text} {name}"
    return f"{size} bytes"
