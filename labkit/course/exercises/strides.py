"""Strides: a view machine on sizes, strides and offset, and layouts named by a permutation."""

import re
from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._layout_orders import layout_from_order
from labkit.course.exercises._layout_pictures import layouts_drawn
from labkit.course.exercises._never_right import BANNED, FIRST
from labkit.course.exercises._view_rules import cut_out, needed, view_strides

NOTEBOOK = "2_core_code/3_strides"

Ints = tuple[int, ...]
Meta = tuple[Ints, Ints, int]
Step = tuple[str, tuple[Any, ...]]

OPERATIONS = (
    "transpose", "permute", "select", "narrow", "expand", "unsqueeze", "squeeze", "view", "unfold",
    "as_strided",
)  # fmt: skip
EASY_FIRST = (
    "transpose", "select", "permute", "narrow", "unsqueeze", "squeeze", "expand", "as_strided",
    "unfold", "view",
)  # fmt: skip


def _dim(rng: Rng, ndim: int) -> int:
    """A dimension, rarely one that does not exist."""
    if rng.chance(0.06):
        return rng.choice((-ndim - 1, ndim, ndim + 1))
    return rng.randint(-max(ndim, 1), max(ndim, 1) - 1)


def _view_sizes(rng: Rng, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes with neighbours merged, cut or padded with ones, sometimes wrong."""
    wanted: list[int] = list(sizes)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randint(0, 3)
        if kind == 0 and len(wanted) > 1:
            at = rng.randint(0, len(wanted) - 2)
            wanted[at : at + 2] = [wanted[at] * wanted[at + 1]]
        elif kind == 1 and wanted:
            at = rng.randint(0, len(wanted) - 1)
            for factor in (2, 3):
                if wanted[at] > factor and wanted[at] % factor == 0:
                    wanted[at : at + 1] = [factor, wanted[at] // factor]
                    break
        elif kind == 2:
            wanted.insert(rng.randint(0, len(wanted)), 1)
        elif wanted and rng.chance(0.4):
            wanted[rng.randint(0, len(wanted) - 1)] = rng.choice((-1, -1, 5))
    return tuple(wanted)


def _arguments(rng: Rng, name: str, tensor: torch.Tensor) -> tuple[Any, ...]:
    ndim, sizes = tensor.dim(), tuple(tensor.shape)
    dim = _dim(rng, ndim)
    size = sizes[dim] if ndim and -ndim <= dim < ndim else 1
    if name == "transpose":
        return dim, _dim(rng, ndim)
    if name == "permute":
        dims = rng.sample(range(ndim), ndim)
        if rng.chance(0.1):
            dims = [*dims, 0] if rng.chance(0.5) else [d % 2 for d in dims]
        return (tuple(d - ndim if rng.chance(0.3) else d for d in dims),)
    if name == "select":
        return dim, rng.randint(-size - 1, size)
    if name == "narrow":
        start = rng.randint(-size, size)
        return dim, start, rng.randint(0, max(0, size - start % (size + 1)) + rng.chance(0.1))
    if name == "expand":
        grown = [rng.choice((3, -1, 2)) if n == 1 else rng.choice((n, -1)) for n in sizes]
        if rng.chance(0.08) and grown:
            grown[rng.randint(0, len(grown) - 1)] = 7
        return ([*[rng.choice((1, 2, 4)) for _ in range(rng.randint(0, 2))], *grown],)
    if name == "unfold":
        return (
            dim,
            rng.randint(0, size + rng.chance(0.1)),
            rng.randint(0 if rng.chance(0.05) else 1, 3),
        )
    if name == "as_strided":
        room = tensor.untyped_storage().nbytes() // tensor.itemsize
        rank = rng.randint(0, 3)
        sizes = tuple(rng.randint(0, 3) for _ in range(rank))
        strides = tuple(rng.choice((0, 1, 1, 2, 3, -1 if rng.chance(0.1) else 4)) for _ in sizes)
        if rng.chance(0.05):
            strides = (*strides, 1)
        return sizes, strides, rng.randint(0, max(0, room - 1))
    if name == "view":
        return (_view_sizes(rng, sizes),)
    return (dim if name == "squeeze" or rng.chance(0.9) else ndim,)


def _real_step(tensor: torch.Tensor, name: str, arguments: tuple[Any, ...]) -> torch.Tensor:
    result: torch.Tensor = getattr(tensor, name)(*arguments)
    return result


def _tensor(rng: Rng, size: int) -> torch.Tensor:
    shape = rng.sizes(rank=min(4, 1 + size // 2), largest=min(6, 2 + size), smallest=1)
    if rng.chance(0.06):
        shape = (*shape, 0)
    return torch.empty(shape, dtype=torch.int8)


def _chain(rng: Rng, size: int) -> tuple[Meta, int, list[Step]]:
    return _steps(rng, size, _tensor(rng, size), OPERATIONS)


def _only(name: str) -> Callable[[Rng, int], tuple[Meta, int, list[Step]]]:
    """Cases of one operation alone; the view it starts from is seldom contiguous."""

    def case(rng: Rng, size: int) -> tuple[Meta, int, list[Step]]:
        tensor = _tensor(rng, size)
        return _steps(
            rng, size // 3, tensor.permute(rng.sample(range(tensor.dim()), tensor.dim())), (name,)
        )

    return case


def _steps(
    rng: Rng, size: int, tensor: torch.Tensor, names: tuple[str, ...]
) -> tuple[Meta, int, list[Step]]:
    start = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    length = tensor.untyped_storage().nbytes()
    steps: list[Step] = []
    for _ in range(1 + round(size * 11 / 8)):
        name = rng.choice(names)
        if name == "as_strided" and len(names) > 1 and rng.chance(0.6):
            name = rng.choice(("transpose", "view", "expand"))
        arguments = _arguments(rng, name, tensor)
        steps.append((name, arguments))
        try:
            tensor = _real_step(tensor, name, arguments)
        except (RuntimeError, IndexError):
            continue
        if tensor.numel() > 4096 or tensor.dim() > 7:
            break
    return start, length, steps


def _expected(start: Meta, length: int, steps: list[Step]) -> list[Any]:
    tensor = torch.empty(length, dtype=torch.int8).as_strided(*start)
    results: list[Any] = []
    for name, arguments in steps:
        try:
            tensor = _real_step(tensor, name, arguments)
        except (RuntimeError, IndexError) as error:
            results.append(f"{name}{arguments}: {type(error).__name__}")
            continue
        described = seen(tensor.shape, tensor.stride(), tensor.storage_offset())
        results.append(f"{name}{arguments}: {described}")
    return results


@handed_out
def seen(sizes: Any, strides: Any, offset: int) -> str:
    """A view as text; a dash for what nobody can see: a stride of an axis of size 1, or, where
    there is no element at all, every stride and the offset.
    """
    empty = 0 in sizes
    shown = [
        "-" if empty or size == 1 else str(stride)
        for size, stride in zip(sizes, strides, strict=True)
    ]
    start = "-" if empty else offset
    return f"sizes ({', '.join(map(str, sizes))}), strides ({', '.join(shown)}), offset {start}"


def _drive_machine(answer: Any, start: Meta, length: int, steps: list[Step]) -> list[Any]:
    """What the machine makes of every step; a refused step leaves the view as it was."""
    meta, results = start, []
    for name, arguments in steps:
        try:
            sizes, strides, offset = answer(meta, name, arguments, length)
        except NotImplementedError:
            raise  # a RuntimeError by class, but it says that nobody has answered yet
        except (RuntimeError, IndexError) as error:
            results.append(f"{name}{arguments}: {type(error).__name__}")
            continue
        meta = tuple(sizes), tuple(strides), offset
        results.append(f"{name}{arguments}: {seen(*meta)}")
    return results


def _shorter_chains(start: Meta, length: int, steps: list[Step]) -> Any:
    for at in range(len(steps)):
        yield start, length, steps[:at] + steps[at + 1 :]


def _first_difference(evidence: Any) -> str:
    """The first step on which the machine and PyTorch part, as "name(...): ..."."""
    if not isinstance(evidence.value, list) or not isinstance(evidence.right, list):
        return ""
    for ours, theirs in zip(evidence.value, evidence.right, strict=False):
        if ours != theirs:
            return str(theirs)
    return ""


def _hint_for(name: str, text: str) -> Hint:
    return Hint(text, when=lambda evidence: _first_difference(evidence).startswith(f"{name}("))


def _layout(line: str) -> Meta | None:
    """The view that a line of `seen` tells of, zero for what nobody can see; None for an error."""
    told = re.search(r"sizes \((.*)\), strides \((.*)\), offset (.*)$", line)
    if told is None:
        return None
    sizes, strides, (offset,) = (
        tuple(0 if word == "-" else int(word) for word in text.split(", ") if word)
        for text in told.groups()
    )
    return sizes, strides, offset


def _two_views(case: Case, got: Any, right: Any) -> Any:
    """The answer's view beside PyTorch's, after the first step in which they part.

    Only one of the two where the other refused the step.
    """
    theirs, ours = next(pair for pair in zip(right, got, strict=True) if pair[0] != pair[1])
    told = {"yours": _layout(ours), "expected": _layout(theirs)}
    layouts = {name: layout for name, layout in told.items() if layout is not None}
    return layouts_drawn(case.inputs[1], layouts)


view_machine = Exercise(
    id="strides.view_machine",
    rung="boss",
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_chain,
    expected=_expected,
    drive=_drive_machine,
    smaller=_shorter_chains,
    picture=_two_views,
    stages=(*(Stage(name, case=_only(name)) for name in EASY_FIRST), Stage("together")),
    cases=400,
    sizes=8,
    minutes=35,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Run the shortest failing chain by hand: which of the three (sizes, strides, offset) is "
        "the first to differ? Expected: {expected}",
        _hint_for(
            "unfold",
            "The new dimension goes last and borrows the old stride; the window dimension steps by "
            "step * old stride and has (size - window) // step + 1 places.",
        ),
        _hint_for(
            "view",
            "Merge neighbours that follow each other in memory (stride[d] == size[d + 1] * "
            "stride[d + 1]) into chunks; the new sizes must cut every chunk exactly, or it is a "
            "RuntimeError.",
        ),
        _hint_for(
            "expand",
            "A size that grows from 1 gets stride 0, and so does a new dimension in front "
            "that is longer than 1. -1 keeps an existing size, and names nothing in front of them.",
        ),
        "Wrap every negative dimension first, against max(ndim, 1); outside the range it is an "
        "IndexError. Then one rule per operation, in a dictionary.",
    ),
    must_fail=(
        "view on non-mergeable strides",
        "expand keeps the old stride",
        "squeeze removes size-0 axes",
        "negative dim not wrapped",
        "unfold's last axis in the wrong place",
        BANNED,
        "is right only for square, even or contiguous shapes",
        FIRST,
    ),
)


EXERCISES = (needed, cut_out, view_strides, layout_from_order, view_machine)
