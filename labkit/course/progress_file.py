"""A learner's progress: one readable JSON file on this machine, which never leaves it.

It lies in `$XDG_DATA_HOME/labkit/progress.json` (`~/.local/share/labkit` by default), or where
`LABKIT_PROGRESS` says; `LABKIT_PROGRESS=off` keeps it in memory. A damaged file is moved aside, a
disk that cannot be written leaves the progress in memory; both are said once, and nothing stops.
"""

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labkit.course.exercise import Evidence, Exercise

CHANGED = "The answer changes what it was given. Copy it first, and change the copy."
KEPT_ATTEMPTS = 20
VERSION = 1

_in_memory: dict[str, Any] = {}
_said: set[str] = set()


@dataclass
class Attempt:
    """One failing attempt: the seed and the failing cases found, as rows of text."""

    seed: int
    failures: list[dict[str, str]]


@dataclass
class State:
    """What is kept of one exercise.

    attempts  how many failed; digests: the answers seen, so an unchanged one earns nothing
    hints     [index, text] of those unlocked, in the order they were earned
    history   the last failing attempts, oldest first
    stages    [name, "done", "wrong" or "open"] of each stage, as the last check found them
    """

    attempts: int = 0
    passed: bool = False
    gave_up: bool = False
    digests: list[str] = field(default_factory=list)
    hints: list[list[Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    stages: list[list[str]] = field(default_factory=list)

    @property
    def stages_done(self) -> int:
        """How many stages the last check found right."""
        return sum(state == "done" for _, state in self.stages)

    def solution_open(self, hints: int) -> bool:
        """Passed, given up, or one more different attempt than the exercise has hints."""
        return self.passed or self.gave_up or len(self.digests) > hints

    @property
    def status(self) -> str:
        """One of passed, gave up, tried, not tried."""
        if self.passed:
            return "passed"
        if self.gave_up:
            return "gave up"
        return "tried" if self.attempts else "not tried"


def path() -> Path | None:
    """Where progress is kept; None when it is only in memory."""
    chosen = os.environ.get("LABKIT_PROGRESS", "")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "labkit" / "progress.json"


def state_of(exercise_id: str) -> State:
    """What is kept of one exercise."""
    return _state(_read(), exercise_id)


def record_pass(exercise_id: str) -> None:
    """Keep that an exercise is passed."""
    with _changing(exercise_id) as state:
        state.passed = True


def record_open(exercise_id: str) -> None:
    """Keep that an exercise is open again: what was kept of its answer is no longer the answer."""
    if state_of(exercise_id).passed:
        with _changing(exercise_id) as state:
            state.passed = False


def record_stages(exercise_id: str, stages: list[list[str]]) -> None:
    """Keep how far an answer has come; nothing is written while nothing is done."""
    before = state_of(exercise_id).stages
    if stages != before and (before or any(state == "done" for _, state in stages)):
        with _changing(exercise_id) as state:
            state.stages = stages


def record_give_up(exercise_id: str) -> None:
    """Keep that the solution was asked for."""
    with _changing(exercise_id) as state:
        state.gave_up = True


def record_attempt(exercise: Exercise, digest: str, attempt: Attempt, evidence: Evidence) -> str:
    """Keep a failing attempt and return the hint that fits it, or the next general one.

    A hint that fits and was said before is said again, also for an answer seen before; a changed
    answer earns the next general one beside it. "" for an answer that called what it may not, and
    where every hint left is about another mistake.
    """
    with _changing(exercise.id) as state:
        state.attempts += 1
        state.history = [*state.history, asdict(attempt)][-KEPT_ATTEMPTS:]
        if evidence.kind == "banned":
            return ""
        earned = {index for index, _ in state.hints}
        hints = [exercise.hint(index) for index in range(len(exercise.hints))]
        fitting = [i for i, hint in enumerate(hints) if hint.fits(evidence)]
        again = [hints[i].about(evidence) for i in fitting if i in earned][:1]
        if digest in state.digests:
            return "".join(again)
        state.digests.append(digest)
        if evidence.kind == "mutated" and not fitting:
            return CHANGED
        general = [i for i, hint in enumerate(hints) if not hint.when and hint.may_help(evidence)]
        locked = [i for i in fitting if i not in earned]
        if locked:
            again = []
        locked += [i for i in general if i not in earned and i not in locked]
        if not locked:
            return "".join(again)
        text = hints[locked[0]].about(evidence)
        state.hints.append([locked[0], text])
        return f"{again[0]} In general: {text}" if again else text


def reset(exercise_id: str | None = None) -> None:
    """Forget one exercise, or everything."""

    def forget(data: dict[str, Any]) -> None:
        if exercise_id is None:
            data["exercises"] = {}
        else:
            data["exercises"].pop(exercise_id, None)

    _update(forget)


def _state(data: dict[str, Any], exercise_id: str) -> State:
    kept = data["exercises"].get(exercise_id, {})
    return State(**{name: kept[name] for name in State.__dataclass_fields__ if name in kept})


@contextlib.contextmanager
def _changing(exercise_id: str) -> Iterator[State]:
    with _locked():
        data = _read()
        state = _state(data, exercise_id)
        yield state
        data["exercises"][exercise_id] = asdict(state)
        _write(data)


def _update(change: Callable[[dict[str, Any]], None]) -> None:
    with _locked():
        data = _read()
        change(data)
        _write(data)


def _empty() -> dict[str, Any]:
    return {"version": VERSION, "exercises": {}}


def _read() -> dict[str, Any]:
    """The file's content; a damaged file is moved aside first."""
    file = path()
    if file is None or str(file) in _in_memory:
        return json.loads(json.dumps(_in_memory.get(str(file), _empty())))  # type: ignore[no-any-return]
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _empty()
    except UnicodeDecodeError as error:
        return _moved_aside(file, str(error))
    except OSError as error:
        _say(f"progress in {file} cannot be read ({error}); going on without it")
        return _empty()
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError) as error:
        return _moved_aside(file, str(error))


def _checked(data: Any) -> dict[str, Any]:
    """Return the data when it has the shape this version writes.

    Raises   ValueError   it has not
    """
    if not isinstance(data, dict) or not isinstance(data.get("exercises"), dict):
        raise ValueError("no exercises in it")
    if data.get("version") != VERSION:
        raise ValueError(f"version {data.get('version')!r}, this labkit reads {VERSION}")
    blank = asdict(State())
    for exercise_id, kept in data["exercises"].items():
        if not isinstance(kept, dict):
            raise ValueError(f"{exercise_id} holds {type(kept).__name__}")
        for name, value in kept.items():
            if name in blank and type(value) is not type(blank[name]):
                raise ValueError(f"{exercise_id}.{name} is {value!r}")
        pairs = kept.get("hints", [])
        if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], int) for p in pairs):
            raise ValueError(f"{exercise_id}.hints is {pairs!r}")
        if not all(
            isinstance(a, dict) and isinstance(a.get("failures"), list)
            for a in kept.get("history", [])
        ):
            raise ValueError(f"{exercise_id}.history is not a list of attempts")
        if not all(isinstance(s, list) and len(s) == 2 for s in kept.get("stages", [])):
            raise ValueError(f"{exercise_id}.stages is {kept['stages']!r}")
    return data


def _moved_aside(file: Path, why: str) -> dict[str, Any]:
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    try:
        file.rename(aside)
        kept = f"moved to {aside}"
    except OSError as error:
        kept = f"left where it is ({error})"
    _say(f"progress file {file} could not be understood ({why}); {kept}, starting afresh")
    return _empty()


def _write(data: dict[str, Any]) -> None:
    file = path()
    if file is None or str(file) in _in_memory:
        _in_memory[str(file)] = data
        return
    name = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=".progress-", delete=False, encoding="utf-8",
            errors="backslashreplace",  # half a surrogate pair, as JSON writes it
        ) as temporary:  # fmt: skip
            name = Path(temporary.name)
            json.dump(data, temporary, indent=1, ensure_ascii=False)
            temporary.flush()
            os.fsync(temporary.fileno())
        name.replace(file)  # all of the new file or all of the old one, whatever happens
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                name.unlink()
        _in_memory[str(file)] = data
        _say(f"progress cannot be saved in {file} ({error}); it is kept until this kernel ends")


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Keep two notebooks from writing at once, where the disk allows it."""
    file = path()
    handle = None
    if file is not None and str(file) not in _in_memory:
        with contextlib.suppress(OSError, ImportError):
            import fcntl

            file.parent.mkdir(parents=True, exist_ok=True)
            handle = file.with_name(f".{file.name}.lock").open("w")
            fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            handle.close()


def _say(message: str) -> None:
    if message not in _said:
        _said.add(message)
        warnings.warn(message, stacklevel=4)
