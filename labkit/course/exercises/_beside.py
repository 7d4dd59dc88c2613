"""The small step of what backward keeps: bytes of storages, without those that are held anyway."""

from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._held_bytes import DTYPES, as_list

Tensors = list[torch.Tensor]


def _saved_and_own(rng: Rng, size: int) -> tuple[Tensors, Tensors]:
    """What a step saved, and what a model owns; some of it was saved, as a view or as it is."""
    own = [_fresh(rng) for _ in range(rng.randint(1, 1 + size // 3))]
    saved = []
    for base in [*(_fresh(rng) for _ in range(rng.randint(0, 1 + size // 2))), *own[:2]]:
        views = [base, base.t(), base[1:], base.view(-1), base.expand(3, *base.shape)]
        saved += [rng.choice(views) for _ in range(rng.randint(0, 2))]
    rng.shuffle(saved)
    return saved, own


def _fresh(rng: Rng) -> torch.Tensor:
    return rng.tensor((rng.randint(2, 4), rng.randint(2, 6)), rng.choice(DTYPES))


def _storages(tensors: Tensors) -> dict[int, int]:
    found = [tensor.untyped_storage() for tensor in tensors]
    return {storage.data_ptr(): storage.nbytes() for storage in found}


def _beside(tensors: Tensors, own: Tensors) -> int:
    theirs = _storages(own)
    return sum(size for at, size in _storages(tensors).items() if at not in theirs)


def _in_words(tensors: Tensors, own: Tensors) -> str:
    both = as_list([*tensors, *own]).split("; ")
    saved, owned = both[: len(tensors)] if tensors else [], both[len(tensors) :]
    return f"tensors: {'; '.join(saved) or 'none'}. own: {'; '.join(owned)}"


def _drawn(case: Any, got: Any, right: Any) -> Any:
    """The tensors, and what is owned, over their storages."""
    from labkit import show

    tensors, own = case.inputs
    names = [f"tensors[{at}]" for at in range(len(tensors))]
    names += [f"own[{at}]" for at in range(len(own))]
    return show.strides(*tensors, *own, names=names, simple=True)


def _is_off_by_own(evidence: Evidence) -> bool:
    """Too much by storages that are owned, each of them once."""
    tensors, own = evidence.inputs
    theirs, sums = _storages(own), {0}
    for at, size in _storages(tensors).items():
        sums |= {one + size for one in sums} if at in theirs else set()
    off = evidence.value - evidence.right
    return off > 0 and off in sums


def _takes_away_all(evidence: Evidence) -> bool:
    """The answer is what tensors hold, less all that own holds."""
    tensors, own = map(_storages, evidence.inputs)
    left = sum(tensors.values()) - sum(own.values())
    return bool(evidence.value == left != evidence.right)


beside = Exercise(
    id="kept_for_backward.beside",
    case=_saved_and_own,
    expected=_beside,
    show=_in_words,
    picture=_drawn,
    rung="warm-up",
    cases=150,
    minutes=4,
    hints=(
        Hint(
            "You took away all that own holds. Leave out only a storage that tensors read too: not "
            "every tensor of own is among them.",
            when=_takes_away_all,
        ),
        Hint(
            "Too much by what own holds. Compare storages, not tensors: a view of w is another "
            "tensor, sometimes at another address, over the storage of w.",
            when=_is_off_by_own,
        ),
        Hint(
            "Too little. A storage counts as a whole, also where a tensor shows a part of it: "
            "t.untyped_storage().nbytes().",
            when=lambda e: e.value < e.right,
        ),
        Hint(
            "Too much. An expanded tensor shows the same numbers several times, and t.nbytes "
            "counts them each time. Ask its storage: t.untyped_storage().nbytes().",
            when=lambda e: (
                e.value > e.right
                and any(t.nbytes > t.untyped_storage().nbytes() for t in e.inputs[0])
            ),
        ),
        Hint(
            "Too much. Some storage is counted twice: use storage(t) as the key of a dictionary.",
            when=lambda e: e.value > e.right,
        ),
        "Begin with the storages of own: a set of storage(t). Then it is weigh() of the chapter, "
        "with one condition more.",
    ),
    must_fail=(
        "counts what own holds",
        "takes away all of own",
        "leaves out the very tensors of own alone",
        "leaves out tensors at the same address alone",
        "counts a storage once per tensor",
        "counts what a view shows",
    ),
)
