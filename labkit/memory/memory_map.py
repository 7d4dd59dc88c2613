"""Segments, blocks and trace entries as PyTorch's snapshot holds them."""

from collections.abc import Iterator, Mapping
from typing import Any

from labkit.memory.block import ALLOCATED, FREE, UNMAPPED, Block, Segment
from labkit.memory.history import History, frame_dicts
from labkit.memory.settings import AllocatorSettings


def segment_dicts(segments: Mapping[int, Segment], device: int) -> list[dict[str, Any]]:
    """The memory map, by address. Each mapped run of an expandable segment is one entry.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::snapshot
    """
    return [
        _segment_dict(device, segment, run)
        for _, segment in sorted(segments.items())
        for run in _mapped_runs(segment)
    ]


def _mapped_runs(segment: Segment) -> Iterator[list[Block]]:
    run: list[Block] = []
    for block in segment.blocks():
        if block.state != UNMAPPED:
            run.append(block)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _segment_dict(device: int, segment: Segment, blocks: list[Block]) -> dict[str, Any]:
    active = [block for block in blocks if block.state != FREE]
    starts_the_segment = blocks[0].previous is None
    return {
        "device": device,
        "address": blocks[0].address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": sum(block.size for block in active if block.state == ALLOCATED),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested_size for block in active),
        "stream": segment.stream,
        "segment_type": "small" if segment.pool.is_small else "large",
        "segment_pool_id": segment.pool.id,
        "is_expandable": segment.expandable is not None,
        "frames": frame_dicts(segment.frames if starts_the_segment else None),
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested_size,
                "state": block.state,
                "frames": frame_dicts(block.frames),
            }
            for block in blocks
        ],
    }


def trace_dicts(history: History) -> list[dict[str, Any]]:
    """The entries kept, oldest first."""
    entries = []
    for entry in history.since():
        as_dict: dict[str, Any] = {
            "action": entry.action,
            "device_free" if entry.action == "oom" else "addr": entry.address,
            "size": entry.size,
            "stream": entry.stream,
            "time_us": entry.time_us,
            "compile_context": "N/A",
            "user_metadata": entry.user_metadata,
            "pool_id": entry.pool,
        }
        if entry.frames is not None:
            as_dict["frames"] = frame_dicts(entry.frames)
        entries.append(as_dict)
    return entries


def snapshot_dict(
    segments: list[dict[str, Any]], history: History | None, settings: AllocatorSettings
) -> dict[str, Any]:
    """Segments, trace and settings in the format of `torch.cuda.memory._snapshot`.

    The look itself is an entry of the trace, which the next snapshot shows.

    Source   torch/csrc/cuda/Module.cpp  THCPModule_memorySnapshot
    """
    entries = [] if history is None else trace_dicts(history)
    if history is not None:
        active = sum(segment["active_size"] for segment in segments)
        history.record("snapshot", 0, active, 0, (0, 0), history.frames("state"))
    return {
        "segments": segments,
        "device_traces": [entries],
        "allocator_settings": settings.snapshot(),
        "external_annotations": [],
    }
