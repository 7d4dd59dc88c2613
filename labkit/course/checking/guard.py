"""An answer runs here: with a time limit, what it may not call out of reach, its output kept.

While it runs, functions that are out of reach (the checker's own and the banned ones) hold code
that raises `Banned`, so a reference saved earlier does not help; torch operators are watched by a
recording mode. Of torch and NumPy, banned as a whole, an answer can get at nothing
(`labkit.course.checking.reach`). What an answer tried stays on record even when it catches every
exception, and what it changed of the process is put back.

A process cannot guard against its own user: who wants to pass without answering can. What is
guarded are the rules that an exercise states, against the ways around them that look like answers.
"""

import contextlib
import inspect
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.checking.keeper import Output, kept, kept_for_all, libraries_kept
from labkit.course.checking.own_names import OwnNames, changes_ours
from labkit.course.checking.put_away import IN_C, banned, of_checker, put_away, that_ask
from labkit.course.checking.reach import held, sealed
from labkit.course.checking.stopwatch import TimeUp, Timing, timed, watches
from labkit.course.compare import in_print
from labkit.course.exercise import Exercise

KEPT_OUTPUT = 400
STARTS = {
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.posix_spawn", "os.spawn", "os.system",
    "pty.spawn", "subprocess.Popen", "_thread.start_joinable_thread", "_thread.start_new_thread",
}  # fmt: skip
"""Audit events of processes and threads that are started or ended."""
STARTERS: dict[Any, str] = {
    threading.Thread.start: "threading.Thread.start",
    subprocess.Popen.__init__: "subprocess.Popen",
}
"""Functions that start them; not every Python tells of all it does."""
LOOKS = {"gc.get_objects", "gc.get_referrers", "gc.get_referents"}
"""Audit events of one who looks through everything there is."""


class Banned(BaseException):
    """An answer called what it may not; not an Exception, so `except Exception` lets it pass."""


@dataclass
class Run:
    """What one call of an answer did.

    late    "" or why it was stopped: it used up its time
    cpu     seconds of CPU it used
    banned  what it did and may not do, in words
    """

    value: Any = None
    error: BaseException | None = None
    late: str = ""
    cpu: float = 0.0
    banned: list[str] = field(default_factory=list)
    printed: str = ""


_current: list["Running"] = []
"""The answer running now, if any."""


@dataclass(frozen=True)
class Running:
    """An answer being run: in which thread, and which threads are none of its doing."""

    run: Run
    thread: int
    others: frozenset[int]
    processes: bool
    libraries: frozenset[str]

    def is_here(self) -> bool:
        """Whether the thread that asks is the answer's, or one it started."""
        here = threading.get_ident()
        return here == self.thread or (here not in self.others and not watches())


def is_running() -> bool:
    """Whether an answer is running now."""
    return bool(_current)


def is_here() -> bool:
    """Whether an answer is running in the thread that asks."""
    return any(running.is_here() for running in _current)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Inside, it is labkit that runs, called back by an answer: nothing is out of its reach."""
    running, _current[:] = _current[:], []
    try:
        yield
    finally:
        _current[:] = running


def trip(name: str, did: str = "called") -> None:
    """Put a banned call on record and raise."""
    for running in _current:
        running.run.banned.append(f"{did} {name}")
    raise Banned(f"the answer {did} {name}")


def refuse(name: str) -> None:
    """What a function that is put away does with a call: refuse it to an answer.

    Jupyter's own threads may start a thread or a process at any moment.
    """
    if _current and is_here():
        trip(name)


def _audit(event: str, arguments: Any) -> None:
    """Refuse processes and threads to the answers that may not have them, however they ask."""
    if not _current:
        return
    last = _current[-1]
    refused = not last.processes if event in STARTS else event in LOOKS and last.libraries
    if (refused or changes_ours(event, arguments)) and last.is_here():
        trip(event)


def _refuse_attribute(name: str) -> None:
    """What a sealed module does with a wish: refuse it to an answer, and to nobody else."""
    if is_here():
        trip(name, "used")


sys.addaudithook(_audit)


@contextlib.contextmanager
def standing(own: types.CodeType) -> Iterator[Timing]:
    """Around many short calls of several answers: what costs time is done once for all of them.

    own  the code of the function that makes the calls, each of them inside `asked`
    """
    with (
        kept_for_all(),
        libraries_kept(),
        contextlib.redirect_stdout(Output()),
        timed(0.0, 0.0, own) as timing,
    ):
        yield timing


@contextlib.contextmanager
def asked(exercise: Exercise, timing: Timing) -> Iterator[Run]:
    """Around one call of an answer inside `standing`; what it did and may not do is in the run."""
    run = Run()
    others = frozenset(sys._current_frames()) - {timing.thread}
    running = Running(run, timing.thread, others, exercise.processes, frozenset())
    _current.append(running)
    try:
        with timing.anew(exercise.seconds, exercise.waits):
            yield run
            run.late = timing.why
    except TimeUp as error:
        run.late = str(error)
    finally:
        _current.remove(running)


class Guard:
    """Runs answers of one exercise; made once per check."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.watched: set[Any] = set()
        self.everything = {name.removesuffix(".*") for name in exercise.banned if ".*" in name}
        self.libraries = frozenset(self.everything & IN_C)
        self.holds: tuple[Any, str] | None = None
        self.patches: list[tuple[Any, str, str]] = []
        functions: dict[Any, str] = dict(of_checker(exercise))
        if not exercise.processes:
            functions |= STARTERS
        if self.everything & {"torch"}:
            from torch.utils._python_dispatch import _disable_current_modes

            functions[inspect.unwrap(_disable_current_modes)] = "torch's mode switch"
        self.away = [that_ask(functions.items(), refuse)]
        for name in exercise.banned:
            found, others = banned(name, refuse)
            self.away.append(found)
            for other in others:
                self._forbid(*other)
        self.names = OwnNames(exercise)
        self.others = frozenset(sys._current_frames()) - {threading.get_ident()}

    def _forbid(self, full: str, owner: Any, attribute: str, found: Any) -> None:
        if full.startswith("torch.") and callable(found) and not isinstance(found, type):
            self.watched.add(found)
        elif isinstance(owner, types.ModuleType) and callable(found):
            self.patches.append((owner, attribute, full))

    @contextlib.contextmanager
    def sealing(self) -> Iterator[None]:
        """Around all cases, or several checks: what is out of reach answers no answer.

        Inside of another one only what is not yet out of reach is put away.
        """
        finder = _BannedImports(self.everything)
        with sealed(self.libraries, _current, _refuse_attribute), contextlib.ExitStack() as away:
            for drawer in self.away:
                away.enter_context(put_away(drawer))
            sys.meta_path.insert(0, finder)
            try:
                yield
            finally:
                sys.meta_path.remove(finder)

    def run(self, answer: Callable[..., Any], inputs: tuple[Any, ...]) -> Run:
        """Call the answer on these inputs; whatever it does comes back as a `Run`."""
        run = Run(banned=self._held(answer))
        output = Output()
        drive = self.exercise.drive
        call, given = (answer, inputs) if drive is None else (drive, (answer, *inputs))
        limits = self.exercise.seconds, self.exercise.waits
        profile = sys.getprofile()
        with (
            libraries_kept(),
            self._patched(answer),
            self._watching(),
            contextlib.redirect_stdout(output),
            timed(*limits, Guard.run.__code__, self.exercise.processes) as timing,
        ):
            may = self.exercise.processes, self.libraries
            running = Running(run, timing.thread, self.others, *may)
            _current.append(running)
            try:
                with kept(self.names.put_back):
                    try:
                        timing.armed = True
                        run.value = call(*given)
                    except KeyboardInterrupt:
                        raise
                    except BaseException as error:
                        run.error = error
                    finally:
                        timing.armed = False
                        if sys.getprofile() is not profile:
                            sys.setprofile(profile)
            finally:
                _current.remove(running)
        run.late, run.cpu = timing.why, timing.used()
        run.printed = in_print(output.getvalue()[:KEPT_OUTPUT].rstrip())
        return run

    def _held(self, answer: Any) -> list[str]:
        """What it holds of a banned library; looked for once."""
        if self.holds is None or self.holds[0] is not answer:
            self.holds = answer, held(answer, self.libraries) if self.libraries else ""
        return [f"holds {self.holds[1]}"] if self.holds[1] else []

    @contextlib.contextmanager
    def _patched(self, answer: Any) -> Iterator[None]:
        """Replace what is neither Python code nor a torch operator, where it can be named."""
        swapped = [*self._swapped(answer)] if self.patches else []
        try:
            yield
        finally:
            for names, attribute, original in reversed(swapped):
                names[attribute] = original

    def _swapped(self, answer: Any) -> Iterator[tuple[dict[str, Any], str, Any]]:
        stubs = {id(vars(owner)[name]): _stub(full) for owner, name, full in self.patches}
        spaces = {id(vars(owner)): vars(owner) for owner, _, _ in self.patches}
        names_of_answer = getattr(inspect.unwrap(answer), "__globals__", {})
        spaces[id(names_of_answer)] = names_of_answer
        for names in spaces.values():
            for name, original in [(n, v) for n, v in names.items() if id(v) in stubs]:
                names[name] = stubs[id(original)]
                yield names, name, original

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        if "torch" in self.everything:
            with _NoTorchFunction(), _NoTorchKernel():
                yield
        elif self.watched:
            with _NoTorchFunction(self.watched):
                yield
        else:
            yield


class _NoTorchFunction(TorchFunctionMode):  # type: ignore[misc]
    """Raises when a watched torch function is called; without a list, when any is."""

    def __init__(self, watched: set[Any] | None = None) -> None:
        super().__init__()
        self.watched = watched

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if is_running() and (self.watched is None or func in self.watched):
            trip(f"torch's {getattr(func, '__name__', func)}")
        return func(*args, **(kwargs or {}))


class _NoTorchKernel(TorchDispatchMode):  # type: ignore[misc]
    """Raises when anything reaches torch's dispatcher, whichever way it was called."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if is_running():
            trip(f"torch's {func}")
        return func(*args, **(kwargs or {}))


class _BannedImports:
    """Refuses the first import of banned modules: they may not be loaded yet."""

    def __init__(self, roots: set[str]) -> None:
        self.roots = roots

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if is_here() and any(name == root or name.startswith(f"{root}.") for root in self.roots):
            trip(name, "imported")


def _stub(name: str) -> Callable[..., Any]:
    def stub(*args: Any, **kwargs: Any) -> None:
        trip(name)

    return stub
