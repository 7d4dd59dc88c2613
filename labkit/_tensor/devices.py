"""Devices on demand: the layer that owns one plugs it in when the first tensor asks for it."""

import importlib
from typing import Any

from labkit.core.allocator import get_allocator, has_allocator
from labkit.core.device import CPU, Device, device

PLUG_INS = {"cuda": "labkit.cuda.tensor_memory"}
"""Device type -> module whose import registers an allocator and a copy function
(`labkit.core.allocator`)."""


def ready(spec: Any) -> Device:
    """The device, with an allocator serving it; None means the host.

    Raises   RuntimeError   no such device, or nothing serves it
    """
    chosen = CPU if spec is None else device(spec)
    if not has_allocator(chosen.type) and chosen.type in PLUG_INS:
        importlib.import_module(PLUG_INS[chosen.type])
    get_allocator(chosen.type)
    return chosen
