"""Run one program behind a learner's walls and within bounds; all it has started ends with it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import psutil

from labkit.workshop.cell.walls import Cell, enter, from_json
from labkit.workshop.collect import own_bytes
from labkit.workshop.grading.meter import Bounds, Meter, processes_of

NO_WALLS = 3
"""The exit status where a wall cannot be put up."""
LOOK_SECONDS = 0.5
END_SECONDS = 30
LARGEST_OUTPUT = 64 << 20
SAID = 400


def run_walled(
    cell: Cell | None,
    command: Sequence[str],
    environment: Mapping[str, str],
    bounds: Bounds,
    brought: Mapping[str, str],
    kept: Mapping[str, Path],
) -> str:
    """Run `command` in `cell`; returns what went wrong, or "".

    cell     None: without walls, as who asks
    brought  path that is there before the command runs -> file or folder that is copied to it
    kept     path of a file that the command leaves -> where it lies afterwards, if it is one

    Raises   OSError   a wall cannot be put up
    """
    given = {
        "cell": None if cell is None else asdict(cell),
        "command": list(command),
        "brought": dict(brought),
        "kept": {path: str(target) for path, target in kept.items()},
    }
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            (sys.executable, "-m", __name__, json.dumps(given)), env=dict(environment),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            trouble = _watched(process, Meter(process.pid, bounds), said.fileno())
        finally:
            _end(process)
        said.seek(max(0, said.seek(0, os.SEEK_END) - SAID))
        told = said.read().decode(errors="replace").strip()
    if process.returncode == NO_WALLS:
        raise OSError(told)
    return trouble or ("" if process.returncode == 0 else told or "it was killed")


def _watched(process: "subprocess.Popen[bytes]", meter: Meter, said: int) -> str:
    """Return when it has ended, or says which bound it does not keep."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
            return ""
        if os.fstat(said).st_size > LARGEST_OUTPUT:
            return f"it printed more than {LARGEST_OUTPUT >> 20} MiB"
        if trouble := meter.exceeded():
            return trouble


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing of it is left: process 1 of a cell is in its group, and takes the others along."""
    found = processes_of(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    psutil.wait_procs(found, timeout=END_SECONDS)


def main() -> NoReturn:
    """Enter the cell that is described on the command line, and run the command there."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    # Opened outside: the walls, which stand around this process too, make everything read-only.
    kept = {path: _folder_of(target) for path, target in given["kept"].items()}
    if given["cell"] is None:
        child = os.fork()
    else:
        try:
            child = enter(from_json(given["cell"]))
        except OSError as error:
            sys.stderr.write(str(error))
            sys.exit(NO_WALLS)
    if not child:
        for folder, _ in kept.values():
            os.close(folder)
        _run(given["command"], given["brought"])
    _, status = os.waitpid(child, 0)
    for path, (folder, name) in kept.items():
        if (content := own_bytes(Path(path))) is not None:
            out = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
            with os.fdopen(out, "wb") as file:
                file.write(content)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _folder_of(target: str) -> tuple[int, str]:
    path = Path(target)
    return os.open(path.parent, os.O_PATH | os.O_DIRECTORY), path.name


def _run(command: Sequence[str], brought: Mapping[str, str]) -> NoReturn:
    """As process 1 of a cell: what it starts ends with it."""
    try:
        for target, source in brought.items():
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            if Path(source).is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)
        os._exit(subprocess.run(command, check=False).returncode & 0xFF)
    except OSError as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
