"""`course.machine()`: what the machine has, and a training run with it."""

from html import escape
from pathlib import Path
from typing import Any

from labkit.core.host_compiler import CompilerMissing
from labkit.course.progress_file import record_open
from labkit.course.your_machine import network
from labkit.course.your_machine.inventory import Sitting, inventory
from labkit.course.your_machine.last_run import LastRun, keep_run, last_run, told
from labkit.course.your_machine.new_cases import keep_case
from labkit.course.your_machine.picture import calls_said, curves, picture
from labkit.course.your_machine.seating import Trouble, seated
from labkit.course.your_machine.training import (
    STEPS,
    TOLERANCE,
    Trained,
    caching,
    done_step,
    trained,
)

TIMES = (
    "Microseconds per call here, with what turns the call into the exercise's question. "
    "A kernel's are the emulator's: they say nothing about a GPU."
)
NAMED = 4
"""Parts that a sentence names."""


def machine() -> "Machine":
    """The machine with the parts of now."""
    return Machine(inventory())


class Machine:
    """PyTorch's stack with the learner's parts in it."""

    def __init__(self, sittings: list[Sitting]) -> None:
        self.sittings = sittings

    @property
    def answers(self) -> dict[str, Any]:
        """Exercise -> its part, ready to be asked."""
        return {one.seat.exercise: one.answer for one in self.sittings if one.answer is not None}

    def train(self, steps: int = STEPS) -> "TrainingPage":
        """The network is trained with your parts, with labkit's, and by PyTorch."""
        done = trained([one.seat for one in self.sittings], self.answers, steps)
        for trouble in done.run.troubles:
            record_open(trouble.seat.exercise)
            keep_case(trouble.seat.exercise, trouble.inputs)
        page = TrainingPage(done, len(self.answers))
        keep_run(page.run)
        return page

    def step(self) -> "Share":
        """How many calls of one training step go through your code."""
        answers = self.answers
        if not answers:
            return Share(0, len(self.sittings), None)
        try:
            first, run = self._two_steps(answers)
        except CompilerMissing as error:
            return Share(len(answers), len(self.sittings), None, why=str(error))
        return Share(len(answers), len(self.sittings), run, first)

    def _two_steps(self, answers: dict[str, Any]) -> tuple[LastRun, LastRun]:
        with caching(), seated([one.seat for one in self.sittings], answers) as run:
            step = network.labkits(2)
            done_step(step, 0)  # fills the dispatch tables, which later steps find filled
            first = told(run)
            run.count_anew()
            done_step(step, 1)
        return first, told(run)

    def export(self, folder: str | Path) -> Path:
        """A folder with your parts, their tests, the loss curve, and `python -m my_machine`."""
        from labkit.course.your_machine.export import export

        return export(Path(folder), self.sittings, last_run())

    def __repr__(self) -> str:
        run = last_run()
        lines = [f"your machine: {len(self.answers)} of {len(self.sittings)} parts"]
        for one in self.sittings:
            whose = "yours" if one.answer is not None else "labkit's"
            if one.refused:
                whose = f"refused, the exercise is open again: {one.refused}"
            elif one.answer is not None and one.seat.exercise in run.troubles:
                whose = "yours, taken out in the last run"
            calls = calls_said(run.calls.get(one.seat.exercise))
            line = f"  {one.seat.layer:<9}{one.seat.title:<24}{one.seat.exercise:<42}{whose:<10}"
            lines.append(f"{line}{calls}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return picture(self.sittings, last_run())


class Share:
    """How much of one training step is the learner's.

    first  the step before: it also fills the dispatch tables
    why    there was no step, although there are parts
    """

    def __init__(
        self,
        parts: int,
        seats: int,
        run: LastRun | None,
        first: LastRun | None = None,
        why: str = "an exercise that passes its check becomes the first",
    ) -> None:
        self.parts, self.seats, self.run, self.first = parts, seats, run, first or LastRun()
        self.why = why

    @property
    def called(self) -> str:
        """How often each part was called in both steps, the busiest first."""
        runs = [self.first, *([self.run] if self.run else [])]
        both: dict[str, int] = {}
        for run in runs:
            for name, (_, yours) in run.calls.items():
                both[name] = both.get(name, 0) + yours
        busiest = sorted((name for name in both if both[name]), key=lambda name: -both[name])
        told_ = [f"{name.partition('.')[2]} {both[name]:,} times" for name in busiest[:NAMED]]
        more = f", and {len(busiest) - NAMED} more" if len(busiest) > NAMED else ""
        return f"Called in the first two steps: {', '.join(told_)}{more}." if told_ else ""

    def __repr__(self) -> str:
        text = f"Your machine now has {self.parts} of {self.seats} parts"
        if self.run is None:
            return f"{text}: {self.why}."
        only_first = not self.run.share and self.first.share
        text += (
            "; your code runs in the first training step, which fills the dispatch tables."
            if only_first
            else f"; {self.run.percent} of the calls of a training step go through your code."
        )
        troubles = {**self.first.troubles, **self.run.troubles}
        taken_out = [f"Taken out: {why}" for why in troubles.values()]
        return "\n".join(line for line in (text, self.called, *taken_out) if line)

    def _repr_html_(self) -> str:
        return f"<div>{escape(repr(self)).replace(chr(10), '<br>')}</div>"


class TrainingPage:
    """A training run: three curves, the parts with their calls, and what went wrong."""

    def __init__(self, done: Trained, parts: int) -> None:
        self.done, self.parts, self.run = done, parts, told(done.run, done)

    @property
    def troubles(self) -> list[Trouble]:
        """Why parts were taken out."""
        return self.done.run.troubles

    def lines(self) -> list[str]:
        """What is to be said, first the outcome."""
        done, seats = self.done, len(self.done.run.seats)
        first, last = (done.losses["yours"][at] for at in (0, -1))
        outcome = "equal" if done.is_equal else "NOT equal"
        return [
            f"{self.parts} of {seats} parts are yours; {self.run.percent} of the calls that all "
            f"{seats} serve went through your code",
            f"loss {first:.3f} -> {last:.3f} in {len(done.losses['yours'])} steps; {outcome} to "
            f"labkit's and PyTorch's: {done.apart:.1g} apart, {TOLERANCE:g} allowed",
            *(f"taken out: {trouble}" for trouble in self.troubles),
        ]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(part, calls, microseconds a call of yours, of labkit's) of what was asked."""
        found = []
        for seat in self.done.run.seats:
            tally = self.done.run.tallies[seat.exercise]
            if tally.yours:
                times = [tally.seconds, tally.labkits_seconds]
                each = [f"{1e6 * one / tally.yours:,.0f}" if one else "" for one in times]
                calls = calls_said([tally.calls, tally.yours])
                found.append((seat.title, calls, *each))
        return found  # type: ignore[return-value]

    def __repr__(self) -> str:
        rows = [f"  {a:<24}{b:>16}{c:>12}{d:>12}" for a, b, c, d in self.rows()]
        head = [f"  {'part':<24}{'calls':>16}{'yours, µs':>12}{'labkit, µs':>12}"] if rows else []
        return "\n".join([*self.lines(), *head, *rows, *([TIMES] if rows else [])])

    def _repr_html_(self) -> str:
        head, *more = self.lines()
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(a)}</td>"
            f"<td style='text-align:right'>{b}</td><td style='text-align:right'>{c}</td>"
            f"<td style='text-align:right'>{d}</td></tr>"
            for a, b, c, d in self.rows()
        )
        table = (
            f"<table><tr><th>part</th><th>calls</th><th>yours, µs</th><th>labkit, µs</th></tr>"
            f"{rows}</table><small>{TIMES}</small>"
        )
        said = "".join(f"<div>{escape(line)}</div>" for line in more)
        return (
            f"<div><b>{escape(head)}</b></div>{said}{curves(self.done.losses)}"
            f"{table if rows else ''}"
        )
