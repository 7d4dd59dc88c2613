"""What `show.memory` can show, each read into a snapshot in PyTorch's format."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.decisions import VERDICTS
from labkit.memory.memory_map import trace_dicts
from labkit.memory.sizes import TRACE_SIZES
from labkit.memory.snapshots.call_sites import regions
from labkit.memory.snapshots.findings import findings
from labkit.memory.snapshots.part import between
from labkit.memory.snapshots.settings_and_regions import Region
from labkit.memory.snapshots.snapshot import Columns, columns, load, load_columns, load_part
from labkit.show.memory.progress import reading

LISTED_CANDIDATES = 60
KEPT_ENTRIES = 50_000
NO_HISTORY = (
    "No history was recorded, so there are no entries to step: call {call} before the work."
)


@dataclass
class Source:
    """A snapshot to show, and what else is known about it.

    decisions     {entry number: why} of an allocator that explains itself
    calls         its calls of empty_cache, beside the regions that the snapshot names
    device_total  bytes of the device, or None
    """

    name: str
    snapshot: dict[str, Any] | None
    decisions: dict[int, Any] = field(default_factory=dict)
    calls: list[Region] = field(default_factory=list)
    device_total: int | None = None
    remarks: list[str] = field(default_factory=list)
    path: Path | None = None
    found: Columns | None = None

    def reread(self) -> dict[str, Any]:
        """The snapshot; from its file, where it was not needed so far or was too large to keep."""
        if self.snapshot is None:
            assert self.path is not None, "only what has a file is forgotten"
            snapshot = load(self.path)
            if self.found is not None and len(self.found) > KEPT_ENTRIES:
                return snapshot
            self.snapshot = snapshot
        return self.snapshot


def read_source(
    source: Any, device: int | None = None, events: tuple[int, int] | None = None
) -> Source:
    """An allocator of labkit, a snapshot (dict, file, bytes), or torch.cuda ("cuda"); a `Source`
    that was read already stays itself.

    device  which device of a snapshot's file; by default the one with the longest trace
    events  (first, last): only these entries, and the memory as it was after them

    Raises   TypeError      none of these
             RuntimeError   torch.cuda was asked for and there is none
             SnapshotError, FileNotFoundError   as `labkit.memory.snapshots.snapshot.load`
    """
    if isinstance(source, Source):
        return source
    if events is not None:
        return _read_part(source, device, events)
    allocator = allocator_of(source)
    if allocator is not None:
        return _from_allocator(allocator)
    if names_torch_cuda(source):
        return _from_torch_cuda()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        with reading(path) as progress:
            found = load_columns(path, device, progress=progress)
        return _checked(Source(path.name, None, path=path, found=found))
    if isinstance(source, bytes | bytearray | memoryview | Mapping | list):
        return _checked(Source("snapshot", load(source)))
    raise TypeError(
        "show.memory takes an allocator of labkit, a snapshot (file, bytes or dict) or 'cuda', "
        f"not a {type(source).__name__}"
    )


def _read_part(source: Any, device: int | None, events: tuple[int, int]) -> Source:
    if isinstance(source, str | os.PathLike) and not names_torch_cuda(source):
        path = Path(source)
        with reading(path) as progress:
            return Source(path.name, load_part(path, *events, device, progress=progress))
    whole = read_source(source, device)
    part = between(whole.reread(), *events, device)
    return Source(whole.name, part, device_total=whole.device_total, remarks=whole.remarks)


def allocator_of(source: Any) -> CachingAllocator | None:
    """The caching allocator itself, or the one that `source` wraps in `.allocator`."""
    for candidate in (source, getattr(source, "allocator", None)):
        if isinstance(candidate, CachingAllocator):
            return candidate
    return None


def names_torch_cuda(source: Any) -> bool:
    """True for "cuda", "cuda:0", torch.device("cuda") and the module torch.cuda."""
    if isinstance(source, str):
        return source.split(":")[0] == "cuda"
    if getattr(source, "__name__", "") == "torch.cuda":
        return True
    return type(source).__module__ == "torch" and getattr(source, "type", None) == "cuda"


def trace_of(
    found: Columns, decisions: Mapping[int, Any] | None = None, calls: Sequence[Region] = ()
) -> dict[str, Any]:
    """The columns of a snapshot as the plain data the widget draws."""
    return {
        "device": found.device,
        "events": found.events,
        "segments": found.segments,
        "blocks": found.blocks,
        "actions": found.actions,
        "streams": found.streams,
        "pools": found.pools,
        "notes": found.notes,
        "frames": found.stacks.frames,
        "stack_starts": found.stacks.starts,
        "stack_members": found.stacks.members,
        "settings": found.settings,
        "sizes": TRACE_SIZES,
        "regions": [tuple(region) for region in [*regions(found), *calls]],
        "decisions": dict(decisions or {}),
    }


def columns_of(source: Source, device: int | None) -> Columns:
    """The columns of one device of the source, made once."""
    if source.found is None:
        source.found = columns(source.reread(), device)
    return source.found


def read_trace(source: Source, device: int | None) -> dict[str, Any]:
    """The trace of one device of the source; what is wrong with it is added to the remarks."""
    found = columns_of(source, device)
    source.remarks += [f"Not as PyTorch writes it: {finding}." for finding in findings(found)]
    return trace_of(found, source.decisions, source.calls)


def look(allocator: CachingAllocator) -> dict[str, Any]:
    """The allocator's snapshot, without the trace entry that taking one leaves."""
    history = allocator.history
    return {
        "segments": allocator.memory_map(),
        "device_traces": [[] if history is None else trace_dicts(history)],
        "allocator_settings": allocator.settings.snapshot(),
    }


def _from_allocator(allocator: CachingAllocator) -> Source:
    found = Source("labkit's caching allocator", look(allocator))
    if allocator.history is None:
        found.remarks.append(NO_HISTORY.format(call="allocator.record_memory_history()"))
    else:
        dropped = allocator.history.total - len(allocator.history)
        found.decisions = _why(allocator, dropped)
        found.calls = _empty_cache_calls(allocator, dropped)
    found.device_total = allocator.driver.memory_info()[1]
    return found


def _why(allocator: CachingAllocator, dropped: int) -> dict[int, Any]:
    """The decision behind each entry; its candidates only at the entry that ended it."""
    if allocator.decisions is None:
        return {}
    found: dict[int, Any] = {}
    for decision in allocator.decisions.entries:
        first, end = decision["events"]
        for entry in range(max(first, dropped), end):
            found[entry - dropped] = {"why": decision["why"], "rule": decision["rule"]}
        if end > max(first, dropped) and "candidates" in decision:
            found[end - 1 - dropped]["candidates"] = [
                {
                    "address": candidate["address"],
                    "size": candidate["size"],
                    "stream": str(candidate["stream"]),
                    "verdict": VERDICTS[candidate["verdict"]],
                    "chosen": candidate["verdict"] == "chosen",
                }
                for candidate in decision["candidates"][:LISTED_CANDIDATES]
            ]
    return found


def _empty_cache_calls(allocator: CachingAllocator, dropped: int) -> list[Region]:
    """The entries, often none, of each call of empty_cache that the allocator explained."""
    decisions = [] if allocator.decisions is None else allocator.decisions.entries
    ranges = [entry["events"] for entry in decisions if entry["kind"] == "empty_cache"]
    return [
        Region("empty_cache()", first - dropped, end - dropped, 0)
        for first, end in ranges
        if first >= dropped
    ]


def _from_torch_cuda() -> Source:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            "torch.cuda is not available here, so it has no memory to show; show.memory also "
            "takes labkit's allocator or a snapshot file"
        )
    found = Source(torch.cuda.get_device_name(), torch.cuda.memory._snapshot())
    found.device_total = torch.cuda.mem_get_info()[1]
    if not any(found.reread()["device_traces"]):
        found.remarks.append(NO_HISTORY.format(call="torch.cuda.memory._record_memory_history()"))
    return found


def _checked(source: Source) -> Source:
    traces = source.reread()["device_traces"] if source.found is None else [source.found]
    if not any(map(len, traces)):
        source.remarks.append(
            "This snapshot holds no trace: it was taken without _record_memory_history, so only "
            "the final map can be shown."
        )
    return source
