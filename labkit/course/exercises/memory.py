"""Who owns the bytes: what a list of tensors holds, two tensors classified, a boss on reshape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._held_bytes import byte_range, bytes_held, layout
from labkit.course.exercises._never_right import FIRST, READS
from labkit.course.exercises._reshape_or_copy import reshape_or_copy

NOTEBOOK = "1_fundamentals/6_memory"


# --- share_inspector

RELATIONS = ("same tensor", "separate", "same bytes", "disjoint", "inside", "overlap")
DTYPES = (torch.uint8, torch.int16, torch.float32, torch.int64, torch.complex64)


def _two_tensors(rng: Rng, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors over one storage or two; both storages hold the same values."""
    nbytes = 16 * rng.randint(1, 2 + 2 * size)
    if size > 4 and rng.chance(0.1):
        nbytes = 1 << 16
    content = rng.tensor((nbytes,), torch.uint8)
    first = content.clone()
    second = content.clone() if rng.chance(0.2) else first
    a = _laid_out(rng, first, rng.choice(DTYPES))
    kind = rng.random()
    if second is first and kind < 0.1:
        return a, a
    if second is first and kind < 0.35:
        return a, _another_name(rng, a)
    return a, _laid_out(rng, second, a.dtype if rng.chance(0.4) else rng.choice(DTYPES))


def _another_name(rng: Rng, a: torch.Tensor) -> torch.Tensor:
    """A view of a: of all of it, of its first elements, or with every element as two halves."""
    kind = rng.randint(0, 5)
    if kind == 0:
        return a.detach()
    if kind == 1:
        return a.permute(tuple(reversed(range(a.dim()))))
    if kind == 2 and a.dim():
        return a.narrow(0, 0, rng.randint(0, a.size(0)))
    if kind == 3 and a.dtype == torch.complex64:
        return torch.view_as_real(a)
    if kind == 4 and a.dim():
        return a.unsqueeze(0).expand(3, *a.shape)
    return a.view(torch.float64 if a.dtype in (torch.int64, torch.complex64) else a.dtype)


def _laid_out(rng: Rng, storage: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of random strides that fits; sometimes empty, sometimes stretched."""
    room = storage.nbytes // dtype.itemsize
    offset = rng.choice((0, 0, rng.randint(0, room - 1)))
    left, sizes, strides = room - offset - 1, [], []
    for _ in range(rng.randint(0, 3)):
        stride = rng.choice((1, 1, 2, 2, 3, 4, 6, 8, max(1, room // 2), max(1, room // 8)))
        reach = left // stride
        size = reach + 1 if rng.chance(0.5) else rng.randint(1, 1 + min(reach, 40))
        left -= (size - 1) * stride
        sizes.append(size)
        strides.append(stride)
    if rng.chance(0.06):
        sizes.append(0)
        strides.append(1)
    if rng.chance(0.06):
        sizes.insert(0, rng.choice((3, 50)))
        strides.insert(0, 0)
    order = rng.sample(range(len(sizes)), len(sizes))
    view = storage.view(dtype) if rng.chance(0.5) else _without_base(storage, dtype)
    return view.as_strided([sizes[d] for d in order], [strides[d] for d in order], offset)


def _without_base(storage: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the same bytes that autograd does not know as a view."""
    empty = torch.empty(0, dtype=dtype)
    return empty.set_(storage.untyped_storage(), 0, (storage.nbytes // dtype.itemsize,), (1,))


def _bytes_of(tensor: torch.Tensor, width: int = 0) -> np.ndarray:
    """Every byte the tensor touches, counted from the start of its storage, in order.

    width  of an element; 0: what it really has
    """
    if tensor.numel() == 0:
        return np.array([], dtype=int)
    places = np.array([tensor.storage_offset()])
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            places = np.unique(np.add.outer(places, np.arange(size) * stride))
    width = width or tensor.itemsize
    found: np.ndarray = np.add.outer(places * width, np.arange(width))
    return found.ravel()


def _relation(a: torch.Tensor, b: torch.Tensor) -> str:
    if a is b:
        return "same tensor"
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return "separate"
    return _of_places(_bytes_of(a), _bytes_of(b))


def _of_places(ours: np.ndarray, theirs: np.ndarray) -> str:
    """What two sorted sets of places or bytes have in common."""
    common = np.intersect1d(ours, theirs, assume_unique=True).size
    if not common:
        return "disjoint"
    if common == ours.size == theirs.size:
        return "same bytes"
    return "inside" if common in (ours.size, theirs.size) else "overlap"


def _in_words(a: torch.Tensor, b: torch.Tensor) -> str:
    one = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    lines = [f"{name}: {layout(x)}" for name, x in (("a", a), ("b", b))]
    where = "one storage" if one else "two storages"
    return "; ".join([*lines, f"{where} of {a.untyped_storage().nbytes()} bytes"])


def _is(answer: str) -> Callable[..., bool]:
    return lambda a, b: _relation(a, b) == answer


def _both(case: Case, got: Any, right: Any) -> Any:
    """The two tensors over their storages, where that can be drawn small."""
    from labkit import show

    a, b = case.inputs
    if max(tensor.untyped_storage().nbytes() for tensor in (a, b)) > 256:
        return None
    return show.strides(a, b, names=["a", "b"])


def _in_elements(evidence: Evidence) -> bool:
    """The answer is that of places as wide as a byte, or of the first bytes alone."""
    a, b = evidence.inputs
    narrow = _of_places(_bytes_of(a, width=1), _bytes_of(b, width=1))
    starts = _of_places(_bytes_of(a)[:: a.itemsize], _bytes_of(b)[:: b.itemsize])
    return bool(a.itemsize != b.itemsize and evidence.value in (narrow, starts))


def _pair(got: str, right: str) -> Any:
    return lambda evidence: (evidence.value, evidence.right) == (got, right)


share_inspector = Exercise(
    id="memory.share_inspector",
    rules=("any torch call; the tensors stay as they are",),
    case=_two_tensors,
    expected=_relation,
    show=_in_words,
    stages=(
        *(Stage(name, only=_is(name)) for name in RELATIONS),
        Stage("together"),
    ),
    picture=_both,
    cases=600,
    sizes=8,
    minutes=15,
    hints=(
        Hint(
            "One of the two is empty. It has a storage and an address, and touches no byte of it.",
            when=lambda e: any(0 in tensor.shape for tensor in e.inputs),
        ),
        Hint(
            "Offsets and strides count elements, and an element of a has another size than one of "
            "b. Turn both into bytes before you compare: each element touches itemsize of them.",
            when=_in_elements,
        ),
        Hint(
            "One of the two holds all bytes of the other. It may be a that is inside b, or b that "
            "is inside a: ask both.",
            when=_pair("overlap", "inside"),
        ),
        Hint(
            "They have a storage in common, and no byte. Two views may take turns, one at the even "
            "and one at the odd places: first and last byte do not tell.",
            when=lambda e: e.right == "disjoint" and e.value != "disjoint",
        ),
        Hint(
            "You say same bytes, and they are not. The same first byte, or equal values, is not "
            "enough.",
            when=lambda e: e.value == "same bytes",
        ),
        Hint(
            "They touch the same bytes, every one. It does not matter whether they are one Python "
            "object, or in which order they read them.",
            when=lambda e: e.right == "same bytes",
        ),
        Hint(
            "One storage, many ways to it: not only views that autograd knows (_base) share it.",
            when=lambda e: e.value == "separate",
        ),
        "Work out the bytes that each one touches. Once you have two sets, the five answers are "
        "one line each.",
        "Begin with the bytes of the first element. For every dimension, repeat what you have at "
        "each step: places() of the chapter, with strides and offset times the item size.",
    ),
    must_fail=(
        "compares data_ptr",
        "compares id",
        "compares values",
        "takes another name for another tensor",
        "asks only whether a is inside b",
        "any two views of one storage overlap",
        "uses _base",
        "ignores itemsize",
        FIRST,
        READS,
    ),
)


EXERCISES = (bytes_held, byte_range, share_inspector, reshape_or_copy)
