"""The equation of an `einsum`, read and checked against the operands.

Source   aten/src/ATen/native/Linear.cpp  einsum
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from labkit.core.memory_format import Ints

ELLIPSIS = "..."


class Equation(NamedTuple):
    """What an equation says.

    operands  per operand its labels, one of them perhaps the ellipsis
    order     all labels once: those of the result, then those that are summed; an ellipsis is
              there as "...0", "...1", ...
    kept      how many of `order` are the result's
    hidden    how many dimensions the ellipsis stands for in the widest operand
    """

    operands: list[list[str]]
    order: list[str]
    kept: int
    hidden: int


def _tokens(text: str, where: str) -> list[str]:
    tokens: list[str] = []
    rest = text.replace(" ", "")
    while rest:
        token = ELLIPSIS if rest.startswith(ELLIPSIS) else rest[0]
        if token == ELLIPSIS and ELLIPSIS in tokens:
            raise RuntimeError(f"einsum(): found '.' in {where} that already has an ellipsis")
        if token != ELLIPSIS and not (token.isascii() and token.isalpha()):
            raise RuntimeError(
                f"einsum(): invalid subscript given in {where}, subscripts must be in [a-zA-Z], "
                f"got {token!r}"
            )
        tokens.append(token)
        rest = rest[len(token) :]
    return tokens


def _hidden(tokens: list[str], sizes: Ints, number: int) -> int:
    """How many dimensions the operand's ellipsis stands for."""
    named = len(tokens) - (ELLIPSIS in tokens)
    fits = len(sizes) >= named if ELLIPSIS in tokens else len(sizes) == named
    if not fits:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the "
            f"number of dimensions ({len(sizes)}) for operand {number}"
        )
    return len(sizes) - named


def _check_sizes(operands: list[list[str]], shapes: Sequence[Ints]) -> None:
    """Refuse a label that stands for two sizes, neither of them 1."""
    seen: dict[str, int] = {}
    for number, (tokens, sizes) in enumerate(zip(operands, shapes, strict=True)):
        behind = False
        own: dict[str, int] = {}
        for place, token in enumerate(tokens):
            if token == ELLIPSIS:
                behind = True
                continue
            size = sizes[place - len(tokens)] if behind else sizes[place]
            if own.setdefault(token, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {token} is repeated for operand {number} but the sizes "
                    f"don't match, {size} != {own[token]}"
                )
            if size != 1 and seen.setdefault(token, size) != size:
                raise RuntimeError(
                    "einsum(): operands do not broadcast: subscript "
                    f"{token} has size {size} for operand {number} which does not broadcast with "
                    f"previously seen size {seen[token]}"
                )


def parse(equation: str, shapes: Sequence[Ints]) -> Equation:
    """The equation, with its labels in the order of the dimensions to work with.

    shapes  sizes of the operands

    Raises   RuntimeError   what is not an equation, or does not fit the shapes
    """
    if not shapes:
        raise RuntimeError("einsum(): must provide at least one operand")
    inputs, arrow, output = equation.partition("->")
    operands = [_tokens(text, f"operand {i}") for i, text in enumerate(inputs.split(","))]
    if len(operands) != len(shapes):
        raise RuntimeError(
            f"einsum(): {equation!r} names {len(operands)} operands, but {len(shapes)} were given"
        )
    widths = [_hidden(*each) for each in zip(operands, shapes, range(len(shapes)), strict=True)]
    hidden = max(widths)
    _check_sizes(operands, shapes)
    used = Counter(token for tokens in operands for token in tokens)
    has_ellipsis = used.pop(ELLIPSIS, 0) > 0
    if arrow:
        result = _tokens(output, "the output")
        for label, count in Counter(result).items():
            if count > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {label} appears more than once in the output"
                )
            if label != ELLIPSIS and label not in used:
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any "
                    "input operand"
                )
    else:
        result = [ELLIPSIS] if has_ellipsis else []
        result += sorted(label for label, count in used.items() if count == 1)
    spread = [f"{ELLIPSIS}{number}" for number in range(hidden)]
    order: list[str] = []
    for label in result:
        order += spread if label == ELLIPSIS else [label]
    kept = len(order)
    if ELLIPSIS not in result:
        order += spread
    order += sorted(label for label in used if label not in order)
    return Equation(operands, order, kept, hidden)
