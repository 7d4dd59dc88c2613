"""What an exercise is: cases made from a seed, what is right for them, and hints.

One module per notebook in `labkit/course/exercises/` (`tensors.py` for `1_fundamentals/3_tensors`):

    NOTEBOOK = "1_fundamentals/3_tensors"

    def case(rng: Rng, size: int) -> Case:      # size 0 is the smallest case, `sizes` the largest
        return Case((rng.sizes(rank=size, largest=4), ...))

    def expected(sizes, ...):                   # the right value; or Raises(IndexError)
        return ...

    promote = Exercise(
        id="tensors.promote",                   # module name, dot, name
        rules=("no torch call",),
        case=case,
        expected=expected,
        banned=("torch.result_type", "torch.promote_types"),
        hints=("Wrong for uint8 with int8: neither holds both", ...),
        must_fail=("promotes by item size", ...),
    )
    EXERCISES = (promote,)

The task itself stands once, in the notebook, as the markdown cell above the stub. An exercise of
more than a few lines has stages (`course/checking/stages.py`), and a `picture` of what went wrong.

The checker makes every case twice from the same seed: once for the answer, and again after the
answer has returned, to compute what is right. So while an answer runs nothing holds the truth, a
changed input is seen, and `case` must take all its randomness from `rng`. Every function of the
module is out of reach while an answer runs, except `drive` and those marked `@handed_out`; classes
stay usable, so put nothing into them that knows the truth.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
NOTHING = object()
F = TypeVar("F", bound=Callable[..., Any])


class Rng(random.Random):
    """A seeded source of everything a case may need at random; a seed is any string or number."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def sizes(self, rank: int = 3, largest: int = 5, smallest: int = 0) -> tuple[int, ...]:
        """The sizes of at most `rank` dimensions, each between `smallest` and `largest`."""
        return tuple(self.randint(smallest, largest) for _ in range(self.randint(0, rank)))

    def generator(self) -> torch.Generator:
        """A torch generator seeded from here."""
        return torch.Generator().manual_seed(self.getrandbits(48))

    def tensor(self, sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return a contiguous tensor of small random values, negative ones where dtype has them."""
        numbers = torch.randint(-9, 10, tuple(sizes), generator=self.generator())
        if dtype == torch.uint8:
            numbers = numbers.abs()
        return (numbers % 2 == 0) if dtype == torch.bool else numbers.to(dtype)


@dataclass(frozen=True)
class Case:
    """One question: the inputs of the answer, and the truth where the inputs alone do not give it.

    inputs  what the answer is called with
    truth   the right value, when the exercise has no `expected`
    """

    inputs: tuple[Any, ...]
    truth: Any = NOTHING


class Raises:
    """As an expected value: the answer has to raise this class, with this text in its message."""

    def __init__(self, kind: type[BaseException], text: str = "") -> None:
        self.kind, self.text = kind, text

    def __repr__(self) -> str:
        return f"raises {self.kind.__name__}" + (f" saying {self.text!r}" if self.text else "")


@dataclass(frozen=True)
class Raised:
    """What came back from an answer that raised."""

    error: BaseException

    def __repr__(self) -> str:
        return f"raised {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True)
class Wrong:
    """A judge's verdict: which property does not hold, and what would have been right."""

    property: str
    expected: Any = NOTHING


@dataclass(frozen=True)
class Evidence:
    """One failing case, in words.

    kind      "value", "raised", "time", "banned", "mutated", "type" or "ended" (its process)
    input     the inputs as text
    property  what should hold, where that says more than the expected value
    expected  what was expected, as text ("" where the property says it all)
    got       what came back, as text
    printed   what the answer printed on this case
    number    which case of the run this is, from 1
    inputs    the inputs themselves; value: what came back; right: what is right (for hints)
    stage     the name of the stage that asked, "" in an exercise without stages
    """

    kind: str
    input: str
    property: str
    expected: str
    got: str
    printed: str
    number: int
    inputs: tuple[Any, ...] = ()
    value: Any = None
    right: Any = None
    stage: str = ""

    def rows(self) -> dict[str, str]:
        """The table shown to the learner; empty rows are left out."""
        rows = {
            "input": self.input,
            "should hold": self.property,
            "expected": self.expected,
            "got": self.got,
            "printed": self.printed,
        }
        return {name: text for name, text in rows.items() if text}


@dataclass(frozen=True)
class Hint:
    """A hint, and optionally the evidence it belongs to: it is given only when `when` is true.

    Without fitting evidence the hints without a `when` come in order.

    text   may name {input}, {expected}, {got} and {number} of the failing case
    stage  the stage it is about: it is never given for another one
    """

    text: str
    when: Callable[[Evidence], bool] | None = None
    stage: str = ""

    def may_help(self, evidence: Evidence) -> bool:
        """Whether this hint is not about another stage."""
        return self.stage in ("", evidence.stage)

    def fits(self, evidence: Evidence) -> bool:
        """Whether this hint is about this evidence; a `when` that breaks is no reason to break.

        An answer that changes its input must be told that first: a hint that would also fit the
        same value beside an unchanged input is about something else.
        """
        if self.when is None:
            return self.stage == evidence.stage != "" and evidence.kind != "mutated"
        if not self._says(evidence):
            return False
        return evidence.kind != "mutated" or not self._says(
            replace(evidence, kind="value", property="", got="")
        )

    def _says(self, evidence: Evidence) -> bool:
        try:
            return self.may_help(evidence) and bool(self.when and self.when(evidence))
        except Exception:
            return False

    def about(self, evidence: Evidence) -> str:
        """The text, filled with the evidence that earned it."""
        facts = {
            "input": evidence.input,
            "expected": evidence.expected,
            "got": evidence.got,
            "number": str(evidence.number),
        }
        text = self.text
        for name, value in facts.items():  # not str.format: hints may hold braces of their own
            text = text.replace("{" + name + "}", value)
        return text


@dataclass(frozen=True)
class Stage:
    """A named part of a check: cases of its own, or those of the exercise that `only` takes.

    case   (rng, size) -> Case, or the tuple of inputs; the exercise's own when left out
    only   (*inputs) -> whether a case belongs to this stage
    cases  how many are tried
    """

    name: str
    case: Callable[[Rng, int], Case | tuple[Any, ...]] | None = None
    only: Callable[..., bool] | None = None
    cases: int = 20


RUNGS = ("warm-up", "core", "boss")


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """A question with a check that cannot be fooled.

    id         "<exercise module>.<name>"
    rung       "warm-up" (1 to 5 lines, 2 to 4 minutes), "core" (at most 20 lines, 15 minutes) or
               "boss", which is optional
    minutes    what a reader needs for it
    stages     parts of the check, easy ones first; the last has neither `case` nor `only`: it
               asks every case there is
    picture    (case, got, right) -> something to display: what went wrong, beside what is right
    score      (answer) -> one line about a right answer ("yours 8 sectors, ideal 4")
    case       (rng, size) -> Case, or the tuple of inputs; size grows from 0 to `sizes`
    expected   (*inputs) -> the right value, or `Raises(kind)`; leave out when cases hold the truth
    judge      (case, got) -> None when right, else a sentence or `Wrong`; for properties with
               several right answers. `got` is a `Raised` when the answer raised
    drive      (answer, *inputs) -> what to compare; for answers that are classes or several
               functions. Runs under the same guard as the answer
    returns    classes of return values allowed beside plain data and tensors
    tolerance  relative difference allowed between floats
    cases      how many are tried
    seconds    of CPU time that the answer may use on one of them, other processes it started
               included: several times what a plain right answer needs
    waits      seconds in which nothing of it runs: it waits for ever
    sizes      the largest `size` that `case` is asked for
    banned     dotted names the answer may not call: a function ("torch.broadcast_shapes",
               "torch.Tensor.expand"), a module ("labkit.core.promotion") or everything
               ("torch.*", "numpy.*", "labkit.*")
    processes  True when the answer may start threads and processes
    apart      True when a wrong answer may end its process: it is asked in one of its own
    smaller    (*inputs) -> tuples of smaller inputs to try when these fail
    show       (*inputs) -> the input as one text, where repr says it badly
    hints      text or Hint, the most general first
    must_fail  names of the wrong answers its tests hold
    """

    id: str
    case: Callable[[Rng, int], Case | tuple[Any, ...]]
    hints: tuple[str | Hint, ...]
    must_fail: tuple[str, ...]
    expected: Callable[..., Any] | None = None
    judge: Callable[[Case, Any], str | Wrong | None] | None = None
    drive: Callable[..., Any] | None = None
    rules: tuple[str, ...] = ()
    returns: tuple[type, ...] = ()
    tolerance: float = 0.0
    cases: int = 200
    seconds: float = 5.0
    waits: float = 10.0
    sizes: int = 8
    banned: tuple[str, ...] = ()
    processes: bool = False
    apart: bool = False
    smaller: Callable[..., Any] | None = None
    show: Callable[..., str] | None = None
    minutes: int = 10
    rung: str = "core"
    stages: tuple[Stage, ...] = ()
    picture: Callable[[Case, Any, Any], Any] | None = None
    score: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        module, dot, name = self.id.partition(".")
        if not (dot and module.isidentifier() and name.isidentifier()):
            raise ValueError(f"exercise id {self.id!r} must read '<module>.<name>'")
        if self.cases < 1 or min(self.seconds, self.waits) <= 0 or self.sizes < 0:
            raise ValueError(f"{self.id}: cases, seconds, waits and sizes must be positive")
        if not self.hints or not self.must_fail:
            raise ValueError(f"{self.id} needs hints and must_fail, got neither or one of them")
        if self.rung not in RUNGS:
            raise ValueError(f"{self.id}: rung is {self.rung!r}, not one of {RUNGS}")
        if self.stages and (self.stages[-1].case or self.stages[-1].only):
            raise ValueError(f"{self.id}: the last stage asks every case, so it chooses none")
        names = [stage.name for stage in self.stages]
        strange = {h.stage for h in self.hints if isinstance(h, Hint)} - {"", *names}
        if names and (len(set(names)) < len(names) or strange):
            raise ValueError(f"{self.id}: stages {names}, and hints about {sorted(strange)}")

    @property
    def name(self) -> str:
        """The part of the id after the module."""
        return self.id.partition(".")[2]

    def make(self, seed: int, number: int, size: int) -> Case:
        """Case `number` of a seed: the same one whenever it is asked for."""
        made = self.case(Rng(f"{seed}/{self.id}/{number}"), size)
        if isinstance(made, Case):
            return made
        if not isinstance(made, tuple):
            raise TypeError(f"{self.id}: case() returned {type(made).__name__}, not Case or tuple")
        return Case(made)

    def right(self, case: Case) -> Any:
        """What is right for a case, or NOTHING when only `judge` can say."""
        if self.expected is not None:
            return self.expected(*case.inputs)
        return case.truth

    def hint(self, index: int) -> Hint:
        """The index-th hint as a Hint."""
        hint = self.hints[index]
        return hint if isinstance(hint, Hint) else Hint(hint)


def handed_out(function: F) -> F:
    """Mark a function of an exercise module as one that answers may call."""
    function.__handed_out__ = True  # type: ignore[attr-defined]
    return function
