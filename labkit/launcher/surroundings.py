"""What every process takes for granted and may lack: three open streams, and a home."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from labkit.launcher.problem import quoted


def open_streams() -> None:
    """stdin, stdout and stderr are open, and a reader that leaves ends the program quietly."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # a pipe must see titles before what they announce
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `lab.py --help | head -1`


def open_closed_streams() -> None:
    """stdin, stdout and stderr are open; those that were not lead nowhere.

    A closed one would hand its number to the next file that is opened, and a child's messages
    would be written there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def provide_home(root: Path, say: Callable[[str], None] = print) -> None:
    """HOME is a folder that can be written to; where the user has none, a private one in the lab.

    pip, JupyterLab, IPython, matplotlib and labkit keep settings and caches below it.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path.home raises where there is no user)
    if home.is_absolute() and home.is_dir() and os.access(home, os.W_OK | os.X_OK):
        os.environ["HOME"] = str(home)
        return
    own = root / ".lab" / "home"
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # the lab itself is read-only
        own = Path(tempfile.mkdtemp(prefix="lab-home-"))
    told = "HOME is not set" if str(home) == "~" else f"HOME, {quoted(home)}, cannot be written to"
    say(f"{told}: settings and caches go to {quoted(own)}.")
    os.environ["HOME"] = str(own)
