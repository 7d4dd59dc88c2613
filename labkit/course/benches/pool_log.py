"""What a memory pool took from its device and handed out, as `show.memory` reads it."""

from typing import Any

from labkit.memory.settings import AllocatorSettings


class PoolLog:
    """A driver that remembers what is asked of it, and which blocks of it are in use.

    Everything but `malloc` and `free` is the driver's own. Whoever watches the pool says `lent`
    and `returned`. Sizes are bytes.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.calls = 0
        self.trace: list[dict[str, Any]] = []
        self._segments: dict[int, int] = {}
        self._live: dict[int, tuple[int, int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    @property
    def held(self) -> int:
        """Bytes that the device has not got back."""
        return sum(self._segments.values())

    def malloc(self, size: int) -> int | None:
        """What the driver answers; an address is a new segment."""
        self.calls += 1
        address: int | None = self.driver.malloc(size)
        if address is not None:
            self._segments[address] = size
            self._note("segment_alloc", address, size)
        return address

    def free(self, address: int) -> None:
        """The driver has it back."""
        self.driver.free(address)
        self._note("segment_free", address, self._segments.pop(address))

    def lent(self, address: int, size: int, stream: int = 0) -> None:
        """A block is in use."""
        self._live[address] = size, stream
        self._note("alloc", address, size, stream)

    def returned(self, address: int) -> None:
        """The block is in use no more."""
        size, stream = self._live.pop(address)
        self._note("free_requested", address, size, stream)
        self._note("free_completed", address, size, stream)

    def snapshot(self) -> dict[str, Any]:
        """The map and the steps so far, in the format of `torch.cuda.memory._snapshot`."""
        return {
            "segments": [self._segment(*item) for item in sorted(self._segments.items())],
            "device_traces": [list(self.trace)],
            "allocator_settings": AllocatorSettings().snapshot(),
        }

    def _segment(self, start: int, size: int) -> dict[str, Any]:
        inside = sorted((a, *b) for a, b in self._live.items() if start <= a < start + size)
        blocks, end = [], start
        for address, nbytes, _ in inside:
            if address > end:
                blocks.append(_block(end, address - end, 0, "inactive"))
            blocks.append(_block(address, nbytes, nbytes, "active_allocated"))
            end = address + nbytes
        if end < start + size:
            blocks.append(_block(end, start + size - end, 0, "inactive"))
        in_use = sum(nbytes for _, nbytes, _ in inside)
        return {
            "device": 0,
            "address": start,
            "total_size": size,
            "allocated_size": in_use,
            "active_size": in_use,
            "requested_size": in_use,
            "stream": inside[0][2] if inside else 0,
            "segment_type": "small",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }

    def _note(self, action: str, address: int, size: int, stream: int = 0) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": stream}
        self.trace.append({**entry, "time_us": len(self.trace), "pool_id": (0, 0)})


def _block(address: int, size: int, requested: int, state: str) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": [],
    }
