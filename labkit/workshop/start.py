"""`labkit workshop start`: the room on this machine, until Ctrl-C; the same command goes on."""

import argparse
import contextlib
import fcntl
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from labkit.launcher.jupyter import check_free
from labkit.launcher.problem import Problem
from labkit.workshop.cell.warm import ask
from labkit.workshop.folders import Workshop, cell_of, prepare, provide
from labkit.workshop.roster import TEACHER, admit, names_from, read_roster, seats

GIB = 1 << 30
NEEDED = ("jupyterhub", "configurable_http_proxy")
FOLDER = "LABKIT_WORKSHOP"
INNER_PORTS = ("hub_port", "proxy_port", "room_port")
WARM_SECONDS = 120
RESTARTS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument("--learners", type=Path, metavar="FILE", help="a name on each line")
    parser.add_argument("--folder", type=Path, default=Path("workshop"), help="where it is kept")
    parser.add_argument(
        "--lan", action="store_true", help="let others on this network in; else this machine only"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--memory", type=float, default=2.0, help="GiB that one program may hold")
    parser.add_argument("--idle", type=int, default=90, help="minutes until a server is put away")
    parser.add_argument(
        "--new-passwords", action="store_true", help="make and print a new one for everybody"
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the room and stay; 0 when it was stopped in order."""
    try:
        return _run(arguments)
    except (Problem, OSError, ValueError) as trouble:
        print(f"labkit workshop start: {trouble}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    os.umask(0o022)  # learners, who may be other users, read the course
    _check_installed()
    place = Workshop(arguments.folder.resolve())
    place.hub.mkdir(parents=True, exist_ok=True)
    with (place.hub / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(
                f"The workshop in {place.root} is running already.",
                "stop it there with Ctrl-C, or name another --folder and another --port.",
            ) from None
        return _open(place, arguments)


def _open(place: Workshop, arguments: argparse.Namespace) -> int:
    end_leftovers(place)
    check_free(arguments.port)
    learners = arguments.learners
    known = set(read_roster(place.roster)) - {TEACHER}
    names = names_from(learners.read_text(encoding="utf-8")) if learners else sorted(known)
    settings = {
        "ip": "0.0.0.0" if arguments.lan else "127.0.0.1",
        "port": arguments.port,
        **_inner_ports(place),
        "memory": int(arguments.memory * GIB),
        "idle": arguments.idle,
        "hours": arguments.hours,
    }
    prepare(place, settings)
    made = admit(place.roster, names or seats(), anew=arguments.new_passwords)
    warm_up(place)
    _try_walls(place)
    _tell(place, made, arguments.lan)
    return _stay(place)


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not sys.platform.startswith("linux"):
        raise Problem(
            "A workshop runs on Linux only: its walls between learners are Linux's.",
            "start it on a Linux machine, or in a virtual one; learners may use any browser.",
        )
    if missing:
        has_pip = importlib.util.find_spec("pip") is not None
        how = f"{sys.executable} -m pip install" if has_pip else "uv pip install"
        raise Problem(
            f"Not installed: {', '.join(missing)}.",
            f"{how} -c constraints.txt -e '.[workshop]'",
        )


def end_leftovers(place: Workshop) -> None:
    """The hub and the proxy of a start that was killed are gone; learners' servers live on."""
    for name, program in (("jupyterhub", "jupyterhub"), ("proxy", "configurable-http-proxy")):
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            pid = int((place.hub / f"{name}.pid").read_text(encoding="ascii"))
            process = psutil.Process(pid)
            if any(program in word for word in process.cmdline()):
                process.kill()
                process.wait(10)


def _inner_ports(place: Workshop) -> dict[str, int]:
    """Where hub, proxy and page talk; servers that live on know the ones before."""
    if _is_warm(place):
        return {key: value for key, value in place.settings.items() if key in INNER_PORTS}
    return {name: _free_port() for name in INNER_PORTS}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def warm_up(place: Workshop) -> None:
    """The warm process answers; one that survived a crash, with its learners, is kept.

    Raises   Problem   it does not start
    """
    if _is_warm(place):
        return
    environment = {
        **os.environ, "PYTHONPATH": str(place.course), "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "LABKIT_PROGRESS": "off",
    }  # fmt: skip
    with (place.hub / "warm.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "labkit.workshop.cell.warm", str(place.warm)],
            env=environment, cwd=place.course, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the hub's business
        )  # fmt: skip
    deadline = time.monotonic() + WARM_SECONDS
    while not _is_warm(place):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Problem(
                "The process that learners' programs are forked from did not start.",
                f"read {place.hub / 'warm.log'}",
            )
        time.sleep(0.1)


def _is_warm(place: Workshop) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(place.warm))
    except OSError:
        return False
    return True


def _try_walls(place: Workshop) -> None:
    """A cell can be made here, and what must be seen in it is seen.

    Raises   Problem   with what to do about it
    """
    person = read_roster(place.roster)[TEACHER]
    home = provide(place, person)
    request = {
        "cell": vars(cell_of(place, person, place.settings["memory"])),
        "environment": {"HOME": str(home)},
        "arguments": ["--version"],
        "folder": str(place.course),
        "log": str(home / "server.log"),
    }
    try:
        ask(place.warm, request)
    except OSError as error:
        raise Problem(
            f"This machine gives learners no walls between each other: {error}.",
            "start it as root (sudo): each learner is then a user of their own. Some systems "
            "keep namespaces from other users, and some containers from everybody.",
        ) from None


def _tell(place: Workshop, made: dict[str, str], lan: bool) -> None:
    settings = place.settings
    host = socket.gethostname() if lan else "127.0.0.1"
    address = f"http://{host}:{settings['port']}"
    print(f"The room: {address}  (folder {place.root})")
    print(f"Your page: {address}/services/room/, as {TEACHER}")
    if lan:
        print("Everybody on this network can reach it, and passwords travel unencrypted.")
    if made:
        print("Names to log in with, and passwords, shown this once:")
        for name, password in made.items():
            print(f"  {name:<32}{password}")
    else:
        print("Passwords are those of the first start; --new-passwords makes new ones for all.")
    print("Ctrl-C ends the workshop; the same command goes on with it.", flush=True)


def _stay(place: Workshop) -> int:
    """Run the hub, anew when it crashes, until somebody stops it."""
    stopping = False
    hub: subprocess.Popen[bytes] | None = None

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        if hub is not None:
            with contextlib.suppress(ProcessLookupError):
                hub.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    for _ in range(RESTARTS):
        hub = _start_hub(place)
        hub.wait()
        if stopping:
            break
        print("The hub has stopped by itself and is started again.", file=sys.stderr, flush=True)
    cool_down(place)
    print("The workshop has ended. Everything is in its folder.")
    return 0 if stopping else 1


def _start_hub(place: Workshop) -> subprocess.Popen[bytes]:
    config = Path(__file__).with_name("hub_config.py")
    with (place.hub / "hub.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(config)],
            env={**os.environ, FOLDER: str(place.root)}, cwd=place.hub, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def cool_down(place: Workshop) -> None:
    """The warm process is gone."""
    with contextlib.suppress(OSError):
        ask(place.warm, {"stop": True})
