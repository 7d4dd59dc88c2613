# mypy: disallow-untyped-calls=False
"""`python -m labkit.workshop.grading.runner HANDED_IN GIVEN OUT`: the notebook, run to its end.

It runs behind the learner's walls. An answer that kills the kernel or does not end is taken out,
and the notebook is run anew without it: the other answers are worth what they are worth.
"""

import contextlib
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from traitlets.config import Config

from labkit.workshop.grading.meter import Bounds, Meter, processes_of

CELL = Bounds(cpu=120, waiting=60)
"""A check limits an answer itself: this ends what is outside of one, or got around it."""
LOOK_SECONDS = 0.5
START_SECONDS = 600


class Watch(threading.Thread):
    """Kills the kernel of a client when a cell does not keep to the bounds; `said` is why."""

    def __init__(self, client: NotebookClient, bounds: Bounds) -> None:
        super().__init__(daemon=True)
        self.client, self.bounds = client, bounds
        self.index, self.said = 0, ""
        self._meter: Meter | None = None
        self._over = threading.Event()
        client.on_cell_execute = self._begin

    def _begin(self, cell: nbformat.NotebookNode, cell_index: int) -> None:
        self.index = cell_index
        kernel: Any = self.client.km
        self._meter = Meter(kernel.provisioner.pid, self.bounds)

    def run(self) -> None:
        """Look, until it is over."""
        while not self._over.wait(LOOK_SECONDS):
            meter = self._meter
            if meter is not None and (said := meter.exceeded()):
                self.said, self._meter = said, None
                for process in processes_of(meter.pid):
                    with contextlib.suppress(psutil.Error):
                        process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self.join()


def run(
    handed_in: nbformat.NotebookNode, given: nbformat.NotebookNode, bounds: Bounds = CELL
) -> None:
    """Every cell of `handed_in` has run; an answer that was taken out says why in its metadata."""
    stubs = {cell["id"]: cell["source"] for cell in given.cells if "exercise" in _tags(cell)}
    while True:
        with tempfile.TemporaryDirectory() as folder:
            client = NotebookClient(
                handed_in, timeout=None, startup_timeout=START_SECONDS, allow_errors=True,
                config=_in_a_folder(folder),
            )  # fmt: skip
            with Watch(client, bounds) as watch:
                try:
                    client.execute()
                    return
                except DeadKernelError:
                    pass
                except CellExecutionError:
                    return
        reason = watch.said or "the kernel died"
        if not _take_out(handed_in.cells[: watch.index + 1], stubs, reason):
            return


def _in_a_folder(folder: str) -> Config:
    """The kernel is spoken to over sockets in a folder, short enough for their addresses.

    A port is chosen before the kernel takes it, and papers run side by side: another one may have
    taken it by then, and a kernel that does not start earns nothing.
    """
    return Config(
        KernelManager={"transport": "ipc", "connection_file": str(Path(folder, "kernel.json"))}
    )


def _take_out(cells: list[nbformat.NotebookNode], stubs: dict[str, str], reason: str) -> bool:
    """The last answer above is the given stub again; False where no answer is left to blame."""
    for cell in reversed(cells):
        stub = stubs.get(cell["id"])
        if stub is not None and cell["source"] != stub:
            cell["source"] = stub
            cell["metadata"]["taken_out"] = reason
            return True
    return False


def _tags(cell: nbformat.NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def main() -> None:
    """Run the notebook named on the command line."""
    handed_in, given, out = map(Path, sys.argv[1:])
    os.chdir(handed_in.parent)
    notebook = nbformat.read(handed_in, as_version=4)
    run(notebook, nbformat.read(given, as_version=4))
    nbformat.write(notebook, out)


if __name__ == "__main__":
    main()
