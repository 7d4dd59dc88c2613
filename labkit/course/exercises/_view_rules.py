"""The small steps of the strides chapter: room for a view, a slice, the strides `view` finds."""

import math
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raised, Raises, Rng, Stage, Wrong
from labkit.course.exercises._limits import LIBRARIES

Ints = tuple[int, ...]
Meta = tuple[Ints, Ints, int]

PLAIN = ("arithmetic on tuples only: no torch, no NumPy, no labkit",)


def _room(sizes: Ints, strides: Ints, offset: int) -> int:
    """The elements a storage must hold."""
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    return 0 if 0 in sizes else last + 1


def _a_view(rng: Rng, size: int, smallest: int = 0) -> Meta:
    rank = min(size, rng.randint(0, 4))
    sizes = tuple(rng.randint(smallest if rng.chance(0.1) else 1, 5) for _ in range(rank))
    strides = tuple(rng.choice((0, 1, 1, 2, 3, 5, 7, 12)) for _ in sizes)
    return sizes, strides, rng.choice((0, 0, 1, 4, 9))


needed = Exercise(
    id="strides.needed",
    case=_a_view,
    expected=_room,
    rung="warm-up",
    rules=PLAIN,
    banned=LIBRARIES,
    cases=200,
    minutes=3,
    hints=(
        Hint(
            "A size of 0 means that there is no element at all, wherever the offset points.",
            when=lambda evidence: 0 in evidence.inputs[0],
        ),
        Hint(
            "With no dimension there is one element, at the offset. The room is one more.",
            when=lambda evidence: not evidence.inputs[0],
        ),
        "The largest index of a dimension is size - 1. Put those into rule 1, then add one.",
    ),
    must_fail=(
        "multiplies the sizes",
        "takes size for the largest index",
        "forgets the offset",
        "returns the last place, not the room",
        "needs room for a view without elements",
    ),
)


def _a_slice(rng: Rng, size: int) -> tuple[Meta, int, int, int, int]:
    sizes, strides, offset = _a_view(rng, max(size, 1))
    if not sizes:
        sizes, strides = (rng.randint(1, 5),), (1,)
    dim = rng.randint(0, len(sizes) - 1)
    start = rng.randint(0, sizes[dim])
    return (sizes, strides, offset), dim, start, rng.randint(start, sizes[dim]), rng.randint(1, 3)


def _sliced(meta: Meta, dim: int, start: int, stop: int, step: int) -> Meta:
    room = torch.empty(64 + meta[2] + sum(n * s for n, s in zip(*meta[:2], strict=True)))
    part = room.as_strided(*meta)[(slice(None),) * dim + (slice(start, stop, step),)]
    return tuple(part.shape), part.stride(), part.storage_offset()


cut_out = Exercise(
    id="strides.cut_out",
    case=_a_slice,
    expected=_sliced,
    rung="warm-up",
    rules=PLAIN,
    banned=LIBRARIES,
    cases=200,
    minutes=4,
    hints=(
        Hint(
            "Only the offset differs: it moves by start times the stride of this dimension.",
            when=lambda evidence: evidence.value[:2] == evidence.right[:2],
        ),
        Hint(
            "Only the sizes differ. From 1 to 4 in steps of 2 are places 1 and 3: two of them. "
            "Round (stop - start) / step up, or ask len(range(start, stop, step)).",
            when=lambda evidence: evidence.value[1:] == evidence.right[1:],
        ),
        "One step of the new dimension is `step` steps of the old one: the stride grows.",
    ),
    must_fail=(
        "rounds the number of places down",
        "keeps the stride",
        "counts the offset in indices",
        "changes dimension 0 whatever dim says",
    ),
)


def _reshaped(rng: Rng, sizes: Ints) -> Ints:
    """The same number of elements, neighbours joined, cut, or with ones between; rarely more."""
    wanted = list(sizes)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randint(0, 2)
        if kind == 0 and len(wanted) > 1:
            at = rng.randint(0, len(wanted) - 2)
            wanted[at : at + 2] = [wanted[at] * wanted[at + 1]]
        elif kind == 1 and wanted:
            at = rng.randint(0, len(wanted) - 1)
            factor = rng.choice([n for n in (2, 3, 5) if wanted[at] % n == 0] or [1])
            wanted[at : at + 1] = [factor, wanted[at] // factor]
        else:
            wanted.insert(rng.randint(0, len(wanted)), 1)
    if rng.chance(0.06):
        wanted.append(2)
    return tuple(wanted)


def _a_view_question(rng: Rng, size: int) -> tuple[Ints, Ints, Ints]:
    """(sizes, strides, wanted) of a fresh tensor, a cut one, or one with dimensions exchanged."""
    sizes = tuple(rng.choice((1, 2, 3, 4, 6)) for _ in range(min(1 + size // 2, 4)))
    if size > 3 and rng.chance(0.1):
        sizes = (*sizes, 0)
    tensor = torch.empty(sizes, device="meta")
    if size > 1 and rng.chance(0.4):
        dim = rng.randint(0, tensor.dim() - 1)
        tensor = tensor.narrow(dim, 0, max(tensor.size(dim) - 1, 0))
    if size > 2 and rng.chance(0.4):
        tensor = tensor.transpose(rng.randint(0, tensor.dim() - 1), -1)
    return tuple(tensor.shape), tensor.stride(), _reshaped(rng, tuple(tensor.shape))


def _found_by_torch(sizes: Ints, strides: Ints, wanted: Ints) -> Any:
    tensor = torch.empty_strided(sizes, strides, device="meta")
    try:
        found: Ints = tensor.view(wanted).stride()
    except RuntimeError:
        return Raises(RuntimeError)
    return found


def _judge_view(case: Case, got: Any) -> str | Wrong | None:
    sizes, strides, wanted = case.inputs
    right = _found_by_torch(sizes, strides, wanted)
    if isinstance(right, Raises):
        refused = isinstance(got, Raised) and isinstance(got.error, RuntimeError)
        stub = refused and isinstance(got.error, NotImplementedError)
        return None if refused and not stub else Wrong("PyTorch refuses this view", right)
    if isinstance(got, Raised):
        return Wrong("PyTorch finds strides for this view", right)
    if not isinstance(got, tuple | list) or len(got) != len(wanted):
        return Wrong(f"one stride per wanted dimension, {len(wanted)} in all", right)
    seen = [at for at, size in enumerate(wanted) if size > 1 and 0 not in wanted]
    if [got[at] for at in seen] != [right[at] for at in seen]:
        return Wrong("the strides of the dimensions longer than 1", right)
    return None


def _fewer_dimensions(sizes: Ints, strides: Ints, wanted: Ints) -> Any:
    for gone in range(len(wanted)):
        if wanted[gone] == 1:
            yield sizes, strides, wanted[:gone] + wanted[gone + 1 :]


def _one_walk(sizes: Ints, strides: Ints, wanted: Ints) -> bool:
    """Whether memory is walked as one."""
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return 0 not in sizes


def _plain(sizes: Ints, strides: Ints, wanted: Ints) -> bool:
    fits = math.prod(sizes) == math.prod(wanted)
    return fits and _one_walk(sizes, strides, wanted) and 1 not in (*sizes, *wanted)


def _cut_only(sizes: Ints, strides: Ints, wanted: Ints) -> bool:
    found = _found_by_torch(sizes, strides, wanted)
    several = 0 not in sizes and not _one_walk(sizes, strides, wanted)
    return several and not isinstance(found, Raises)


def _refused(sizes: Ints, strides: Ints, wanted: Ints) -> bool:
    return isinstance(_found_by_torch(sizes, strides, wanted), Raises)


def _differ(inputs: tuple[Ints, Ints, Ints]) -> bool:
    return math.prod(inputs[0]) != math.prod(inputs[2])


def _is_refused(inputs: tuple[Ints, Ints, Ints]) -> bool:
    return not _differ(inputs) and _refused(*inputs)


def _is_refused_otherwise(evidence: Evidence) -> bool:
    """Whether the answer refuses what has to be refused, with an error of another kind."""
    other = ("raised ValueError", "raised AssertionError", "raised Exception")
    refused = _differ(evidence.inputs) or _is_refused(evidence.inputs)
    return refused and evidence.got.startswith(other)


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The tensor, and below it what the answer's strides would read of its storage."""
    from labkit import show

    sizes, strides, wanted = case.inputs
    if not isinstance(got, tuple | list) or len(got) != len(wanted) or 0 in sizes:
        return None
    if any(type(stride) is not int or stride < 0 for stride in got):
        return None
    room = torch.arange(max(_room(sizes, strides, 0), 1))
    names = ["the tensor", "yours"] if isinstance(right, Raises) else ["expected", "yours"]
    widget = show.strides(room, room.view(-1), names=names)  # two tensors: one is one card
    widget.edit(names[0], *((sizes, strides) if isinstance(right, Raises) else (wanted, right)), 0)
    widget.edit("yours", wanted, tuple(got), 0)
    return widget


view_strides = Exercise(
    id="strides.view_strides",
    stages=(
        Stage("one walk", only=_plain),
        Stage("several walks", only=_cut_only),
        Stage("refuse", only=_refused),
        Stage("sizes 1 and 0"),
    ),
    picture=_drawn,
    case=_a_view_question,
    judge=_judge_view,
    smaller=_fewer_dimensions,
    rules=PLAIN,
    banned=LIBRARIES,
    cases=400,
    minutes=15,
    hints=(
        Hint(
            "Without elements there is nothing to read: any strides will do.",
            when=lambda evidence: 0 in evidence.inputs[0],
        ),
        Hint(
            "The refusal is right. `view` says it with a RuntimeError.",
            when=_is_refused_otherwise,
        ),
        Hint(
            "{input}: the numbers of elements differ. That is the first thing to ask.",
            when=lambda evidence: _differ(evidence.inputs),
        ),
        Hint(
            "A dimension of size 1 cuts nothing off a walk. Give it any stride and go on.",
            when=lambda evidence: 1 in evidence.inputs[2],
        ),
        Hint(
            "PyTorch refuses {input}. One of your dimensions runs from one walk into the next: "
            "before you take a piece off a walk, ask whether the walk divides by it.",
            when=lambda evidence: evidence.kind == "value" and _is_refused(evidence.inputs),
        ),
        "Keep two numbers: how many elements of this walk are left, and how far one step goes. "
        "A dimension of size n divides the first by n and multiplies the second by n.",
        "When nothing is left of a walk, the next walk begins, with its own stride.",
    ),
    must_fail=(
        "packs the strides as a fresh tensor has them",
        "lets a dimension run from one walk into the next",
        "refuses whatever is not contiguous",
        "never refuses different numbers of elements",
        "stumbles over dimensions of size 1",
        "refuses with a ValueError",
    ),
)
