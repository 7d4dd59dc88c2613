"""Open JupyterLab at the first notebook, on this machine only."""

import os
import socket
from pathlib import Path
from typing import NoReturn

from labkit.launcher.environment import Environment
from labkit.launcher.problem import Problem

EXTENSIONS = Path(__file__).parents[1] / "widgets" / "jupyterlab"
FIRST_NOTEBOOK = "notebooks/0_start_here.ipynb"
NO_FOREIGN_CODE = "--ServerApp.contents_manager_class=labkit.widgets.contents.LabContentsManager"
"""Opening a notebook runs no JavaScript that came in its file."""
LATE_MODELS = f"--LabApp.extra_labextensions_path={EXTENSIONS}"
"""A saved widget that arrives late on a busy machine is drawn all the same."""


def open_lab(environment: Environment, port: int | None, extra: list[str]) -> NoReturn:
    """Turn this process into JupyterLab, so that stopping it stops the server, too.

    port   None lets JupyterLab take the first free one from 8888 on
    extra  arguments for JupyterLab itself

    Raises   Problem   the port that was asked for is taken
    """
    command = [
        str(environment.python), "-m", "jupyterlab",
        f"--ServerApp.root_dir={environment.root}",
        f"--LabApp.default_url=/lab/tree/{FIRST_NOTEBOOK}",
        "--ServerApp.ip=127.0.0.1",  # this machine only; the token in the address is the key
        "--LabApp.extension_manager=readonly",  # nothing is looked up on the network
        NO_FOREIGN_CODE,
        LATE_MODELS,
    ]  # fmt: skip
    if port is not None:
        check_free(port)
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    os.chdir(environment.root)
    os.execve(command[0], [*command, *extra], environment.variables)


def check_free(port: int) -> None:
    """Nobody listens at that port of this machine.

    Raises   Problem   somebody does, or the number is no port
    """
    if not 0 <= port <= 65535:
        raise Problem(f"--port {port} is not a port.", "use a number from 1024 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Problem(
                f"Port {port} cannot be used: {error.strerror}.",
                "choose another with --port, or leave --port out and the first free one is taken.",
            ) from None
