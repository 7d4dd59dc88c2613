"""Kernels are forked from a process that has imported torch: pytest -p tests.warm_kernels.

Every notebook has a kernel of its own, and importing torch and ipykernel costs each of them three
seconds of CPU. Nothing of labkit that a notebook uses is imported beforehand, so an import that a
notebook forgets still fails. Where there is no safe fork (macOS) kernels are started as always.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial

from labkit.workshop.cell.keeper import REQUEST_BYTES, fork, refresh_chance
from labkit.workshop.cell.kernels import KERNELS, offer_forked_kernels

CAN = sys.platform.startswith("linux")
IMPORTED = (
    "torch", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.kernelapp", "ipywidgets",
    "anywidget",
)  # fmt: skip


def pytest_configure(config):
    """The kernels of this process are forked, where it comes to start any."""
    if CAN:
        offer_forked_kernels()


def pytest_sessionstart(session):
    """The process is there, unless all this one does is handing out tests to others."""
    if CAN and not session.config.pluginmanager.hasplugin("dsession"):
        os.environ[KERNELS] = str(warm_process())


def warm_process():
    """A descriptor to ask for kernels over; the process behind it ends when nobody holds one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return ours.detach()


def serve(asked):
    """Fork a kernel for each request, until nobody can make one."""
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what has ended is gone
    while request := asked.recv(REQUEST_BYTES):
        wanted = json.loads(request)
        run = partial(be_kernel, os.getpid(), wanted["arguments"])
        pid = fork(run, wanted["environment"], wanted["folder"], (asked,))
        asked.send(str(pid).encode())


def be_kernel(parent, arguments):
    """Run until shut down, or until `parent` is gone."""
    from ipykernel.kernelapp import IPKernelApp

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["JPY_PARENT_PID"] = str(parent)
    refresh_chance()
    sys.argv = ["ipykernel_launcher", *arguments]
    IPKernelApp.launch_instance()


if __name__ == "__main__":
    sys.path.pop(0)  # a notebook sees no module of the tests
    serve(socket.socket(fileno=int(sys.argv[1])))
