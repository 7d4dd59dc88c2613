"""What the running cell tells while a large file is read, and what it does after its output."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labkit.memory.snapshots.restricted_pickle import collector_paused

TOLD_BYTES = 20_000_000
"""Smaller files are read before one could look."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Callable[[float], None] | None]:
    """A function to call with the fraction read, or None where nothing needs to be told."""
    shell = sys.modules.get("IPython")
    if shell is None or shell.get_ipython() is None or path.stat().st_size < TOLD_BYTES:
        yield None
        return
    size = f"{path.name} ({path.stat().st_size / 1e6:.0f} MB)"
    line = _Line(f"reading {size}")
    began = time.monotonic()
    yield lambda fraction: line.write(f"reading {size}: {fraction:.0%}")
    line.write(f"read {size} in {time.monotonic() - began:.1f} s")


def after_this_cell(work: Callable[[], None]) -> None:
    """The work is done when the cell has shown its result; at once where no notebook runs."""
    module = sys.modules.get("IPython")
    shell = module and module.get_ipython()
    if shell is None:
        work()
        return

    def once(*_: Any) -> None:
        shell.events.unregister("post_run_cell", once)
        with collector_paused():
            work()

    shell.events.register("post_run_cell", once)


class _Line:
    """One line of output that can be written over."""

    def __init__(self, text: str) -> None:
        from IPython import display

        show: Any = display.display  # untyped in IPython
        self._handle = show({"text/plain": text}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        self._handle.update({"text/plain": text}, raw=True)
