# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False
"""Kernels of a learner's server that are forked from a warm process, not started anew."""

import contextlib
import importlib.metadata
import json
import os
import signal
import socket
import time
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

NAME = "labkit-forked"
KERNELS = "LABKIT_KERNELS"
"""Names the descriptor of the keeper's socket in the server's environment."""
ANSWER_BYTES = 64


def offer_forked_kernels() -> None:
    """Every kernel of this process is forked, unless its kernelspec says otherwise."""
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = importlib.metadata.EntryPoint(
        NAME, f"{__name__}:ForkedKernel", KernelProvisionerFactory.GROUP_NAME
    )
    factory.default_provisioner_name = NAME


class ForkedProcess:
    """A process that is somebody else's child, with what is asked of a `Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 1
        return None

    def wait(self) -> int:
        """Return once it is gone."""
        while self.poll() is None:
            time.sleep(0.02)
        return 1

    def send_signal(self, number: int) -> None:
        """It gets the signal, where it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """It is gone."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """It is asked to go."""
        self.send_signal(signal.SIGTERM)


class ForkedKernel(LocalProvisioner):
    """Asks the keeper of the cell for a fork, where the local one starts an interpreter."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """The kernel runs; the arguments are those after `python -m ipykernel_launcher`."""
        request = {
            "arguments": cmd[cmd.index("-m") + 2 :],
            "environment": kwargs["env"],
            "folder": kwargs.get("cwd") or os.getcwd(),  # noqa: PTH109
        }
        keeper = socket.socket(fileno=os.dup(int(os.environ[KERNELS])))
        with keeper:
            keeper.send(json.dumps(request).encode())
            self.process = ForkedProcess(int(keeper.recv(ANSWER_BYTES)))
        self.pid = self.pgid = self.process.pid
        return self.connection_info
