"""`show.memory`: where every byte of a caching allocator is, one trace entry at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.memory.replay.replay import replay
from labkit.memory.snapshots.explain_oom import explain_oom
from labkit.memory.snapshots.report import tables
from labkit.memory.snapshots.restricted_pickle import SnapshotError, collector_paused
from labkit.show.memory.live import follow_allocator, follow_torch_cuda
from labkit.show.memory.progress import after_this_cell
from labkit.show.memory.sources import (
    Source,
    allocator_of,
    columns_of,
    names_torch_cuda,
    read_source,
    read_trace,
)
from labkit.widgets.memory.memory_map import MemoryMap, WhatIf
from labkit.widgets.memory.memory_trace import reserved_bytes

WHAT_IF = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "garbage_collection_threshold:0.8",
    "roundup_power2_divisions:4",
)
"""Settings replayed ahead, so that a page without a kernel can compare them."""
REPLAYED_AHEAD = 16_000
"""Entries of a trace that is: one replay of so many takes about a tenth of a second."""


@collector_paused()  # a collection now would walk every dict of the snapshot
def memory(
    *sources: Any,
    live: bool = False,
    every: float = 0.5,
    device: int | None = None,
    title: str = "",
    what_if: Sequence[str] | None = None,
    frame: int | None = None,
    autopsy: Sequence[str] | None = None,
    events: tuple[int, int] | None = None,
    whole: bool = False,
    simple: bool = False,
) -> MemoryMap:
    """The memory map of one source, or of two at equal entry numbers.

    sources   an allocator of labkit; a snapshot of PyTorch (file, gzipped file, bytes or dict);
              "cuda" or torch.cuda for the running process. Two of them are compared.
    live      follow a loop that is running: the map grows at most every `every` seconds, until
              `widget.stop()`. labkit's allocator is looked at after its own calls, torch.cuda by
              a thread.
    device    which device of a snapshot; by default the one with the longest trace
    what_if   settings strings to replay the trace under; by default five common ones when the
              trace has at most 16,000 entries, replayed when the map is on the page. More can be
              tried there while a kernel runs.
    frame     how many entries are done at first; by default all
    autopsy   sentences on why memory ran out, shown in a panel of their own; by default what
              `snapshots.explain_oom` finds, where the trace holds an out-of-memory error
    events    (first, last): only these entries of a trace, as of a slice
    whole     everything is kept in the page, however large: for one that no kernel will serve
    simple    only the bars, what their colours mean, and a sentence for each step; a button shows
              all panels. A block carries the recording's user_metadata, if any was set. No
              settings are replayed ahead, unless `what_if` names some

    Raises   TypeError      a source is none of these, or there are not one or two
             RuntimeError   torch.cuda was asked for and there is none
             SnapshotError, FileNotFoundError   as `labkit.memory.snapshots.snapshot.load`
    """
    if not 1 <= len(sources) <= 2:
        raise TypeError(f"show.memory takes one source, or two to compare; got {len(sources)}")
    if live:
        return _live(sources, every, title)
    found = [read_source(source, device, events) for source in sources]
    traces = [read_trace(source, device) for source in found]
    first = found[0]
    total = first.device_total or _total_from_trace(traces[0])
    entries = len(traces[0]["events"]["action"])
    run = _replayer(first, traces[0]["device"], total) if entries else None
    if what_if is None:
        what_if = WHAT_IF if run and entries <= REPLAYED_AHEAD and not simple else ()
    if autopsy is None:
        autopsy = _autopsy(first, traces[0])
    view = MemoryMap(
        *traces,
        title=title or " and ".join(source.name for source in found),
        titles=[source.name for source in found],
        replay=run,
        remarks=[remark for source in found for remark in source.remarks],
        autopsy=autopsy,
        tables=lambda: [
            table.as_dict() for table in tables(*(columns_of(source, device) for source in found))
        ],
        whole=whole,
        frame=entries if frame is None else frame,
        simple=simple,
    )
    if run:
        after_this_cell(lambda: _compare(view, run, what_if))
    return view


def _compare(view: MemoryMap, run: WhatIf, what_if: Sequence[str]) -> None:
    """The map has a row for each of the settings, or says why it cannot."""
    try:
        view.what_if = [dict(run(settings)) for settings in what_if]
    except SnapshotError as error:
        view.remark(f"Other settings cannot be tried: {error}")


def _autopsy(source: Source, trace: Mapping[str, Any]) -> Sequence[str]:
    """Why the last request that ran out found no room; nothing where none did."""
    ran_out = list(trace["actions"]).index("oom")
    if not (trace["events"]["action"] == ran_out).any():
        return ()
    try:
        return explain_oom(source.reread(), trace["device"]).sentences
    except SnapshotError as error:
        source.remarks.append(f"Why memory ran out is not known: {error}")
        return ()


def _replayer(source: Source, device: int, total: int | None) -> Callable[[str], Mapping[str, Any]]:
    def run(settings: str) -> dict[str, Any]:
        result = replay(source.reread(), settings, device_total=total, device=device)
        return {
            "settings": settings,
            "peak_reserved": result.peak_reserved,
            "peak_allocated": result.peak_allocated,
            "fragmentation": result.fragmentation,
            "retries": result.retries,
            "ran_out": result.ran_out or "",
        }

    return run


def _total_from_trace(trace: Mapping[str, Any]) -> int | None:
    """What the device had when it ran out: reserved and free bytes of that moment."""
    events = trace["events"]
    ooms = (events["action"] == list(trace["actions"]).index("oom")).nonzero()[0]
    if not len(ooms):
        return None
    at = int(ooms[0])
    return int(reserved_bytes(trace)[at]) + int(events["address"][at])


def _live(sources: Sequence[Any], every: float, title: str) -> MemoryMap:
    if len(sources) != 1:
        raise TypeError("live follows one source; compare two snapshots instead")
    if not every > 0:
        raise ValueError(f"every is a time in seconds above 0, got {every!r}")
    allocator = allocator_of(sources[0])
    if allocator is not None:
        return follow_allocator(allocator, every, title)
    if names_torch_cuda(sources[0]):
        return follow_torch_cuda(every, title)
    raise TypeError(
        f"live follows an allocator of labkit or torch.cuda, not a {type(sources[0]).__name__}"
    )
