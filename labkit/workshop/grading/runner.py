# mypy: disallow-untyped-calls=False
"""`python -m labkit.workshop.grading.runner HANDED_IN GIVEN OUT`: the notebook, run to its end.

It runs behind the learner's walls. An answer that kills the kernel or does not end is taken out,
and the notebook is run anew without it: the other answers are worth what they are worth.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

CELL_SECONDS = 120
"""On the wall: a check limits an answer's CPU time itself, and this only ends what waits."""
TROUBLES = {DeadKernelError: "the kernel died", CellTimeoutError: "it did not end"}


def run(handed_in: nbformat.NotebookNode, given: nbformat.NotebookNode) -> None:
    """Every cell of `handed_in` has run; an answer that was taken out says why in its metadata."""
    stubs = {cell["id"]: cell["source"] for cell in given.cells if "exercise" in _tags(cell)}
    while True:
        client = NotebookClient(handed_in, timeout=CELL_SECONDS, allow_errors=True)
        reached = [0]
        client.on_cell_execute = lambda cell, cell_index, reached=reached: reached.append(
            cell_index
        )
        try:
            client.execute()
            return
        except tuple(TROUBLES) as trouble:
            if not _take_out(handed_in.cells[: reached[-1] + 1], stubs, TROUBLES[type(trouble)]):
                return
        except CellExecutionError:
            return


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
