"""An answer's clock: how much CPU time it used, and how long nothing of it ran.

Wall time judges nobody, because other programs move it. An answer is stopped when it has used its
CPU time, in this process and in those it started; one that waits for ever uses none, so the
seconds in which nothing of it ran are counted as well. A thread of its own looks, and interrupts
the answer: by a signal, which also ends `time.sleep`, or by an exception put into its thread.

    Differs   a single call into C that never looks at signals ends when it ends; the CPU time it
              took is counted all the same.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from time import monotonic, process_time, sleep, thread_time
from typing import Any

from labkit.core import cpu_time

TICK_SECONDS = 0.05
AGAIN_SECONDS = 0.005
"""How soon an answer that swallowed the interruption is interrupted again."""
QUIET_TICKS = 100
WINDOW_SECONDS = 1.0
RUNNING = 0.01
"""Below this share of CPU in a window, nothing ran: a hundred others on a core leave it more."""
SIGNAL = signal.SIGURG
"""Ignored unless handled, so an answer that takes the handler away kills nothing."""


class TimeUp(BaseException):
    """An answer used up its time."""


class Timing:
    """The clock of one call of an answer, in the thread that calls it.

    cpu_limit    seconds of CPU time
    wait_limit   seconds in which nothing of it ran
    processes    whether it may start processes: then their time is its own
    why          "" or why it was stopped
    """

    def __init__(self, cpu_limit: float, wait_limit: float, processes: bool = False) -> None:
        self.cpu_limit, self.wait_limit, self.processes = cpu_limit, wait_limit, processes
        self.thread = threading.get_ident()
        self.armed = self.rung = self.thrown = False
        self.why = ""
        self.waited = self.watching = 0.0
        self.children = 0.0
        self._before = cpu_time.of_descendants() if processes else {}
        self._latest: dict[int, float] = {}
        self._window = self._began = monotonic()
        self._start = process_time()
        self._used_before = 0.0

    @contextlib.contextmanager
    def anew(self, cpu_limit: float, wait_limit: float) -> Iterator[None]:
        """Inside, the clock runs for another call; afterwards it goes on for the one around it."""
        before = dict(vars(self))
        self.armed = self.rung = False
        self.cpu_limit, self.wait_limit, self.why, self.waited = cpu_limit, wait_limit, "", 0.0
        self._window = self._began = monotonic()
        self._start, self._used_before, self.watching = process_time(), 0.0, 0.0
        self.armed = True
        try:
            yield
        finally:
            self.armed = False
            thrown = self.thrown
            vars(self).update(before)
            self.thrown = thrown

    def used(self) -> float:
        """Seconds of CPU so far; those of other processes as of the last window."""
        return process_time() - self._start - self.watching + self.children

    def look(self) -> None:
        """Count what ran since the last window, and say whether a limit is reached."""
        with watching():
            now = monotonic()
            if not cpu_time.is_counted():  # nor does it wait
                self._window, self._used_before = now, self.used()
            elif now - self._window >= WINDOW_SECONDS:
                if self.processes:
                    self._count_children()
                if self.used() - self._used_before < RUNNING * (now - self._window):
                    self.waited += now - self._window
                self._window, self._used_before = now, self.used()
        self.judge()

    def _count_children(self) -> None:
        self._latest.update(cpu_time.of_descendants())
        self.children = sum(  # without what those of earlier calls, which live on, had used
            used - self._before.get(pid, 0.0) for pid, used in self._latest.items()
        )

    def judge(self) -> None:
        """Say why the time is up, if it is."""
        used = self.used()
        if self.why:
            return
        if used > self.cpu_limit:
            took = monotonic() - self._began
            busy = f"; the machine was busy: that took {took:.0f} s" if took > 2 * used + 1 else ""
            self.why = f"used {used:.1f} s of CPU of the {self.cpu_limit:g} s allowed{busy}"
        elif self.waited > self.wait_limit:
            self.why = (
                f"waits: for {self.waited:.0f} s nothing of it ran, and it used {used:.1f} s of "
                f"CPU of the {self.cpu_limit:g} s allowed"
            )

    def interrupt(self) -> None:
        """Raise `TimeUp` in the answer's thread, at its next line."""
        if self.thread == threading.main_thread().ident and signal.getsignal(SIGNAL) is _ring:
            signal.pthread_kill(self.thread, SIGNAL)
        else:
            self.thrown = True
            _raise_in(self.thread, TimeUp)


_current: Timing | None = None
_lock = threading.Lock()
_watcher: threading.Thread | None = None
_own: types.CodeType | None = None


@contextlib.contextmanager
def timed(
    cpu_limit: float, wait_limit: float, own: types.CodeType, processes: bool = False
) -> Iterator[Timing]:
    """The clock runs inside, and interrupts while it is `armed`.

    own        the code of the function that calls the answer: it is never interrupted itself
    processes  whether the time of processes started meanwhile counts
    """
    global _current, _own, _watcher
    with _lock:
        outer, outer_own = _current, _own
        _current = timing = Timing(cpu_limit, wait_limit, processes)
        _own = own
        if _watcher is None or not _watcher.is_alive():  # a forked child has none
            _watcher = threading.Thread(target=_watch, daemon=True, name="labkit-stopwatch")
            _watcher.start()
    traced = sys.gettrace()
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda about: _unless_ours(about, unraisable)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(SIGNAL, _ring) if is_main else None
    try:
        yield timing
    finally:
        with _lock:
            _current, _own = outer, outer_own
        if is_main:
            signal.signal(SIGNAL, before)
        if timing.thrown:
            _catch_thrown()
        if sys.gettrace() is not traced:
            sys.settrace(traced)
        sys.unraisablehook = unraisable
        timing.judge()


def watches() -> bool:
    """Whether the thread that asks is the one that looks at the clock."""
    return _watcher is not None and _watcher.ident == threading.get_ident()


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """What a watcher's thread uses inside is not the answer's, and no sign that it goes on."""
    timing, began = _current, thread_time()
    yield
    if timing is not None:
        timing.watching += thread_time() - began


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """What a driver has to clean up is not interrupted."""
    timing = _current
    if timing is None or not timing.armed:
        yield
        return
    timing.armed = False
    try:
        yield
    finally:
        timing.armed = True


def ends(thread: threading.Thread) -> bool:
    """Wait for a thread; False when nothing of this process ran for a while: it never ends."""

    def ended(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    return happens(ended, WINDOW_SECONDS)


def happens(awaited: Callable[[float], bool], window: float) -> bool:
    """Wait until `awaited(window)` is true; False when nothing of this process ran in a window."""
    while True:
        before = _ran()
        with watching():
            if awaited(window):
                return True
        if _ran() - before < RUNNING * window:
            return False


def _ran() -> float:
    """CPU time of this process, without what watching took."""
    return process_time() - (_current.watching if _current is not None else 0.0)


def _unless_ours(about: Any, otherwise: Callable[[Any], Any]) -> None:
    """An interruption that lands in a destructor is swallowed there; the next one is not."""
    if about.exc_type is not TimeUp:
        otherwise(about)


def _watch() -> None:
    """Look at what is timed, tick by tick; end when nothing was for a while."""
    global _watcher
    quiet = 0
    while True:
        with _lock:
            timing = _current
            quiet = quiet + 1 if timing is None else 0
            if quiet > QUIET_TICKS:
                _watcher = None
                return
        if timing is not None and timing.armed:
            timing.look()
            with _lock:
                if timing.why and timing.armed and timing is _current:
                    timing.interrupt()
        sleep(AGAIN_SECONDS if timing is not None and timing.why else TICK_SECONDS)


def _ring(number: int, frame: types.FrameType | None) -> None:
    """Raise in the answer; when it swallowed that once, again on its very next line."""
    timing = _current
    if timing is None or not timing.armed or frame is None or frame.f_code is _own:
        return
    if timing.rung:
        trace = _next_line(timing)
        while frame is not None and frame.f_code is not _own:
            frame.f_trace = trace
            frame = frame.f_back
        sys.settrace(trace)
    timing.rung = True
    raise TimeUp(timing.why)


def _next_line(timing: Timing) -> Callable[..., Any]:
    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if timing.armed and event == "line":
            raise TimeUp(timing.why)
        return trace

    return trace


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _catch_thrown() -> None:
    """No exception is under way to this thread any more.

    Taking it back with None would leave CPython's note that one is: every line of every thread is
    slower from then on, and under `sys.setprofile` Python 3.11 never reaches the next one.
    """
    try:
        _raise_in(threading.get_ident(), TimeUp)  # in place of one that may be under way
        while True:
            pass
    except TimeUp:
        pass
