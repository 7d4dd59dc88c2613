"""The error of a request that nothing could satisfy."""

from labkit.memory.sizes import format_size


class OutOfMemoryError(RuntimeError):
    """A request that found no room, with the figures of that moment. Sizes are bytes.

    requested, block_size, segment_size  what was asked for, its rounded size, and what the device
                                         was asked for on its behalf
    free, total                          of the device
    allowed                              the limit of the memory fraction, or None
    allocated, reserved                  by this allocator, private pools included
    in_private_pools                     free bytes kept for private pools

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::malloc
    """

    def __init__(
        self,
        *,
        requested: int,
        block_size: int,
        segment_size: int,
        stream: int,
        device: int,
        free: int,
        total: int,
        allowed: int | None,
        allocated: int,
        reserved: int,
        in_private_pools: int,
    ) -> None:
        self.requested = requested
        self.block_size = block_size
        self.segment_size = segment_size
        self.stream = stream
        self.free = free
        self.total = total
        self.allowed = allowed
        self.allocated = allocated
        self.reserved = reserved
        self.in_private_pools = in_private_pools
        limit = f"{format_size(allowed)} allowed; " if allowed is not None else ""
        private = (
            f"with {format_size(in_private_pools)} allocated in private pools (e.g., CUDA Graphs), "
            if in_private_pools
            else ""
        )
        unallocated = reserved - allocated - in_private_pools
        super().__init__(
            f"CUDA out of memory. Tried to allocate {format_size(segment_size)}. "
            f"GPU {device} has a total capacity of {format_size(total)} of which "
            f"{format_size(free)} is free. {limit}Of the allocated memory "
            f"{format_size(allocated + in_private_pools)} is allocated by PyTorch, {private}and "
            f"{format_size(unallocated)} is reserved by PyTorch but unallocated."
        )
