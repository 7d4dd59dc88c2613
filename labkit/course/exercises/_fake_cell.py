"""The fake kernel of a recurrent step: two new tensors, as the C++ makes them."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out

OWN = "each tensor has its own"


def _shapes(rng: Rng, size: int) -> tuple[int, int, torch.dtype, str]:
    dtype = rng.choice((torch.float32, torch.float64, torch.bfloat16))
    device = rng.choice(("meta", "cpu"))
    return rng.randint(0, 2 + size), rng.randint(1, 3 + size), dtype, device


@handed_out
def _described(outputs: Any, inputs: Any = ()) -> Any:
    """What each result looks like, and which of the tensors lie in the same memory."""
    pairs = combinations([*inputs, *outputs], 2)
    shared = any(torch._C._is_alias_of(one, other) for one, other in pairs)
    return {
        "results": len(outputs),
        "shapes": [tuple(x.shape) for x in outputs],
        "contiguous": [x.is_contiguous() for x in outputs],
        "dtypes": [x.dtype for x in outputs],
        "devices": [x.device.type for x in outputs],
        "memory": "shared" if shared else OWN,
    }


def _drive_fake(answer: Any, batch: int, width: int, dtype: torch.dtype, device: str) -> Any:
    gates = torch.empty(batch, 3 * width, dtype=dtype, device=device)
    old = torch.empty(width, batch, dtype=dtype, device=device).t()
    return _described(answer(gates, old), (gates, old))


def _right_fake(batch: int, width: int, dtype: torch.dtype, device: str) -> Any:
    like = torch.empty(batch, width, dtype=dtype, device=device)
    return _described((like, torch.empty_like(like)))


def _smaller_cell(
    batch: int, width: int, dtype: torch.dtype, device: str
) -> Iterator[tuple[int, int, torch.dtype, str]]:
    if batch > 1:
        yield batch - 1, width, dtype, device
    if width > 1:
        yield batch, width - 1, dtype, device


def _other(name: str) -> Callable[[Evidence], bool]:
    return lambda evidence: bool(evidence.value[name] != evidence.right[name])


fake_kernel = Exercise(
    id="cpp_cuda_extension.fake_kernel",
    rung="warm-up",
    case=_shapes,
    expected=_right_fake,
    drive=_drive_fake,
    show=lambda batch, width, dtype, device: (
        f"gates [{batch}, {3 * width}], old [{batch}, {width}] by columns, {dtype}, on {device}"
    ),
    smaller=_smaller_cell,
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "The operator has two results: return two new tensors.",
            when=_other("results"),
        ),
        Hint(
            "The shape is another one: both results are as large as old.",
            when=_other("shapes"),
        ),
        Hint(
            "The strides are old's own. The C++ kernel makes contiguous results, whatever strides "
            "its inputs have.",
            when=_other("contiguous"),
        ),
        Hint(
            "The C++ makes two new tensors. Here two lie in the same memory: is a tensor returned "
            "twice, or is a result one of the inputs?",
            when=_other("memory"),
        ),
        Hint(
            "The device is another one: both results have old's. Fake tensors keep the device of "
            "the real ones.",
            when=_other("devices"),
        ),
        Hint("The dtype is another one: both results have old's.", when=_other("dtypes")),
        "old.new_empty(old.shape) has its dtype and device, and is contiguous.",
    ),
    must_fail=(
        "keeps the strides of old",
        "as wide as the gates",
        "always float32",
        "always on meta",
        "one result only",
        "the same tensor twice",
        "gives old back as a result",
        "computes the results",
        "knows one batch only",
        "is right only for square, even or contiguous shapes",
    ),
)
