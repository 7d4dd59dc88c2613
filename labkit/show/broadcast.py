"""show.broadcast: shapes aligned from the right, to the result or to the dimension that fails."""

import math
import sys
from collections.abc import Sequence
from typing import Any

from labkit.core.memory_format import contiguous_strides
from labkit.show.names import argument_texts
from labkit.show.strides import expanded_strides
from labkit.show.views import is_tensor, read_view
from labkit.widgets.strides.broadcast_view import BroadcastView

MAX_REAL_ELEMENTS = 65_536


def broadcast(
    *operands: Any,
    names: Sequence[str] | None = None,
    sizes_only: bool = False,
    at: int | str | None = None,
) -> BroadcastView:
    """The operands' shapes aligned right to left, one dimension per step.

    operands  tensors (torch, labkit, NumPy), or shapes: tuples, lists or torch.Size, which stand
              for contiguous tensors
    names     one per operand; taken from the call as written where not given
    sizes_only   nothing about strides and memory: which sizes meet, and what they make
    at        the step to open at: its number, from 1, or words of its text

    A failure is drawn too: the steps end at the first dimension, from the right, whose sizes
    differ with none of them 1, and PyTorch's own message stands below.

    Raises   TypeError    no operand, or one that is neither tensor nor shape
             ValueError   a size that is negative, names that do not match the operands, or no
                          step `at`
    """
    if not operands:
        raise TypeError("show.broadcast needs at least one tensor or shape")
    if names is None:
        names = argument_texts(sys._getframe(1), len(operands))
        letters = [chr(ord("a") + place % 26) for place in range(len(operands))]
        names = [
            letter if isinstance(one, (tuple, list)) else name
            for one, name, letter in zip(operands, names, letters, strict=True)
        ]
    if len(names) != len(operands):
        raise ValueError(f"{len(names)} names {list(names)} for {len(operands)} operands")
    layouts = [_layout(one, f"operand {place + 1}") for place, one in enumerate(operands)]
    steps, sizes = _steps([sizes for sizes, _ in layouts], list(names), sizes_only)
    strides, message = _torch_result(layouts)
    if (sizes is None) != (strides is None):
        raise RuntimeError(f"{layouts}: the steps say {sizes}, PyTorch says {message or strides}")
    return BroadcastView(
        operands=[
            {
                "name": name, "sizes": list(own), "strides": list(stride),
                "expanded": None if sizes is None else list(expanded_strides(own, stride, sizes)),
            }
            for name, (own, stride) in zip(names, layouts, strict=True)
        ],
        sizes=sizes, strides=strides, steps=steps, message=message, index=[0] * len(sizes or []),
        frame=0, sizes_only=sizes_only,
    ).open_at(at)  # fmt: skip


Shape = tuple[int, ...]


def _layout(operand: Any, called: str) -> tuple[Shape, Shape]:
    if is_tensor(operand):
        view = read_view(operand, f"{called} of show.broadcast")
        return view.sizes, view.strides
    if isinstance(operand, (tuple, list)):
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in operand):
            raise TypeError(f"{called} of show.broadcast is {operand}: a shape holds integers")
        if any(size < 0 for size in operand):
            raise ValueError(f"{called} of show.broadcast is {operand}: sizes are 0 or more")
        sizes = tuple(operand)
        return sizes, contiguous_strides(sizes)
    raise TypeError(
        f"{called} of show.broadcast is {type(operand).__name__} {operand!r}: "
        "give tensors, or shapes such as (3, 1)"
    )


def _steps(
    shapes: Sequence[Shape], names: Sequence[str], sizes_only: bool
) -> tuple[list[dict[str, Any]], list[int] | None]:
    """One step per dimension from the right, and the result's sizes unless one fails."""
    rank = max(map(len, shapes))
    start = "Compare the sizes in pairs, column by column."
    if not sizes_only:
        start = "Write the shapes under each other, aligned at the right. "
        start += "A missing dimension counts as 1."
    steps: list[dict[str, Any]] = [{"dim": 0, "size": None, "verdict": "start", "text": start}]
    result: list[int] = []
    for back in range(1, rank + 1):
        have = {
            name: shape[-back]
            for name, shape in zip(names, shapes, strict=True)
            if len(shape) >= back
        }
        other = {size for size in have.values() if size != 1}
        step = {"dim": -back, "size": None}
        if len(other) > 1:
            said = ", ".join(f"{name} has {size}" for name, size in have.items() if size != 1)
            text = f"dim {-back} ({rank - back} from the left): {said}. "
            text += "Neither is 1, so nothing stretches: here it fails."
            steps.append(step | {"verdict": "clash", "text": text})
            return steps, None
        size = other.pop() if other else 1
        stretched = [name for name in names if have.get(name, 1) == 1 and size != 1]
        verdict, why = "equal", "equal sizes stay as they are"
        if stretched:
            verdict = "stretch"
            how = "stretches" if len(stretched) == 1 else "stretch"
            why = f"{', '.join(stretched)} {how} from 1 to {size}"
            if not sizes_only:
                why += ", by stride 0: no copy"
            if size == 0:
                why += " (a 1 meets a 0: the result is empty)"
        steps.append(step | {"size": size, "verdict": verdict, "text": f"dim {-back}: {why}."})
        result.insert(0, size)
    last = f"The result has sizes {result}."
    if not sizes_only:
        last += " Every operand is read at that shape; "
        last += "where its stride is 0, the same cell is read again."
    steps.append({"dim": 0, "size": None, "verdict": "done", "text": last})
    return steps, result


def _torch_result(layouts: Sequence[tuple[Shape, Shape]]) -> tuple[list[int] | None, str]:
    """The strides PyTorch gives a sum of such operands, or the message it raises.

    Large operands are added on the meta device, which needs no memory; small ones for real,
    because the meta device lays some empty results out differently.
    """
    import torch  # late: `import labkit.show` does not load it

    shape = [max((own[-back] for own, _ in layouts if len(own) >= back), default=1)
             for back in range(1, 1 + max(len(own) for own, _ in layouts))]  # fmt: skip
    device = "cpu" if math.prod(size or 1 for size in shape) <= MAX_REAL_ELEMENTS else "meta"
    operands = [torch.empty_strided(*layout, device=device) for layout in layouts]
    result = operands[0] if len(operands) > 1 else torch.neg(operands[0])
    for operand in operands[1:]:
        try:
            result = torch.add(result, operand)
        except RuntimeError:
            return None, _message(result.shape, operand.shape)
    return list(result.stride()), ""


def _message(left: Sequence[int], right: Sequence[int]) -> str:
    """What adding two tensors of those sizes raises; one cell each, however large they are."""
    import torch

    operands = [
        torch.zeros(1).as_strided(tuple(sizes), (0,) * len(sizes)) for sizes in (left, right)
    ]
    try:
        torch.add(*operands)
    except RuntimeError as error:  # the CPU's words, which the meta device does not use
        return str(error).splitlines()[0]
    return ""
