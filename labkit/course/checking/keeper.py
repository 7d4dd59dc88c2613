"""Whatever an answer changes of the process is afterwards as it was before."""

import builtins
import contextlib
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

_Settings = tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...]
"""How a setting is read, and how it is written."""

_BUILTINS = vars(builtins)
_HANDLED = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_STREAMS = ("stdin", "stdout", "stderr")
_spare: dict[int, tuple[int, tuple[int, int] | None]] = {}
"""Copies of the descriptors 0, 1 and 2, each with the file it is: an answer may close them all."""


class Output(io.StringIO):
    """What an answer prints; closing it closes nothing."""

    def close(self) -> None:
        """Stay open."""


@contextlib.contextmanager
def kept(put_back: Callable[[], None]) -> Iterator[None]:
    """Around one call of an answer: what the checker itself works with is put back.

    put_back  called before anything else is: gives the checker's names their meaning again

    The collector waits meanwhile: what it would free is none of the answer's doing.
    """
    pid = os.getpid()
    had_builtins = _BUILTINS.copy()
    had = [read() for read, _ in _SETTINGS]
    limit, set_limit = sys.getrecursionlimit(), sys.setrecursionlimit
    gc.disable()
    try:
        yield
    finally:
        if had_builtins != _BUILTINS:  # first: nothing works without them
            _BUILTINS.clear()
            _BUILTINS.update(had_builtins)
        set_limit(limit)  # before anything calls deeper than an answer has left room for
        put_back()
        if os.getpid() != pid:  # a fork that came back as if it were the notebook
            os._exit(1)
        _restore_descriptors()  # before somebody else's file gets the number
        _write_back(_SETTINGS, had)


@contextlib.contextmanager
def libraries_kept() -> Iterator[None]:
    """Around one call and everything that watches it: the settings of torch and NumPy."""
    had = [read() for read, _ in _LIBRARY_SETTINGS]
    try:
        yield
    finally:
        _write_back(_LIBRARY_SETTINGS, had)


@contextlib.contextmanager
def kept_for_all() -> Iterator[None]:
    """Around all calls: what the notebook works with is put back as well.

    What exists already is out of the collector's sight: an answer that collects frees nothing of
    it, and takes no longer in a notebook that holds a million objects. What the process had put
    out of sight before (a workshop's kernels share such memory) stays so.
    """
    had = [read() for read, _ in _RARE_SETTINGS]
    _save_descriptors()
    frozen_before = gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen_before:
            gc.unfreeze()
        _write_back(_RARE_SETTINGS, had)


def _write_back(settings: Any, had: list[Any]) -> None:
    for (read, write), before in zip(settings, had, strict=True):
        if read() != before:
            write(before)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  (a string is cheaper, and compared for every case)
    except OSError:
        return None


def _to_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _to_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _to_path(before: list[str]) -> None:
    sys.path[:] = before


def _to_streams(before: tuple[Any, ...]) -> None:
    sys.stdin, sys.stdout, sys.stderr = before


def _has_timer() -> bool:
    return any(signal.getitimer(signal.ITIMER_REAL))


def _to_timer(before: bool) -> None:
    if not before:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _pop_modes(depth: int) -> None:
    while torch._C._len_torch_function_stack() > depth:
        torch._C._pop_torch_function_stack()


_SETTINGS: _Settings = (
    (_folder, _to_folder),
    (lambda: (sys.stdin, sys.stdout, sys.stderr), _to_streams),
    (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    (torch._C._len_torch_function_stack, _pop_modes),
)
_LIBRARY_SETTINGS: _Settings = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.get_num_threads, torch.set_num_threads),
    (np.geterr, lambda before: np.seterr(**before)),
)


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in _HANDLED]


def _to_handlers(before: list[Any]) -> None:
    for number, handler in zip(_HANDLED, before, strict=True):
        if handler is not None and signal.getsignal(number) is not handler:
            with contextlib.suppress(ValueError):  # only the main thread may, and may have
                signal.signal(number, handler)


_RARE_SETTINGS: _Settings = (
    (lambda: dict(os.environ), _to_environment),
    (lambda: list(sys.path), _to_path),
    (_has_timer, _to_timer),
    (_handlers, _to_handlers),
)


def _which(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _save_descriptors() -> None:
    for number in range(3):
        there = _which(number)
        copy, held = _spare.get(number, (-1, None))
        still_ours = held is not None and _which(copy) == held  # else the number is another's now
        if there is not None and not (still_ours and held == there):
            if still_ours:
                os.close(copy)
            _spare[number] = os.dup(number), there


def _restore_descriptors() -> None:
    for number, (copy, held) in _spare.items():
        if _which(copy) == held != _which(number):
            os.dup2(copy, number)
        original = getattr(sys, f"__{_STREAMS[number]}__")
        if original is not None and original.closed:
            again = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, f"__{_STREAMS[number]}__", again)
