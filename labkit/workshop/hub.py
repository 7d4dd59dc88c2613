# mypy: disallow-subclassing-any=False
"""The two parts of JupyterHub that are ours: who may enter, and where their server runs."""

import asyncio
import os
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.utils import random_port

from labkit.launcher.jupyter import LATE_MODELS, NO_FOREIGN_CODE
from labkit.workshop.calls import CALLED
from labkit.workshop.cell.warm import ask
from labkit.workshop.folders import Workshop, cell_of, provide
from labkit.workshop.roster import Person, read_roster

FOLDER = "LABKIT_WORKSHOP"
KEPT = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "TZ")
SERVER = (
    "--LabApp.extension_manager=readonly",  # nothing is looked up on the network
    "--ServerApp.terminals_enabled=False",
    "--KernelManager.transport=ipc",  # a socket in a folder of the learner's, not a port
    "--LabServerApp.workspaces_dir=/tmp/workspaces",
    NO_FOREIGN_CODE,
    LATE_MODELS,
)


def workshop() -> Workshop:
    """The workshop of this hub."""
    return Workshop(Path(os.environ[FOLDER]))


class Passwords(Authenticator):
    """Lets in who is on the roster and knows the password printed for them."""

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        """The name, or None."""
        person = read_roster(workshop().roster).get(data["username"])
        known = person is not None and await asyncio.to_thread(person.knows, data["password"])
        return person.name if person and known else None


class CellSpawner(LocalProcessSpawner):
    """Runs each person's server in a cell, forked from the warm process."""

    def _person(self) -> Person:
        return read_roster(workshop().roster)[self.user.name]

    def get_env(self) -> dict[str, str]:
        """The hub's variables for a server, and where the learner's things lie."""
        place = workshop()
        home = place.of(self.user.name)
        hub = {k: v for k, v in super().get_env().items() if k.startswith("JUPYTERHUB_")}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {
            **kept,
            **hub,
            "HOME": str(home),
            "USER": self.user.name,
            "SHELL": "/bin/sh",
            "PYTHONPATH": str(place.course),
            "OMP_NUM_THREADS": "1",
            "IPYTHONDIR": str(home / ".ipython"),
            "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",
            "JUPYTER_CONFIG_PATH": f"{place.course}/labkit/workshop/jupyter",
            "LABKIT_PROGRESS": str(home / "progress.json"),
            "LABKIT_ROOM": str(home / "room.json"),
            CALLED: str(place.called),
        }

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Nothing of the machine's own list of users: learners are not on it."""
        return env

    def _server_options(self, place: Workshop) -> list[str]:
        """Where the server's files lie, and after how long it and its kernels are put away."""
        idle = place.settings["idle"] * 60
        return [
            f"--ServerApp.root_dir={place.course}",
            f"--MappingKernelManager.cull_idle_timeout={idle}",
            "--MappingKernelManager.cull_connected=True",  # a page that nobody looks at
            f"--ServerApp.shutdown_no_activity_timeout={idle}",
        ]

    async def start(self) -> tuple[str, int]:
        """The server runs; the warm process said its number.

        Raises   OSError   the walls could not be put up
        """
        self.port = random_port()
        place, person = workshop(), self._person()
        home = await asyncio.to_thread(provide, place, person)
        request = {
            "cell": vars(cell_of(place, person, place.settings["memory"])),
            "environment": self.get_env(),
            "arguments": [*self.get_args(), *self._server_options(place), *SERVER],
            "folder": str(place.course),
            "log": str(home / "server.log"),
        }
        answer = await asyncio.to_thread(ask, place.warm, request)
        self.proc, self.pid = None, answer["pid"]
        return "127.0.0.1", self.port
