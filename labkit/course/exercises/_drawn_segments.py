"""Segments and their blocks, given as (size, live) pairs, drawn as an allocator's memory."""

from typing import Any

Segments = list[list[tuple[int, bool]]]


def drawn(segments: Segments, title: str) -> Any:
    """The map of these segments, one behind the other."""
    from labkit import show

    return show.memory(_snapshot(segments), simple=True, title=title)


def _snapshot(segments: Segments) -> dict[str, Any]:
    """The segments in the format of an allocator's snapshot."""
    found, start = [], 0
    for blocks in segments:
        total, at = sum(size for size, _ in blocks), start
        drawn = []
        for size, live in blocks:
            state = "active_allocated" if live else "inactive"
            drawn.append({"address": at, "size": size, "requested_size": size, "state": state})
            at += size
        used = sum(size for size, live in blocks if live)
        found.append(
            {
                "address": start, "total_size": total, "allocated_size": used,
                "active_size": used, "stream": 0, "segment_type": "small",
                "segment_pool_id": (0, 0), "device": 0, "blocks": drawn,
            }
        )  # fmt: skip
        start += total
    return {"segments": found, "device_traces": [[]], "allocator_settings": {}}
