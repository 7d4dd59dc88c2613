"""`labkit optimize TRACE`: what a recorded run waited for, and which setting would help."""

import argparse
import dataclasses
import json
import sys
from typing import Any

from labkit.pipeline.config import ConfigError, load, parse
from labkit.pipeline.profiling.bottleneck import Bottleneck, Roof, bottleneck_of, with_causes
from labkit.pipeline.profiling.trace import TraceError, read_trace
from labkit.pipeline.settings import Settings

ADVICE: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "input": (
        "the work waits for frames: read them ahead of it, in a thread of their own",
        {"processing": {"overlap": True}},
    ),
    "host": (
        "Python sets the pace: give it more frames with each call",
        {"processing": {"batch_size": 8}},
    ),
    "copy": ("copies set the pace: send bytes in place of floats, from pinned memory, ahead", {}),
    "kernel": (
        "arithmetic sets the pace: a smaller type, or less work",
        {"compute": {"precision": "bfloat16"}},
    ),
    "memory": (
        "reading and writing sets the pace: a smaller type, or fewer passes over the data",
        {"compute": {"precision": "bfloat16"}},
    ),
    "idle": ("on the path, nothing runs: look between the pieces in the trace", {}),
}
"""Kind of work on the path -> what to do, and which settings of `labkit video` do it."""
DEVICE_IS_USED, IT_WAITS = 0, 3
"""Exit status: the device's own work sets the pace, or something else does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("trace", metavar="TRACE", help="a file of torch.profiler, or of labkit")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--detect-bottlenecks",
        action="store_true",
        help="what the run waited for; exit status 3 when it was not the device's own work",
    )
    what.add_argument(
        "--auto-optimize", action="store_true", help="settings of labkit video that would help"
    )
    parser.add_argument("--dry-run", action="store_true", help="propose settings, as JSON")
    parser.add_argument("--config", metavar="FILE", help="the settings that the run had")
    parser.add_argument(
        "--roof", nargs=2, type=float, metavar=("GB/S", "GFLOP/S"),
        help="the device's, to tell kernels bound by memory from others",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Say it; 1 with one line of text where it cannot be said."""
    if arguments.auto_optimize and not arguments.dry_run:
        return _refuse("--auto-optimize changes nothing by itself: add --dry-run")
    try:
        settings = load(arguments.config, Settings) if arguments.config else Settings()
        spans = read_trace(arguments.trace)
        if not all("after" in span for span in spans):
            spans = with_causes(spans)
        found = bottleneck_of(spans, _roof(arguments.roof))
    except (TraceError, ConfigError) as error:
        return _refuse(str(error))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return _refuse(f"{arguments.trace} is no recorded run: {error!r}")
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}")
    if arguments.auto_optimize:
        print(json.dumps(report(found, settings), indent=2))
    else:
        print(text(found))
    return DEVICE_IS_USED if set(found.kinds) <= {"kernel", "memory"} else IT_WAITS


def text(found: Bottleneck) -> str:
    """What it was bound by, the evidence and the advice."""
    shares = ", ".join(f"{kind} {share:.0%}" for kind, share in found.shares.items())
    busy = ", ".join(f"{lane} {share:.0%}" for lane, share in found.busy.items())
    lines = [
        f"bound by: {' and '.join(found.kinds) or 'nothing in particular'}",
        f"of the critical path: {shares}",
        f"lanes at work: {busy}",
        *(f"{kind}: {ADVICE[kind][0]}" for kind in found.kinds if kind in ADVICE),
    ]
    if len(found.kinds) != 1:
        lines.append(f"they take turns: side by side, at most {found.most:.1f}x faster")
    return "\n".join(lines)


def report(found: Bottleneck, settings: Settings) -> dict[str, Any]:
    """The same as plain data, with what would change in these settings."""
    wanted: dict[str, dict[str, Any]] = {}
    if len(found.kinds) > 1:  # they take turns
        wanted = {"processing": {"overlap": True}}
    for kind in found.kinds:
        for section, values in ADVICE.get(kind, ("", {}))[1].items():
            wanted.setdefault(section, {}).update(values)
    now = dataclasses.asdict(settings)
    changes = {
        f"{section}.{name}": {"from": now[section][name], "to": value}
        for section, values in wanted.items()
        for name, value in values.items()
        if now[section][name] != value
    }
    parse({section: {**now[section], **values} for section, values in wanted.items()}, Settings)
    return {
        "bound by": found.kinds,
        "shares of the critical path": {k: round(share, 4) for k, share in found.shares.items()},
        "lanes at work": {lane: round(share, 4) for lane, share in found.busy.items()},
        "changes": changes,
    }


def _roof(given: list[float] | None) -> Roof | None:
    if given is None:
        return None
    if not min(given) > 0:
        raise TraceError(f"--roof takes two positive numbers, got {given}")
    return Roof(given[0] * 1e3, given[1] * 1e3)


def _refuse(message: str) -> int:
    print(f"labkit optimize: {message}", file=sys.stderr)
    return 1
