"""Recorded runs as spans: read from and written to Chrome's trace format, and drawn by depth."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labkit.cuda.simulated_run import Span

KINDS: dict[str, str] = {
    "cpu_op": "host",
    "user_annotation": "host",
    "python_function": "host",
    "cuda_runtime": "host",
    "cuda_driver": "host",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "copy",
}
"""Category of an event in torch.profiler's file -> kind of work; others are left out."""


class TraceError(ValueError):
    """A file is no trace; the message says why."""


def read_trace(path: str | Path) -> list[Span]:
    """The spans of a trace file in the order in which they begin, from 0 on, in µs.

    Files of torch.profiler and of `write_trace` are understood. What a span waited for is in
    `after` when the file says so.

    Raises   TraceError   it is not a trace, or holds no work
             OSError      it cannot be read
    """
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        events = given["traceEvents"] if isinstance(given, dict) else given
        found = [_span(event) for event in events if _is_work(event)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TraceError(f"{path} is not a trace in Chrome's format: {error!r}") from None
    if not found:
        raise TraceError(f"{path} holds no work of a host or a device")
    zero = min(span["start"] for span in found)
    for span in found:
        span["start"], span["end"] = span["start"] - zero, span["end"] - zero
    if any("after" in span for span in found):
        return found  # `after` holds places in this list
    return sorted(found, key=lambda span: (span["start"], -span["end"]))


def write_trace(spans: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """A file that `read_trace` and the viewers of browsers can read."""
    events = []
    for span in spans:
        about = {key: value for key, value in span.items() if key not in ("name", "start", "end")}
        events.append(
            {"ph": "X", "cat": "labkit", "name": span["name"], "pid": 0, "tid": span["lane"],
             "ts": span["start"], "dur": span["end"] - span["start"], "args": about}
        )  # fmt: skip
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


def by_depth(spans: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same spans from time 0 on, each in a lane below its caller's: drawn, a flame graph."""
    rows, around = [], list[Mapping[str, Any]]()
    order = sorted(spans, key=lambda span: (span["lane"], span["start"], -span["end"]))
    zero = min((span["start"] for span in order), default=0)
    for span in order:
        while around and (around[-1]["lane"] != span["lane"] or around[-1]["end"] <= span["start"]):
            around.pop()
        around.append(span)
        times = {"start": span["start"] - zero, "end": span["end"] - zero}
        rows.append({**span, **times, "lane": f"{span['lane']}, {len(around)}"})
    return sorted(rows, key=lambda row: (row["lane"].split(", ")[0], len(row["lane"]), row["lane"]))


def _is_work(event: Mapping[str, Any]) -> bool:
    category = event.get("cat")
    return event.get("ph") == "X" and (category == "labkit" or category in KINDS)


def _span(event: Mapping[str, Any]) -> Span:
    start, length = float(event["ts"]), float(event["dur"])
    category = str(event["cat"])
    if not length >= 0:
        raise ValueError(f"{event['name']!r} lasts {length} µs")
    span = {"name": str(event["name"]), "start": start, "end": start + length}
    about = event.get("args", {})
    if category == "labkit":
        return {**about, **span}
    kind, name = KINDS[category], str(event["name"])
    if category.startswith("cuda_") and "Synchronize" in name:
        kind = "wait"
    elif name.startswith("enumerate(DataLoader)"):
        kind = "input"
    stream = about.get("stream") if kind in ("kernel", "copy") else None
    lane = f"thread {event['tid']}" if stream is None else f"stream {stream}"
    more = {key: about[key] for key in ("correlation",) if key in about}
    return {**span, "lane": lane, "kind": kind, **more}
