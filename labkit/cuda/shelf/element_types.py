"""The types that a rung computes in: float32, and halves where its file has kernels for them."""

from collections.abc import Sequence
from typing import Any

import torch

from labkit.cuda.shelf.rung import ROUNDING, Array, Output, Problem, Rung


def types_of(rung: Rung) -> tuple[str, ...]:
    """The types, as the words that its kernels' names end in; "" is float32."""
    return ("", *(step for step in ("half", "bfloat16") if step in rung.steps))


def in_type(array: Array | None, step: str) -> Any:
    """The numbers rounded to the type of that word; None stays None."""
    wide = array is None or not step
    return array if wide else torch.from_numpy(array).to(getattr(torch, step))


def rounded_once(array: Any, expected: Array, atol: float, rtol: float = Output.rtol) -> Output:
    """What must be in an array: in float32 up to `rtol`, else up to a rounding to its type."""
    rounding = ROUNDING.get(array.dtype)
    return Output(array, expected, atol, 1.01 * rounding if rounding else rtol)


def output(array: Any, expected: Array, inputs: Sequence[Array], depth: int) -> Output:
    """What must be in an array: float32's rounding of a sum, and that of the array's own type."""
    return rounded_once(
        array, expected, Problem(list(inputs), array, expected, [], depth).tolerance()
    )
