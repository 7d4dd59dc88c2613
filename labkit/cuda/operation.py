"""One thing a device can be told to do, as data: what streams queue and graphs hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from labkit.cuda.driver import Dim3

Kind = Literal["kernel", "memcpy", "memset", "host", "empty"]


@dataclass(frozen=True)
class Operation:
    """`kind` says which of the fields mean something.

    kernel   function, grid, block, args (packed bytes, one per parameter), shared_bytes; what a GPU
             decides for itself, order and timeout_s (None: as the driver's); cooperative
    memcpy   dst, src, size_bytes
    memset   dst, byte, size_bytes
    host     call
    """

    kind: Kind
    name: str
    function: Any = None
    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (1, 1, 1)
    args: tuple[bytes, ...] = ()
    shared_bytes: int = 0
    order: str | int = "forward"
    timeout_s: float | None = None
    cooperative: bool = False
    dst: int = 0
    src: int = 0
    byte: int = 0
    size_bytes: int = 0
    call: Callable[[], None] | None = None
    keep: Any = None
    """Whatever must stay alive until it has run."""


@dataclass
class Node:
    """An operation in a graph, and the indices of the nodes it comes after."""

    operation: Operation
    after: tuple[int, ...]
