"""Where memory lives: a device type and an index, and what each device type must bring."""

import re
from dataclasses import dataclass
from typing import Any

DEVICE_TYPES = ("cpu", "cuda", "lab")
"""The device types a `Device` may name; each but "cpu" needs an allocator and a copy function
(`labkit.core.allocator`) before a tensor can live there."""


@dataclass(frozen=True)
class Device:
    """A device type, and which one of that type.

    Source   c10/core/Device.h  Device
    """

    type: str
    index: int | None = None

    def __post_init__(self) -> None:
        if self.type not in DEVICE_TYPES:
            raise RuntimeError(
                f"Expected one of {', '.join(DEVICE_TYPES)} device type at start of device "
                f"string: {self.type}"
            )
        if self.index is not None and self.index < 0:
            raise RuntimeError(f"Device index must not be negative, got {self.index}")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"


CPU = Device("cpu")


def device(spec: Any) -> Device:
    """The device a string ("cuda:0") or a `Device` names.

    Raises   RuntimeError   the text names no device, or the index is malformed
    """
    if isinstance(spec, Device):
        return spec
    match = re.fullmatch(r"([a-z]+)(?::(0|[1-9]\d*))?", spec) if isinstance(spec, str) else None
    if match is None:
        raise RuntimeError(f"Invalid device string: {spec!r}; expected one such as 'cpu', 'cuda:0'")
    name, index = match.groups()
    return Device(name, None if index is None else int(index))
