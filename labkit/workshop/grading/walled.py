"""Run one program behind a learner's walls, and end it with all it has started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NoReturn

from labkit.workshop.cell.walls import Cell, enter, from_json

NO_WALLS = 3
"""The exit status where a wall cannot be put up."""


def run_walled(
    cell: Cell | None, command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> str:
    """Run `command` in `cell`, for so long at most on the wall; returns what went wrong, or "".

    cell   None: without walls, as who asks

    Raises   OSError   a wall cannot be put up
    """
    if cell is not None:
        given = json.dumps({"cell": asdict(cell), "command": list(command)})
        command = (sys.executable, "-m", __name__, given)
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        _, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        told = f"it did not end within {seconds:.0f} s"
        process.returncode = -signal.SIGKILL
    finally:
        _end(process)
    if process.returncode == NO_WALLS:
        raise OSError(told.strip())
    return "" if process.returncode == 0 else told.strip()[-400:] or "it was killed"


def _end(process: "subprocess.Popen[str]") -> None:
    """Nothing of it is left: process 1 of a cell is in its group, and takes the others along."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> NoReturn:
    """Enter the cell that is described on the command line, and run the command there."""
    given = json.loads(sys.argv[1])
    cell = from_json(given["cell"])
    try:
        child = enter(cell)
    except OSError as error:
        sys.stderr.write(str(error))
        sys.exit(NO_WALLS)
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    try:  # process 1: what it starts ends with it
        os._exit(subprocess.run(given["command"], check=False).returncode & 0xFF)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
