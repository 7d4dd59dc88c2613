"""Process 1 of a cell: it forks the learner's server, and for the server its kernels.

A fork shares what the warm process has imported, so a kernel is there at once and holds only what
it changes. The server asks for a kernel over a socket that nobody else has.
"""

import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from labkit.workshop.cell.kernels import KERNELS, offer_forked_kernels

REQUEST_BYTES = 1 << 20


def keep(environment: Mapping[str, str], arguments: list[str], folder: str) -> NoReturn:
    """Run the learner's server until it ends, and end with it; the kernel ends all the rest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    server = 0

    def stop(number: int, _: object) -> None:
        if server:
            os.kill(server, signal.SIGTERM)

    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    theirs.set_inheritable(True)
    variables = {**environment, KERNELS: str(theirs.fileno())}
    server = fork(lambda: _serve(arguments), variables, folder, (ours, woken, wake))
    theirs.close()
    _answer(server, ours, woken, wake)


def _answer(
    server: int, ours: socket.socket, woken: socket.socket, wake: socket.socket
) -> NoReturn:
    import select

    while True:
        ready, _, _ = select.select([ours, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            while (ended := _reaped()) is not None:
                if ended == server:
                    os._exit(0)
        if ours in ready:
            asked = ours.recv(REQUEST_BYTES)
            if not asked:  # the server is going
                ours.close()
                os.waitpid(server, 0)
                os._exit(0)
            request = json.loads(asked)
            arguments = request["arguments"]
            pid = fork(
                lambda: _be_kernel(arguments),  # noqa: B023  (it runs at once, in the fork)
                request["environment"], request["folder"], (ours, woken, wake),
            )  # fmt: skip
            ours.send(str(pid).encode())


def _reaped() -> int | None:
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return pid or None


def fork(
    run: Callable[[], Any],
    environment: Mapping[str, str],
    folder: str,
    close: tuple[socket.socket, ...] = (),
) -> int:
    """Run something in a child with this environment and folder; the child's number."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in close:
            one.close()
        os.setsid()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        run()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve(arguments: list[str]) -> None:
    from jupyterhub.singleuser.extension import main

    offer_forked_kernels()
    sys.argv = ["jupyterhub-singleuser", *arguments]
    main()


def _be_kernel(arguments: list[str]) -> None:
    from ipykernel.kernelapp import IPKernelApp

    with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123  (no Path: it truncates)
        score.write("800")  # where memory runs out a kernel goes, not the room
    refresh_chance()
    noted = "--InteractiveShellApp.extra_extensions=labkit.workshop.presence"
    sys.argv = ["ipykernel_launcher", *arguments, noted]
    IPKernelApp.launch_instance()


def refresh_chance() -> None:
    """A fork draws numbers of its own, and holds no key that its siblings know."""
    import multiprocessing

    import numpy

    random.seed()
    numpy.random.seed()  # noqa: NPY002  (the one that `np.random.rand` uses)
    multiprocessing.current_process().authkey = os.urandom(32)
