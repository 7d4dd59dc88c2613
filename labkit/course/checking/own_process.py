"""Asks an answer in a process of its own: one that ends its process is wrong, and harms nobody."""

import contextlib
import dataclasses
import faulthandler
import gc
import os
import pickle
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.course.checking.verdicts import NotAttempted
from labkit.course.exercise import Evidence, Exercise

CAN = sys.platform == "linux"
"""Elsewhere a forked child may not survive what its parent has loaded."""
Note = Callable[[int, tuple[Any, ...]], None]
Found = list[Evidence]


class Ended(Exception):
    """The answer ended its process.

    number, inputs   of the case it was asked then
    how              in words
    """

    def __init__(self, number: int, inputs: tuple[Any, ...], how: str) -> None:
        super().__init__(how)
        self.number, self.inputs, self.how = number, inputs, how


def in_own_process(exercise: Exercise, ask: Callable[[Note], Found]) -> Found:
    """What `ask` returns, from a forked child whose files go away with it.

    ask   gets a function to call with the number and the inputs of every case, before it is asked

    Raises   Ended          the child did not live to return
             RuntimeError   `ask` raised something else; the text has its traceback
             NotAttempted   as `ask` does
    """
    with tempfile.TemporaryDirectory() as folder:
        noted, told, broken = (Path(folder) / name for name in ("noted", "told", "broken"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the kernel has other threads
            child = os.fork()
        if child == 0:
            _child(ask, folder, noted, told, broken)
        status = _waited(child)
        if status and broken.exists():
            raise RuntimeError(f"the check itself failed:\n{broken.read_text(encoding='utf-8')}")
        if status:
            number, inputs = pickle.loads(noted.read_bytes())
            raise Ended(number, inputs, _in_words(status))
        found = pickle.loads(told.read_bytes())
    if found is None:
        raise NotAttempted(exercise)
    return found  # type: ignore[no-any-return]


def _child(
    ask: Callable[[Note], Found], folder: str, noted: Path, told: Path, broken: Path
) -> None:
    """Ask, tell, and end here: nothing of the parent's is closed or flushed."""
    try:
        faulthandler.disable()
        gc.freeze()  # what the parent made is not looked through again
        tempfile.tempdir = folder
        try:
            found = ask(lambda *case: _write(noted, case))
        except NotAttempted:
            told.write_bytes(pickle.dumps(None))
        except Exception:
            broken.write_text(traceback.format_exc(), encoding="utf-8")
            os._exit(1)
        else:
            told.write_bytes(_pickled(found))
        os._exit(0)
    finally:
        os._exit(1)


def _write(noted: Path, case: Any) -> None:
    noted.write_bytes(pickle.dumps(case))


def _pickled(found: Found) -> bytes:
    """The evidence; without the values themselves where they cannot travel."""
    with contextlib.suppress(Exception):
        return pickle.dumps(found)
    return pickle.dumps([dataclasses.replace(one, value=None) for one in found])


def _waited(child: int) -> int:
    """Its status once it has ended; an interruption ends it."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise


def _in_words(status: int) -> str:
    if status == -signal.SIGSEGV or status == -signal.SIGBUS:
        return "ended the process: it used memory that was not there (any more)"
    by = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return f"ended the process: {by}"
