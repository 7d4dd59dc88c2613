"""Bytes that a block keeps between its forward and its backward."""

from dataclasses import fields, is_dataclass
from typing import Any


def saved_bytes(*saved: Any) -> int:
    """Of all tensors in these records, each memory counted once."""
    return sum(one.numel() * one.element_size() for one in tensors(*saved))


def tensors(*saved: Any) -> list[Any]:
    """Those that a record of a block holds, records in it included, each memory once."""
    found: dict[int, Any] = {}
    for one in saved:
        if is_dataclass(one):
            inner = tensors(*(getattr(one, field.name) for field in fields(one)))
            found |= {tensor.data_ptr(): tensor for tensor in inner}
        elif one is not None and one.numel():
            found[one.data_ptr()] = one
    return list(found.values())
