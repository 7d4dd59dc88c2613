"""`python -m labkit.workshop.cell.warm SOCKET`: has imported everything, and forks cells.

It is asked over a socket that only its own user may open: one JSON object a connection. What every
learner's server and kernels need is imported once, here, and shared by all of them.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from labkit.workshop.cell import linux
from labkit.workshop.cell.keeper import REQUEST_BYTES, keep
from labkit.workshop.cell.walls import enter, from_json

IMPORTED = (
    "torch", "torch._dynamo", "labkit", "labkit.show", "labkit.course", "labkit.course.checks",
    "labkit.course.cards", "labkit.course.predictions", "labkit.course.checked_claims",
    "labkit.widgets.contents", "labkit.workshop.presence", "labkit.workshop.cell.kernels",
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipywidgets", "anywidget",
    "jupyter_server.serverapp", "jupyterlab.labapp", "jupyterhub.singleuser.extension",
)  # fmt: skip


def main(address: str) -> None:
    """Serve until asked to stop; children live on."""
    for name in IMPORTED:
        importlib.import_module(name)
    from labkit.course import exercises

    for module in exercises.modules():
        exercises.in_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every object, and so copy it
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, _reap)
    Path(address).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        os.umask(0o077)
        listening.bind(address)
        listening.listen(64)
        while True:
            connection, _ = listening.accept()
            with connection:
                _answer(connection, listening)


def _reap(*_: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _answer(connection: socket.socket, listening: socket.socket) -> None:
    asked = b""
    while not asked.endswith(b"\n") and len(asked) < REQUEST_BYTES:
        part = connection.recv(1 << 16)
        if not part:
            return
        asked += part
    request = json.loads(asked)
    if request.get("stop"):
        connection.sendall(b'{"stopped": true}\n')
        raise SystemExit(0)
    if os.fork():
        return
    try:
        listening.close()
        _be_cell(connection, request)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _be_cell(connection: socket.socket, request: dict[str, Any]) -> None:
    """In the helper: the cell is made, its number said, and the helper gone."""
    try:
        pid = enter(from_json(request["cell"]))
    except OSError as error:
        connection.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        os._exit(1)
    if pid:
        connection.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        os._exit(0)
    connection.close()
    with open(request["log"], "ab", buffering=0) as log:  # noqa: PTH123
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    keep(request["environment"], request["arguments"], request["folder"])


def ask(address: Path, request: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
    """The warm process's answer.

    Raises   OSError   nobody answers there, or it could not do it
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(str(address))
        connection.sendall(json.dumps(request).encode() + b"\n")
        told = b""
        while not told.endswith(b"\n"):
            part = connection.recv(1 << 16)
            if not part:
                raise OSError("the warm process has hung up")
            told += part
    answer: dict[str, Any] = json.loads(told)
    if "error" in answer:
        raise OSError(answer["error"])
    return answer


if __name__ == "__main__":
    main(sys.argv[1])
