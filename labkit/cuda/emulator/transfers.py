"""Copies and fills between host memory, device memory and the variables of loaded modules."""

import ctypes
from typing import Any

from labkit.cuda.emulator.arena import Arena
from labkit.cuda.emulator.worker import Command, Worker, map_message
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Operation


class Transfers:
    """Moves bytes. This process has a window to device memory; variables are the worker's alone."""

    def __init__(self, arena: Arena, worker: Worker) -> None:
        self._arena, self._worker = arena, worker
        self.variables: dict[int, int] = {}
        """Address -> bytes of the module variables somebody asked for."""

    def is_device_address(self, address: int) -> bool:
        """True for memory of the device, allocated or not, and for module variables."""
        return self._arena.contains(address) or self._is_variable(address)

    def side(self, address: int) -> str:
        """The side of a copy that an address lies on, in a word."""
        return "device" if self.is_device_address(address) else "host"

    def check(self, address: int, size_bytes: int, what: str) -> None:
        """Refuse a range that leaves allocated memory.

        Raises   InvalidValueError   with the address where it ends
        """
        if size_bytes < 0:
            raise InvalidValueError(f"cannot copy {size_bytes} bytes")
        if size_bytes and address == 0:
            raise InvalidValueError(f"the {what} of {size_bytes} bytes is a null pointer")
        if size_bytes and self._arena.contains(address):
            owner = self._arena.owner_of(address)
            end = owner[0] + owner[1] if owner else address
            if end < address + size_bytes:
                raise InvalidValueError(
                    f"the {what} {address:#x} + {size_bytes} bytes leaves allocated memory at "
                    f"{end:#x}"
                )

    def copying(self, dst: int, src: int, size_bytes: int, keep: Any = None) -> Operation:
        """The operation that copies, between ranges that exist; `keep` lives as long as it."""
        self.check(dst, size_bytes, "destination")
        self.check(src, size_bytes, "source")
        kind = f"memcpy {self.side(src)} to {self.side(dst)}"
        return Operation("memcpy", kind, dst=dst, src=src, size_bytes=size_bytes, keep=keep)

    def filling(self, address: int, byte: int, size_bytes: int) -> Operation:
        """The operation that fills a range that exists."""
        self.check(address, size_bytes, "destination")
        if not 0 <= byte <= 255:
            raise InvalidValueError(f"a byte is 0 to 255, not {byte}")
        return Operation("memset", "memset", dst=address, byte=byte, size_bytes=size_bytes)

    def peek(self, address: int, size_bytes: int) -> bytes:
        """What the memory holds this moment, allocated or not.

        Raises   InvalidValueError   the range is not memory of the device
        """
        arena = self._arena
        if not arena.base <= address <= arena.base + arena.capacity - size_bytes:
            self.check(address, size_bytes, "source")
            if not self.is_device_address(address):
                raise InvalidValueError(f"{address:#x} is not memory of this device")
        return self.bytes_at(address, size_bytes)

    def copy(self, dst: int, src: int, size: int) -> None:
        """The bytes are at `dst`, too."""
        if size == 0:
            return
        if self._is_variable(src) or self._is_variable(dst):
            self.write(dst, self.bytes_at(src, size))
        else:
            ctypes.memmove(self._arena.reachable(dst), self._arena.reachable(src), size)

    def bytes_at(self, src: int, size: int) -> bytes:
        """What lies there now."""
        if self._is_variable(src):
            return self._worker.request(Command.READ, map_message(src, size))
        return ctypes.string_at(self._arena.reachable(src), size)

    def fill(self, dst: int, byte: int, size: int) -> None:
        """Every byte has this value."""
        if self._is_variable(dst):
            self.write(dst, bytes([byte]) * size)
        else:
            ctypes.memset(self._arena.reachable(dst), byte, size)

    def write(self, dst: int, data: bytes) -> None:
        """The bytes are there now."""
        if self._is_variable(dst):
            self._worker.request(Command.WRITE, map_message(dst, len(data)) + data)
        else:
            ctypes.memmove(self._arena.reachable(dst), data, len(data))

    def _is_variable(self, address: int) -> bool:
        return any(start <= address < start + size for start, size in self.variables.items())
