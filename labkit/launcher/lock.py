"""One set-up at a time in one folder: two installers at once tear each other's packages."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def only_one(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder's set-up lock; wait, and say so, while somebody else does.

    The operating system lets go of it when the last process that inherited it ends: also after a
    kill, and not before an installer that outlived its lab.py has ended.
    """
    folder = root / ".lab"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is at work in this folder: waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
