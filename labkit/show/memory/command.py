"""`labkit memory FILE`: a memory snapshot opened without a notebook, and without a network."""

import argparse
import sys
from pathlib import Path

from labkit.memory.snapshots.report import report
from labkit.memory.snapshots.snapshot import SnapshotError
from labkit.show.memory import WHAT_IF, memory
from labkit.show.memory.sources import columns_of, read_source
from labkit.widgets.static_page import widget_page

REPLAYED = 16_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `labkit memory`."""
    parser.add_argument("file", type=Path, help="a snapshot of torch.cuda.memory, gzipped or not")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write the map as one page")
    parser.add_argument(
        "--diff", type=Path, metavar="OTHER", help="compare with a later snapshot or another rank"
    )
    parser.add_argument("--device", type=int, help="by default the one with the longest trace")
    parser.add_argument(
        "--events", type=event_range, metavar="A:B", help="only the entries from A to before B"
    )


def event_range(text: str) -> tuple[int, int]:
    """`A:B` as two numbers; what is left out means the beginning or the end."""
    first, colon, last = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A:B")
    try:
        return int(first or 0), int(last or sys.maxsize)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A:B") from None


def run(arguments: argparse.Namespace) -> int:
    """0 when everything was read and written, 2 when a file could not be."""
    paths = [arguments.file, *([arguments.diff] if arguments.diff else [])]
    try:
        sources = [read_source(path, arguments.device, arguments.events) for path in paths]
        found = [columns_of(source, arguments.device) for source in sources]
        print(f"{arguments.file}")
        print(report(*found))
        if arguments.html:
            small = len(found[0]) <= REPLAYED
            view = memory(
                *sources, device=arguments.device, whole=True, what_if=WHAT_IF if small else ()
            )
            arguments.html.write_text(widget_page(view, arguments.file.name), encoding="utf-8")
            print(f"\n{arguments.html}  {arguments.html.stat().st_size / 1000:,.0f} kB")
    except (SnapshotError, OSError) as error:
        print(f"labkit memory: {error}", file=sys.stderr)
        return 2
    return 0
