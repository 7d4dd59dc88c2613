"""Operators as Python functions, whatever Python face they have elsewhere.

Source   torch/nn/functional.py  conv2d = _add_docstr(torch.conv2d, ...)
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from labkit._tensor.bindings import PythonFunction

Tensor = Any
"""What the operators take and give: a `labkit.Tensor`."""
Size = int | Sequence[int]


@cache
def face(name: str) -> PythonFunction:
    """The operator's overloads as one function, its arguments parsed as PyTorch does."""
    return PythonFunction(name, method=False)


def reduction_number(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> int:
    """0 for "none", 1 for "mean", 2 for "sum".

    size_average, reduce   the older way to say so, which wins

    Raises   ValueError   another word
    Source   torch/nn/_reduction.py  get_enum, legacy_get_string
    """
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    words = ("none", "mean", "sum")
    if reduction not in words:
        raise ValueError(f"{reduction!r} is not a valid value for reduction; it is one of {words}")
    return words.index(reduction)
