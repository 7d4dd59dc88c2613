"""Where torch and NumPy part: the shape of one expression in both."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}


def _an_expression(rng: Rng, size: int) -> tuple[Any, ...]:
    if rng.chance(0.3):
        return (_an_arithmetic(rng, size),)
    rank = rng.randint(0 if rng.chance(0.1) else 1, 1 + size // 2)
    sizes = tuple(rng.randint(0 if rng.chance(0.08) else 1, 4) for _ in range(rank))
    if rank >= 3 and sizes[0] and sizes[2] and rng.chance(0.3):
        return (("index", sizes, _split_index(rng, sizes)),)
    used = rng.randint(1, rank + 1 if rng.chance(0.08) else max(1, rank))
    list_at = rng.randint(0, used - 1) if rng.chance(0.5) else -1
    index: list[Any] = []
    for dim in range(used):
        length = sizes[dim] if dim < rank else 2
        if dim == list_at and length:
            index.append(_a_list(rng, length))
        elif rng.chance(0.35):
            index.append(_an_integer(rng, length))
        else:
            index.append(_a_slice(rng))
    return (("index", sizes, tuple(index)),)


def _split_index(rng: Rng, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """An integer, a slice and a list in one of the orders in which the slice may split them."""
    parts: list[Any] = [_an_integer(rng, sizes[0]), _a_slice(rng, 0.1), _a_list(rng, sizes[2])]
    if rng.chance(0.4):
        parts = [_a_list(rng, sizes[0]), _a_slice(rng, 0.1), _an_integer(rng, sizes[2])]
    if len(sizes) > 3:
        parts.append(rng.choice((_a_slice(rng, 0.1), _an_integer(rng, sizes[3]))))
    return tuple(parts)


def _an_integer(rng: Rng, length: int) -> int:
    """An index into `length` elements, rarely one just outside."""
    if length == 0 or rng.chance(0.05):
        return rng.choice((-length - 1, length))
    return rng.randint(-length, length - 1)


def _a_list(rng: Rng, length: int) -> list[int]:
    return [_an_integer(rng, length) for _ in range(rng.randint(1, 3))]


def _a_slice(rng: Rng, negative: float = 0.2) -> slice:
    start, stop = (rng.choice((None, None, rng.randint(-5, 5))) for _ in range(2))
    step = rng.choice((-1, -2)) if rng.chance(negative) else rng.choice((None, None, 1, 2, 3))
    return slice(start, stop, 0 if rng.chance(0.03) else step)


def _an_arithmetic(rng: Rng, size: int) -> tuple[Any, ...]:
    shape = tuple(rng.randint(0 if rng.chance(0.1) else 1, 4) for _ in range(rng.randint(0, 3)))
    other = tuple(1 if rng.chance(0.2) else length for length in shape[rng.randint(0, 3) :])
    if rng.chance(0.25):
        other = rng.sizes(rank=1 + size // 3, largest=3)
    value = rng.choice((-2, -1, 0, 0, 1, 3))
    pair = (shape, other) if rng.chance(0.6) else (other, shape)
    return "arithmetic", pair[0], rng.choice(tuple(OPERATORS)), pair[1], value


def _outcome(compute: Callable[[], Any]) -> tuple[int, ...] | None:
    """The shape of a result, None when it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return tuple(compute().shape)
        except Exception:
            return None


def _compared(expression: tuple[Any, ...]) -> tuple[str, int]:
    if expression[0] == "index":
        _, sizes, index = expression
        ours = _outcome(lambda: torch.zeros(sizes)[index])
        theirs = _outcome(lambda: np.zeros(sizes)[index])
    else:
        _, sizes, operator, other, value = expression
        do = OPERATORS[operator]
        ours = _outcome(lambda: do(torch.full(sizes, 3), torch.full(other, value)))
        theirs = _outcome(lambda: np.asarray(do(np.full(sizes, 3), np.full(other, value))))
    if ours == theirs:
        return ("raise alike" if ours is None else "agree"), 0
    if expression[0] == "arithmetic":
        return "differ", 4 if theirs is None else 3
    if ours is None:
        return "differ", 1
    return "differ", 5 if theirs is None else 2


def _as_expression(expression: tuple[Any, ...]) -> str:
    if expression[0] == "arithmetic":
        _, sizes, operator, other, value = expression
        return f"full({sizes}, 3) {operator} full({other}, {value})   {expression}"
    parts = []
    for part in expression[2]:
        if isinstance(part, slice):
            ends = [part.start, part.stop, part.step]
            texts = ["" if end is None else str(end) for end in ends]
            parts.append(":".join(texts if texts[2] else texts[:2]))
        else:
            parts.append(repr(part))
    return f"zeros({expression[1]})[{', '.join(parts)}]   {expression}"


def _smaller_expressions(expression: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if expression[0] == "index":
        kind, sizes, index = expression
        for dim in range(min(len(sizes), len(index))):
            if len(index) > 1:
                yield ((kind, sizes[:dim] + sizes[dim + 1 :], index[:dim] + index[dim + 1 :]),)
            if index[dim] != slice(None):
                yield ((kind, sizes, (*index[:dim], slice(None), *index[dim + 1 :])),)
        if len(sizes) > len(index):
            yield ((kind, sizes[:-1], index),)
    else:
        kind, sizes, operator, other, value = expression
        if sizes:
            yield ((kind, sizes[1:], operator, other, value),)
        if other:
            yield ((kind, sizes, operator, other[1:], value),)


def _rule_is(rule: int) -> Callable[[Evidence], bool]:
    return lambda evidence: isinstance(evidence.right, tuple) and evidence.right[1] == rule


numpy_twin = Exercise(
    id="indexing.numpy_twin",
    rules=("work the shapes out yourself: no torch, no NumPy, no labkit",),
    case=_an_expression,
    expected=_compared,
    smaller=_smaller_expressions,
    show=_as_expression,
    cases=400,
    rung="boss",
    minutes=35,
    stages=(
        Stage("indices", only=lambda expression: expression[0] == "index"),
        Stage("arithmetic, too"),
    ),
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Both libraries are right about their own rules: write down what each of them does with "
        "{input}, and only then compare.",
        Hint("Your answer is wrong for an expression with a negative step.", when=_rule_is(1)),
        Hint(
            "Where advanced indices are separated, the axis order differs when one of them is an "
            "integer: NumPy counts it as an index list of one, torch drops its axis first. If the "
            "two shapes are equal by chance, they agree.",
            when=lambda evidence: (
                evidence.inputs[0][0] == "index"
                and any(isinstance(part, list) for part in evidence.inputs[0][2])
                and any(isinstance(part, int) for part in evidence.inputs[0][2])
            ),
        ),
        Hint(
            "A complaint about a value needs a value: what is the shape of the result here, and "
            "has it any element?",
            when=lambda evidence: 0 in evidence.inputs[0][1] or _rule_is(5)(evidence),
        ),
        Hint(
            "Both raise when there are too many indices, an integer is outside, a step is 0 or the "
            "shapes do not broadcast. Two different exceptions still count as alike.",
            when=lambda evidence: evidence.right == ("raise alike", 0),
        ),
        "Work out one shape or None per library, with len(range(*slice.indices(size))) for a "
        "slice. Then: equal or not, and which of the two is None.",
    ),
    must_fail=(
        "always agree",
        "complains about a value where there is none",
        "treats every raise as differ",
        "compares values but not shapes",
        "hard-codes the two printed examples",
        CONSTANT,
        FIRST,
        READS,
    ),
)
