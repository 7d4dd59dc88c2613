"""Copies of an element-wise operator of two tensors, each with one planted defect.

A defect is behaviour: the wrong copy asks the right operator, and spoils the answer for some
inputs. So nothing is to be found by reading, and only an input that it is wrong for shows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Operator = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
MOST = 40
DTYPES = (
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
)  # fmt: skip
SPECIAL = (0.0, 1.0, -1.0, float("inf"), float("nan"))


@dataclass(frozen=True)
class Defect:
    """One way to be wrong.

    family   "numbers", "dtypes", "layouts", "broadcasting" or "empty"
    meets    (x, y) -> whether it shows at this input
    spoils   the right answer -> the wrong one; it may raise
    """

    name: str
    family: str
    meets: Callable[[Any, Any], bool]
    spoils: Callable[[torch.Tensor], torch.Tensor]

    def planted_in(self, operator: Operator) -> Operator:
        """The operator with this defect."""

        def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            right = operator(x, y)
            return self.spoils(right) if self.meets(x, y) else right

        return wrong


def _other_dtype(right: torch.Tensor) -> torch.Tensor:
    return right.to(torch.float32 if right.dtype == torch.float64 else torch.float64)


def _other_numbers(right: torch.Tensor) -> torch.Tensor:
    """No number stays, NaN neither; there may be none."""
    return torch.where(right == 7, torch.full_like(right, 5), torch.full_like(right, 7))


def _refused(right: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("sizes do not match")


def _turned(x: torch.Tensor) -> bool:
    return bool(x.dim() > 1 and x.numel() > 1 and x.stride(-1) > x.stride(0))


def _stepped(x: torch.Tensor) -> bool:
    return x.dim() > 0 and x.shape[-1] > 1 and x.stride(-1) > 1 and not _turned(x)


def _meeting(a: float, b: float) -> Callable[[Any, Any], bool]:
    """Whether x is a somewhere, and y is b at the same place."""

    def same(x: torch.Tensor, number: float) -> torch.Tensor:
        return x.isnan() if number != number else x == number

    return lambda x, y: bool((same(x, a) & same(y, b)).any())


def _stretched(which: int, how: str) -> Callable[[Any, Any], bool]:
    def meets(*pair: torch.Tensor) -> bool:
        one, whole = pair[which], torch.broadcast_shapes(*(each.shape for each in pair))
        if how == "has fewer dimensions":
            return bool(one.dim() < len(whole))
        at = 0 if how == "has 1 row for several" else -1
        return bool(one.dim() == len(whole) > 1 and one.shape[at] == 1 < whole[at])

    return meets


def _both_are(dtype: torch.dtype) -> Callable[[Any, Any], bool]:
    return lambda x, y: bool(x.dtype == y.dtype == dtype)


def _one_is(layout: Callable[[torch.Tensor], bool], which: int) -> Callable[[Any, Any], bool]:
    return lambda *pair: layout(pair[which])


def _without(axis: int) -> Callable[[Any, Any], bool]:
    return lambda x, y: bool(x.dim() == y.dim() == 2 and x.shape[axis] == 0)


def _all() -> tuple[Defect, ...]:
    made = [
        Defect(f"x is {a}, y is {b}", "numbers", _meeting(a, b), _other_numbers)
        for a in SPECIAL
        for b in SPECIAL
    ]
    made += [
        Defect(f"x and y are {dtype}", "dtypes", _both_are(dtype), _other_dtype) for dtype in DTYPES
    ]
    for which, name in enumerate("xy"):
        for how, layout in {"is transposed": _turned, "has gaps": _stepped}.items():
            meets = _one_is(layout, which)
            made.append(Defect(f"{name} {how}", "layouts", meets, _other_numbers))
        for how in ("has 1 row for several", "has 1 column for several", "has fewer dimensions"):
            made.append(Defect(f"{name} {how}", "broadcasting", _stretched(which, how), _refused))
    for at, name in enumerate(("rows", "columns")):
        made.append(Defect(f"there are no {name}", "empty", _without(at), _refused))
    return tuple(made)


DEFECTS = {defect.name: defect for defect in _all()}
FAMILIES = tuple(dict.fromkeys(defect.family for defect in DEFECTS.values()))


def finds(samples: Sequence[Any], wrong: Operator, right: Operator) -> str:
    """Return "found" or "nothing found"; else what is the matter with the samples themselves."""
    if len(samples) > MOST:
        return f"{len(samples)} samples; at most {MOST} are allowed"
    for number, (x, y) in enumerate(samples):
        try:
            expected = right(x, y)
        except RuntimeError as error:
            return f"PyTorch itself refuses sample {number}: {str(error).partition('.')[0]}"
        if not _agrees(wrong, expected, x, y):
            return "found"
    return "nothing found"


def shown_by(samples: Sequence[Any], wrong: Operator, right: Operator) -> int | None:
    """The number of the first sample for which the copy is wrong; None where none is."""
    differ = (n for n, pair in enumerate(samples) if not _agrees(wrong, right(*pair), *pair))
    return next(differ, None)


def _agrees(operator: Operator, expected: torch.Tensor, x: Any, y: Any) -> bool:
    try:
        got = operator(x, y)
    except RuntimeError:
        return False
    same = got.dtype == expected.dtype and got.shape == expected.shape
    return bool(same and torch.allclose(got, expected, equal_nan=True))
