"""Small programs of tensors, and the tape of what they call: a recording, and when it fits."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from labkit.course.exercise import (
    Case,
    Exercise,
    Hint,
    Raised,
    Raises,
    Rng,
    Stage,
    handed_out,
)
from labkit.course.exercises._never_right import FIRST

Tape = list[tuple[Any, tuple[Any, ...], Any]]
READS = ("__bool__", "__float__", "__int__", "__repr__", "__format__", "item", "tolist")
MAKES = ("mul", "add", "sub", "sum", "where", "t", "to", "norm", "__len__", "__get__", "__add__")
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda x, first: x * 2,
    "again": lambda x, first: x + first.mean(),
    "in place": lambda x, first: (x + 1).mul_(3),
    "aside": lambda x, first: (x, x.mean())[0],
    "decide": lambda x, first: x * 2 if x.sum() > 0 else x - 3,
    "number": lambda x, first: x - float(x.sum()),
    "look": lambda x, first: (x, bool(x.sum() > 1))[0],
    "text": lambda x, first: x + len(f"{x.max()}"),
    "list": lambda x, first: x + len(x.tolist()),
    "rows": lambda x, first: x + 1 if x.shape[0] > 2 else x - 1,
    "count": lambda x, first: x * len(x),
    "keep": lambda x, first: x[x > x.min()] if x.shape[0] > 1 else x,
    "single": lambda x, first: x + 1 if x.dtype == torch.float32 else x - float(x.sum()),
    "flat": lambda x, first: x + 1 if x.dim() == 1 else x - float(x.sum()),
}
"""What a program does to x; `first` is what it was called with."""
PLAIN, SIZED = ("times", "again", "in place", "aside"), ("rows", "count")
DECIDES = ("decide", "number", "look", "text", "list")
LOOKS_AT_X = {5: ("single", torch.float32), 6: ("single", torch.float64), 7: ("flat", None)}
"""Of needs_numbers, size -> a function that depends on x's dtype or dimensions, and x's dtype."""


class Recorder(TorchFunctionMode):  # type: ignore[misc]
    """Inside it, every call of torch is on the tape with its arguments and its result."""

    def __init__(self) -> None:
        super().__init__()
        self.tape: Tape = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.tape.append((func, args, result))
        return result


@functools.cache
def program(steps: tuple[str, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The function that does these steps one after the other."""

    def run(x: torch.Tensor) -> torch.Tensor:
        first = x
        for step in steps:
            x = STEPS[step](x, first)
        return x

    run.__name__ = ", then ".join(steps)
    return run


def numbers(rng: Rng, count: int) -> torch.Tensor:
    """A float32 tensor of small whole numbers: its sums are exact."""
    return torch.tensor([float(rng.randint(-4, 4)) for _ in range(count)])


def steps_of(rng: Rng, size: int, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """One to `size + 1` of these steps."""
    return tuple(rng.choice(kinds) for _ in range(rng.randint(1, 1 + size)))


# --- needs_numbers


def _a_function(rng: Rng, size: int) -> Case:
    if size in LOOKS_AT_X:
        step, dtype = LOOKS_AT_X[size]
        x = numbers(rng, 4).to(dtype) if dtype else numbers(rng, 4).reshape(2, 2)
        return Case((program((step,)), x))
    kinds = ("times", "again", "rows", "count")
    steps = steps_of(rng, size, kinds if rng.chance(0.5) else (*kinds, "decide", "number", "list"))
    if rng.chance(0.4):  # only a long enough x needs its numbers
        steps = ("rows", "keep") if rng.chance(0.5) else steps
    return Case((program(steps), numbers(rng, rng.randint(1, 4))))


def _fails_without(f: Any, x: torch.Tensor) -> bool:
    try:
        f(torch.empty(x.shape, dtype=x.dtype, device="meta"))
    except RuntimeError:
        return True
    return False


needs_numbers = Exercise(
    id="ecosystem.needs_numbers",
    case=_a_function,
    expected=_fails_without,
    rung="warm-up",
    minutes=3,
    cases=80,
    show=lambda f, x: f"x = {x.tolist()}; f: {f.__name__}",
    hints=(
        Hint("The copy needs x's own shape and dtype: what f does may depend on them.",
             when=lambda e: any(one in e.inputs[0].__name__ for one in ("rows", "single", "flat"))),
        "Call f with a copy of x on the device `meta`; an error of it is a RuntimeError.",
        "f(x) itself never fails here. Only without numbers it may.",
    ),
    must_fail=("takes another shape", "takes another dtype", "flattens x",
               "says that no function needs them",
               "looks for reads alone: an operator may need numbers too", "asks x itself", FIRST),
)  # fmt: skip


# --- pieces


def _some_names(rng: Rng, size: int) -> tuple[list[str]]:
    others = (*MAKES, "itemsize")
    return ([rng.choice(READS if rng.chance(0.35) else others) for _ in range(size)],)


def _pieces(names: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for name in names:
        found.append([]) if name in READS else found[-1].append(name)
    return [piece for piece in found if piece]


pieces = Exercise(
    id="ecosystem.pieces",
    case=_some_names,
    expected=_pieces,
    rung="warm-up",
    minutes=4,
    cases=120,
    hints=(
        Hint("A piece without calls is none: two reads in a row, or one at an end, make no piece.",
             when=lambda e: isinstance(e.value, list) and [] in e.value),
        Hint("What comes after the last read is a piece too.",
             when=lambda e: isinstance(e.value, list) and e.value == e.right[:-1]),
        "Begin with one empty list. Each read begins another, every other name goes into the last.",
        "A read itself is in no piece.",
    ),
    must_fail=("keeps empty pieces", "forgets the last piece", "keeps the read in its piece",
               "knows only some of READS", "cuts at names that look like reads", "cuts once only",
               FIRST),
)  # fmt: skip


# --- checked_replay


def _a_recording(kinds: tuple[str, ...]) -> Callable[[Rng, int], Case]:
    def case(rng: Rng, size: int) -> Case:
        old = numbers(rng, rng.randint(1, 4))
        steps = steps_of(rng, size, kinds)
        with Recorder() as recorder:
            out = program(steps)(old)
        if not recorder.tape:
            raise ValueError("a program without calls")
        return Case((recorder.tape, old, out, _another(rng, old)))

    return case


def _another(rng: Rng, old: torch.Tensor) -> torch.Tensor:
    """What to play it for: the numbers in another order, nearly the same, others, or more."""
    if rng.chance(0.3):
        return old.flip(0)
    if rng.chance(0.4):
        return old + torch.tensor([0.25] + [0.0] * (len(old) - 1))
    return numbers(rng, len(old) if rng.chance(0.6) else rng.randint(1, 5))


def _replayed(tape: Tape, old: torch.Tensor, out: torch.Tensor, new: torch.Tensor) -> Any:
    now = {id(old): new}
    for call, args, result in tape:
        got = call(*[now.get(id(one), one) for one in args])
        if isinstance(result, torch.Tensor):
            now[id(result)] = got
        elif got != result:
            return Raises(ValueError)
    return now[id(out)]


@handed_out
def leaves_the_tape(
    answer: Any, tape: Tape, old: torch.Tensor, out: torch.Tensor, new: torch.Tensor
) -> Any:
    """What the answer returns; a remark where it wrote into the list it was given."""
    before = [*tape]
    got = answer(tape, old, out, new)
    same = len(tape) == len(before) and all(map(operator.is_, tape, before))
    return got if same else "the tape was changed"


def _shown(tape: Tape, old: torch.Tensor, out: torch.Tensor, new: torch.Tensor) -> str:
    names = [call.__name__ for call, *_ in tape]
    return f"calls {names}, recorded with {old.tolist()}, for {new.tolist()}"


def _should_refuse(evidence: Any) -> bool:
    return isinstance(evidence.right, Raises) and not isinstance(evidence.value, Raised)


checked_replay = Exercise(
    id="ecosystem.checked_replay",
    case=_a_recording((*PLAIN, *DECIDES, *SIZED)),
    expected=_replayed,
    drive=leaves_the_tape,
    stages=(
        Stage("straight", case=_a_recording(PLAIN), cases=30),
        Stage("decisions", case=_a_recording((*PLAIN, *DECIDES)), cases=60),
        Stage("sizes", case=_a_recording((*PLAIN, *SIZED)), cases=60),
        Stage("all"),
    ),
    cases=120,
    sizes=4,
    minutes=10,
    show=_shown,
    hints=(
        Hint("It fits: every read gives what it gave. Why did you refuse?",
             when=lambda e: isinstance(e.value, Raised) and isinstance(e.value.error, ValueError)
             and not isinstance(e.right, Raises)),
        Hint("`x.shape` and `len(x)` are on the tape as well: they gave no tensor.", stage="sizes",
             when=_should_refuse),
        Hint("A call that gave no tensor is a read. Call it again and compare with what it gave.",
             when=_should_refuse),
        Hint("What the function returned need not be the result of the last call: look `out` up.",
             when=lambda e: e.inputs[0][-1][2] is not e.inputs[2]
             and not isinstance(e.value, Raised) and not isinstance(e.right, Raises)),
        Hint("An argument may be a tensor that was made long before, or the input: keep all of "
             "them in `now`.", stage="straight"),
        "Start from `replay`; only what becomes of `got` is new.",
        "`torch.is_tensor(result)` tells a tensor from what was read.",
    ),
    must_fail=("never checks", "checks decisions alone", "refuses every other size",
               "compares only whether it is true", "refuses other numbers",
               "gives back what was recorded", "knows only the last result",
               "returns what the last call gave", "ignores text", "ignores lists",
               "compares numbers roughly", "changes the tape", FIRST),
)  # fmt: skip
