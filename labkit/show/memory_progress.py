"""Tells under the running cell how much of a large file has been read."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


class _Line:
    """One line of output that can be written over."""

    def __init__(self, text: str) -> None:
        from IPython import display

        show: Any = display.display  # untyped in IPython
        self._handle = show({"text/plain": text}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        self._handle.update({"text/plain": text}, raw=True)
