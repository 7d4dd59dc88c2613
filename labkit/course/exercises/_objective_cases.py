"""What the learning objectives are asked: logs, parts, questions about lists, and matrices."""

import functools
import math
from typing import Any

from labkit.course.checking.guard import outside
from labkit.course.exercise import Rng, handed_out
from labkit.course.exercises._cpp_matrix import laid_out
from labkit.course.sources import installed_file

EVENTS = ("allocate", "Allocate", "free", "read")


def _line(event: str, number: int) -> str:
    return f"{event} block {number}"


def two_logs(rng: Rng, size: int) -> tuple[list[str], list[str]]:
    """Two logs of lines that look alike; the largest are longer than a screen."""
    count = rng.randint(0, 1 + size) + (90 if size == 8 else 0)
    told = [(rng.choice(EVENTS), rng.choice((12, 21, 120))) for _ in range(count)]
    one, other = ([_line(*event) for event in told] for _ in range(2))
    kind = rng.choice(("same", "changed", "changed", "longer", "shorter"))
    if kind == "changed" and one:
        for place in range(rng.randrange(len(one)), len(one)):
            event, number = told[place]
            other[place] = rng.choice(
                (_line(event, 12), _line(event, 21), _line(event.lower(), number),
                 _line(event, number) + " ", _line(event, number) + ", then a split")
            )  # fmt: skip
        if rng.chance(0.3):
            other.append(_line("free", 21))
    elif kind == "longer":
        other.append(_line("free", 12))
    elif kind == "shorter":
        other = other[: rng.randint(0, len(one))]
    return one, other


@handed_out
def out_of_reach(part: Any) -> Any:
    """The part, for an answer to whom the healthy one is out of reach."""

    @functools.wraps(part)
    def ask(*arguments: Any) -> Any:
        with outside():
            return part(*arguments)

    return ask


LISTS = "aten/src/ATen/native/native_functions.yaml"
ROWS = "tools/autograd/derivatives.yaml"
KEYS = "c10/core/DispatchKey.h"


@functools.cache
def text_of(path: str) -> str:
    found = installed_file(path)
    if found is None:
        raise FileNotFoundError(f"the installed torch has no {path}")
    return found.read_text(encoding="utf-8")


NAMED = (
    "add", "mul", "sum", "max", "sort", "xlogy", "view", "index", "pow", "div", "abs", "cat",
    "masked_fill", "to", "normal", "std",
)  # fmt: skip
ENTRIES = (
    "mul.Tensor", "add.Tensor", "eq.Tensor", "masked_fill.Scalar", "index_select", "sum", "exp",
    "view", "sort", "floor", "isnan", "cat",
)  # fmt: skip
NO_ENTRIES = (
    ("numel", "argmax", "ones_like"),  # operators without a formula
    ("mul", "ab", "mul.Ten", "masked_fill", "index_s"),  # an entry goes on after them
    ("mul.Nonsense", "exp.Other", "view.Tensor"),  # another overload has one
    ("index.select", "masked.fill.Scalar", "max.pool2d"),  # with _ for the first dot
)
FUNCTIONALITIES = (
    "Dense", "Quantized", "BackendSelect", "Python", "Fake", "Functionalize",
    "Conjugate", "Negative", "ADInplaceOrView", "AutogradFunctionality",
    "Batched", "PythonTLSSnapshot", "PythonDispatcher",
)  # fmt: skip
MISLEADING = (
    ("Python", "Functionalize"),
    ("Conjugate", "ADInplaceOrView"),
    ("BackendSelect", "AutogradFunctionality"),
)
"""Of each pair a comment names the second one before the line of the first."""
MOVED = (
    ("Functionalize", "ADInplaceOrView"),
    ("Functionalize", "AutogradFunctionality"),
    ("Functionalize", "Batched"),
)
"""In release 1.11 the first of each pair was the stronger one."""


def question(*kinds: str) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, str]:
        """In turn: what stands there, and what is easily taken for it."""
        kind = rng.choice(kinds or ("overloads", "formula", "stronger"))
        if kind == "stronger":
            some = rng.choice((FUNCTIONALITIES, *(MISLEADING if size % 2 else MOVED)))
            return kind, " ".join(rng.sample(some, 2))
        if kind == "overloads":
            return kind, rng.choice(NAMED)
        return kind, rng.choice((ENTRIES, *NO_ENTRIES)[size % 5])

    return case


@handed_out
def with_holes(kind: str, rows: int, cols: int, seed: int) -> Any:
    """A matrix of this layout, its first number -inf or some of them nan; one has no columns."""
    x = laid_out(kind, rows, cols, seed)
    x.mul_(2).sub_(1)
    x.masked_fill_(x.abs() < 0.15 * (seed % 3), math.nan)
    if seed % 3 == 0:
        x[0, 0] = -math.inf
    return x[:, :0] if seed == 3 else x
