"""Parts in their seats: while the machine runs, labkit's functions ask them.

A function that a seat replaces holds other code meanwhile, so every module that imported it calls
the part. Outside of `seated` nothing is changed, and nothing is slower.
"""

import contextlib
import dataclasses
import functools
import gc
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from labkit.course import exercises
from labkit.course.checking.guard import STARTERS, asked, is_running, outside, refuse, standing
from labkit.course.checking.put_away import Asking, Drawer, banned, code_of, put_away, that_ask
from labkit.course.checking.stopwatch import TimeUp, Timing
from labkit.course.your_machine.dispatch import refill_tables
from labkit.course.your_machine.seat import Differs, Place, Seat
from labkit.course.your_machine.written_down import is_plain

LONGEST = 200


class Stopped(Exception):
    """A part was ended: it used up its time, or did what its exercise forbids."""


class StepLost(Exception):
    """A part failed in the middle of something that cannot be done again here."""


@dataclasses.dataclass
class Trouble:
    """Why a part was taken out.

    kind    "differs", "raised", "stopped" or "refused"
    call    which call of the seat it was, from 1
    inputs  of that call, in the exercise's words; None where they are no plain data
    """

    seat: Seat
    kind: str
    call: int = 0
    got: str = ""
    right: str = ""
    inputs: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        told = {
            "differs": f"call {self.call} made {self.got}; labkit makes {self.right}",
            "raised": f"call {self.call} raised {self.got}",
            "stopped": f"call {self.call} was ended: it {self.got}",
            "refused": self.got,
        }[self.kind]
        asked = f"; it was asked {self.inputs}" if self.inputs is not None else ""
        return f"{self.seat.exercise}: {told}{asked}"


@dataclasses.dataclass
class Tally:
    """What went through one seat: calls, those the part answered, and seconds of both."""

    calls: int = 0
    yours: int = 0
    seconds: float = 0.0
    labkits_seconds: float = 0.0


class Ask:
    """Asks one part, under the rules of its exercise."""

    def __init__(self, exercise_id: str, answer: Any, run: "SeatedRun") -> None:
        self.exercise, self.answer, self.run = exercises.find(exercise_id), answer, run
        self.inputs: tuple[Any, ...] | None = None

    def __call__(self, *inputs: Any, which: int | Callable[..., Any] | None = None) -> Any:
        """What the part returns, or what a method of an object that it made returns.

        Raises   Stopped   it did not end, or did what it may not; and what the part raises
        """
        self.inputs = inputs
        answer = self.answer[which] if isinstance(which, int) else which or self.answer
        value: Any = None
        error: BaseException | None = None
        with no_collection(), asked(self.exercise, self.run.timing) as done:
            try:
                value = answer(*inputs)
            except (KeyboardInterrupt, TimeUp):
                raise
            except BaseException as raised:
                error = raised
        if isinstance(error, Differs | StepLost):
            raise error
        if done.banned:
            raise Stopped(f"{done.banned[0]}, which its exercise forbids")
        if done.late:
            raise Stopped(done.late)
        if error is not None:
            raise error if isinstance(error, Exception) else RuntimeError(repr(error))
        return value

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Inside, labkit runs, called back by the part: other seats are asked as ever."""
        aside, self.run.aside = self.run.aside, False
        try:
            with outside():
                yield
        finally:
            self.run.aside = aside


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Inside, no garbage is collected: labkit's tensors in it would be freed in the part's name."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def short(text: str) -> str:
    """The text in one line of a table."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


class Seated(Asking):
    """One function of labkit while the machine runs."""

    def __init__(self, function: Any, seat: Seat, place: Place, run: "SeatedRun") -> None:
        super().__init__(function, place.function, lambda name: None)
        self.seat, self.place, self.run = seat, place, run
        self.tally = run.tallies[seat.exercise]

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the part makes of it, where there is one and it does what labkit does."""
        if self.run.aside or is_running() or not self.run.on_thread():
            return self.original(*args, **kwargs)
        if kwargs:
            args = inspect.signature(self.original).bind(*args, **kwargs).args
        with self.run.looking():
            covered = self.place.covers(*args)
        if not covered:
            return self.original(*args)
        self.tally.calls += 1
        ask = self.run.asks.get(self.seat.exercise)
        if ask is None:
            return self.original(*args)
        ask.inputs = None
        try:
            return self._asked(ask, args)
        except Differs as error:
            inputs = error.inputs if error.inputs is not None else ask.inputs
            self._out("differs", repr(error.got), repr(error.right), inputs)
        except Stopped as error:
            self._out("stopped", str(error), "", ask.inputs)
        except StepLost:
            raise
        except Exception as error:
            self._out("raised", f"{type(error).__name__}: {error}", "", ask.inputs)
        if self.place.checks:
            raise StepLost(self.seat.exercise)
        return self.original(*args)

    def _asked(self, ask: Ask, args: tuple[Any, ...]) -> Any:
        place = self.place
        right, refused = None, None
        if not place.checks and self.run.compares:
            began = perf_counter()
            with self.run.looking():
                try:
                    right = self._right(args)
                except Exception as error:
                    refused = error
            self.tally.labkits_seconds += perf_counter() - began
        began = perf_counter()
        try:
            with self.run.looking():
                mine = place.mine(ask, *args)
        except Exception as error:
            if refused is None or not isinstance(error, type(refused)):
                raise
            self.tally.yours += 1
            raise refused from None
        finally:
            self.tally.seconds += perf_counter() - began
        with self.run.looking():
            if refused is not None:
                raise Differs(mine, refused)
            if not place.checks and self.run.compares and not place.same(mine, right, *args):
                raise Differs(mine, right)
            self.tally.yours += 1
            return mine if place.commit is None else place.commit(mine, *args)

    def _right(self, args: tuple[Any, ...]) -> Any:
        if self.place.right is None:
            return self.original(*args)
        return self.place.right(self.original, *args)

    def _out(self, kind: str, got: str, right: str, inputs: Any) -> None:
        """The part leaves its seat; labkit's function serves from now on."""
        del self.run.asks[self.seat.exercise]
        plain = inputs if inputs is not None and is_plain(inputs) else None
        call = self.tally.calls
        self.run.troubles.append(Trouble(self.seat, kind, call, short(got), short(right), plain))


class SeatedRun:
    """One run of the machine: who sits where, and what went through.

    compares  every call is answered by labkit as well, and the two are compared
    """

    def __init__(self, seats: Sequence[Seat], compares: bool) -> None:
        self.seats, self.compares = seats, compares
        self.tallies = {seat.exercise: Tally() for seat in seats}
        self.troubles: list[Trouble] = []
        self.aside = False
        """Nobody is asked: labkit compares, or gets an answer ready."""
        self.thread = threading.get_ident()
        self.timing: Timing
        """The clock of the parts, from the first one on."""
        self.guards: contextlib.ExitStack
        """What keeps parts to their rules; a run without any has none of it."""
        self.is_guarded = False
        self.asks: dict[str, Ask] = {}

    def sit(self, answers: Mapping[str, Any]) -> None:
        """These answers have their seats from now on; the other seats are labkit's."""
        self.asks = {name: Ask(name, answer, self) for name, answer in answers.items()}
        if answers and not self.is_guarded:
            self.is_guarded = True
            away = [*banned("labkit.*", refuse)[0], *that_ask(STARTERS.items(), refuse)]
            self.timing = self.guards.enter_context(standing(Ask.__call__.__code__))
            self.guards.enter_context(put_away(away))
        refill_tables()

    def count_anew(self) -> None:
        """What went through so far does not count."""
        for tally in self.tallies.values():
            tally.calls, tally.yours, tally.seconds, tally.labkits_seconds = 0, 0, 0.0, 0.0

    def on_thread(self) -> bool:
        """Whether it is the run's own thread that asks."""
        return threading.get_ident() == self.thread

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Inside, no seat is asked and nothing counts."""
        before, self.aside = self.aside, True
        try:
            yield
        finally:
            self.aside = before


@contextlib.contextmanager
def seated(
    seats: Sequence[Seat], answers: Mapping[str, Any], compares: bool = True
) -> Iterator[SeatedRun]:
    """Inside, labkit's functions ask the answers that have a seat, and all calls are counted.

    answers  exercise id -> its answer; a seat without one is labkit's
    """
    run = SeatedRun(seats, compares)
    drawer: Drawer = [
        (one, code_of(one))
        for one in (
            Seated(function_of(place.function), seat, place, run)
            for seat in seats
            for place in seat.places
        )
    ]
    with put_away(drawer), contextlib.ExitStack() as run.guards:
        run.sit(answers)
        try:
            yield run
        finally:
            refill_tables()


@functools.cache
def function_of(dotted: str) -> Any:
    """The function of that name, or the method of a class."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return inspect.unwrap(found)
    raise ValueError(f"{dotted!r} names nothing")
