"""Segments, blocks and trace entries as PyTorch's snapshot holds them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labkit.memory.block import ALLOCATED, FREE, UNMAPPED, Block, Segment
from labkit.memory.history import History, frame_dicts

if TYPE_CHECKING:
    from labkit.memory.allocator_state import AllocatorState


def segment_dicts(allocator: "AllocatorState") -> list[dict[str, Any]]:
    """The memory map, by address. Each mapped run of a growing segment is one entry.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::snapshot
    """
    return [
        _segment_dict(allocator.device, segment, run)
        for _, segment in sorted(allocator.segments.items())
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
    """The entries kept, oldest first.

    Source   torch/csrc/cuda/Module.cpp  THCPModule_memorySnapshot
    """
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
