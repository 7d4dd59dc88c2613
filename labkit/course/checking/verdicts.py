"""What a check says at its end: passed, not yet, stopped, or your turn."""

from html import escape

from labkit.course.checking.stages import stage_exercises, stage_row
from labkit.course.exercise import Evidence, Exercise


def _row(name: str, text: str) -> str:
    """A row of a table as text; every line of it stands in its column."""
    return f"  {name:<12}" + text.replace("\n", "\n" + " " * 14)


class CheckFailed(AssertionError):
    """An answer is wrong: the message holds the smallest failing case found."""

    def __init__(
        self,
        exercise: Exercise,
        seed: int,
        failures: list[Evidence],
        hint: str,
        stages: list[list[str]] | None = None,
    ) -> None:
        self.exercise, self.seed, self.failures, self.hint = exercise, seed, failures, hint
        self.evidence, self.stages = failures[0], stages or []
        super().__init__(self._message())

    def _message(self) -> str:
        rows = [_row(name, text) for name, text in self.evidence.rows().items()]
        stage = f" ({self.evidence.stage})" if self.evidence.stage else ""
        wrong = [name for name, state in self.stages if state == "wrong"]
        alone = "   (each was asked on its own)" if len(wrong) > 1 else ""
        lines = [
            f"{self.exercise.id}: not yet{stage}. The smallest failing case found "
            f"(seed {self.seed}):",
            *([f"  {stage_row(self.stages)}{alone}"] if self.stages else []),
            *rows,
        ]
        if self.hint:
            lines.append(_row("hint", self.hint))
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the evidence, not the checker's own frames."""
        return [f"{type(self).__name__}: {self}"]


class TimeUsedUp(CheckFailed):
    """An answer was stopped: that is no verdict, so no attempt is counted and no hint earned."""

    def _message(self) -> str:
        return (
            f"{self.exercise.id}: stopped on case {self.evidence.number} of {self.exercise.cases} "
            f"(seed {self.seed}): your answer {self.evidence.got}.\n"
            f"{_row('input', self.evidence.input)}\n"
            "  No attempt is counted. Nothing is known to be wrong: it may need fewer steps, or "
            "never end."
        )


class NotAttempted(CheckFailed):
    """Some part of the answer still raises NotImplementedError; no attempt is counted."""

    def __init__(self, exercise: Exercise) -> None:
        AssertionError.__init__(
            self, f"{exercise.id}: your turn. Write the stub above, then run this cell again."
        )


class Passed:
    """What `check` returns for a right answer.

    score  one line about it;  kept: one about its place in the reader's machine
    """

    def __init__(self, exercise: Exercise, seed: int, score: str = "", kept: str = "") -> None:
        self.exercise_id, self.seed, self.score, self.kept = exercise.id, seed, score, kept
        self.cases = sum(stage.cases for _, stage in stage_exercises(exercise))

    def __repr__(self) -> str:
        more = "".join(f". {line}" for line in (self.score, self.kept) if line)
        return f"passed: {self.exercise_id}, {self.cases} cases, seed {self.seed}{more}"

    def _repr_html_(self) -> str:
        more = "".join(f"<br>{escape(line)}" for line in (self.score, self.kept) if line)
        return (
            '<div style="border-left:4px solid #009E73;padding:4px 10px">'
            f"✓ <b>passed</b> {self.exercise_id}: {self.cases} cases, seed {self.seed}{more}</div>"
        )
