"""labkit's promotion rules against PyTorch's: all pairs of types, and random operand lists."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from labkit.conformance.report import Comparison, Size
from labkit.conformance.sides import LABKIT_DTYPES, TORCH_DTYPES
from labkit.conformance.tally import Tally
from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.dtype import DTYPES, DType
from labkit.core.memory_format import Ints

NOT_MODELLED: tuple[str, ...] = (
    "the one-byte floats (float8), float4_e2m1fn_x2, quantized and bit types",
    "operators with rules of their own (bool to integer in sum, integers to floats in div)",
)
LISTS = {"small": 5_000, "full": 200_000}
DEFAULTS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
NUMBERS = (True, False, 0, 3, -1, 2**40, 0.5, float("nan"), 2j, 1 + 1j)


class Operand:
    """What promotion asks of an operand, without any memory behind it."""

    is_wrapped_number = False

    def __init__(self, dtype: DType, sizes: Ints) -> None:
        self.dtype = dtype
        self.sizes = sizes

    def __repr__(self) -> str:
        return f"m.zeros({self.sizes}, dtype=m.{self.dtype.name})"

    def as_torch(self) -> torch.Tensor:
        """The tensor torch is asked about."""
        return torch.empty(self.sizes, dtype=TORCH_DTYPES[self.dtype.name])


def compare(seed: int, size: Size, **options: str) -> Iterator[Comparison]:
    """Ask both sides about every pair of types, and about random operands in all categories."""
    pairs = [(a, b) for a in DTYPES.values() for b in DTYPES.values()]
    yield _all_pairs(
        "promote_types, all pairs", pairs, promotion.promote_types, torch.promote_types
    )
    yield _all_pairs("can_cast, all pairs", pairs, promotion.can_cast, torch.can_cast)
    count = int(options.get("lists", LISTS[size]))
    before = torch.get_default_dtype()
    ours_before = promotion.get_default_dtype()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for default in DEFAULTS:
                torch.set_default_dtype(TORCH_DTYPES[default.name])
                promotion.set_default_dtype(default)
                r = random.Random(f"{seed}:{default.name}")
                what = f"default {default.name}"
                yield _lists(f"result_type of two, {what}", _two, count, r)
                yield _lists(f"result_type of a list, {what}", _several, count, r)
    finally:
        torch.set_default_dtype(before)
        promotion.set_default_dtype(ours_before)


def _answer(function: Callable[..., Any], *arguments: Any) -> Any:
    """What is answered, or the class of the exception."""
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error)
    return LABKIT_DTYPES[result] if isinstance(result, torch.dtype) else result


def _all_pairs(
    what: str,
    pairs: Sequence[tuple[DType, DType]],
    ours: Callable[[DType, DType], Any],
    theirs: Callable[[torch.dtype, torch.dtype], Any],
) -> Comparison:
    tally = Tally(what)
    for a, b in pairs:
        real = _answer(theirs, TORCH_DTYPES[a.name], TORCH_DTYPES[b.name])
        tally.add(_answer(ours, a, b), real, f"  {what.partition(',')[0]}({a.name}, {b.name})")
    return tally.result()


def _lists(
    what: str, draw: Callable[[random.Random], tuple[list[Any], Any]], count: int, r: random.Random
) -> Comparison:
    tally = Tally(what)
    for _ in range(count):
        operands, theirs = draw(r)
        ours = _answer(promotion.result_type, *operands)
        tally.add(ours, theirs, f"  result_type of {operands}")
    return tally.result()


def _operand(r: random.Random) -> Operand | complex:
    if r.random() < 0.35:
        return r.choice(NUMBERS)
    dtype = r.choice(tuple(DTYPES.values()))
    return Operand(dtype, r.choice(((), (), (1,), (2,), (1, 1), (0,))))


def _two(r: random.Random) -> tuple[list[Any], Any]:
    operands = [_operand(r), _operand(r)]
    theirs = [each.as_torch() if isinstance(each, Operand) else each for each in operands]
    return operands, _answer(torch.result_type, *theirs)


def _wrapped_number(number: complex) -> torch.Tensor:
    """A Python number as the 0-dim tensor torch makes of it, its mark of origin included.

    Only the inside of an operator ever sees one, but the graph of a product keeps it.
    """
    one = torch.ones(1, dtype=torch.complex64, requires_grad=True)
    return (one * number).grad_fn._saved_other


_WRAPPED = {(type(number), str(number)): _wrapped_number(number) for number in NUMBERS}


def _several(r: random.Random) -> tuple[list[Any], Any]:
    """Up to five operands; `block_diag` answers in the result type of its whole list."""
    operands = [_operand(r) for _ in range(r.randrange(1, 6))]
    theirs = [
        each.as_torch() if isinstance(each, Operand) else _WRAPPED[type(each), str(each)]
        for each in operands
    ]
    return operands, _answer(lambda: torch.block_diag(*theirs).dtype)
