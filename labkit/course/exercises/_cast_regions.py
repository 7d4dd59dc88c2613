"""Casts per operator, as autocast makes them: regions, regions inside, and weights cast once.

Source   aten/src/ATen/autocast_mode.cpp  cached_cast
         torch/amp/autocast_mode.py  autocast
"""

from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import CHANGES

Script = list[tuple[Any, ...]]

LOWER = ("mm", "linear", "conv2d")
FLOAT32 = ("sum", "softmax", "mse_loss")
WIDEST = ("cat", "stack")
_KINDS = (torch.float32, torch.float16, torch.float64, torch.int64)


def unequal_at(value: Any, right: Any) -> int | None:
    """The place of the first entry that is not right."""
    if not isinstance(value, list):
        return None
    pairs = enumerate(zip(value, right, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), None)


def finished_region() -> type:
    """The finished class; a function, so that no answer finds it."""

    class Region:
        def __init__(self) -> None:
            self.kept: dict[Any, Tensor] = {}
            self.inner: list[bool] = []

        def begin(self, enabled: bool) -> None:
            self.inner.append(enabled)

        def cast(self, name: str, tensors: list[Tensor]) -> list[Tensor]:
            if self.inner and not self.inner[-1]:
                return tensors
            own = [t for t in tensors if t.dtype in (torch.float16, torch.float32)]
            to = None
            if name in LOWER:
                to = torch.float16
            elif name in FLOAT32:
                to = torch.float32
            elif name in WIDEST:
                wide = any(t.dtype == torch.float32 for t in own)
                to = torch.float32 if wide else torch.float16
            return [self._one(t, to) if to and any(t is o for o in own) else t for t in tensors]

        def _one(self, tensor: Tensor, to: torch.dtype) -> Tensor:
            if to == torch.float16 and tensor.requires_grad and tensor.is_leaf:
                if tensor.dtype == to:
                    return tensor
                return self.kept.setdefault(tensor, tensor.to(to))
            return tensor.to(to)

        def end(self) -> None:
            if self.inner:
                self.inner.pop()
            else:
                self.kept = {}

    return Region


def _casts(names: tuple[str, ...], *, weights: bool, inner: float = 0.0) -> Any:
    def case(rng: Rng, size: int) -> tuple[list[tuple[str, str]], Script]:
        roles = ("data", "weight", "weight", "computed") if weights else ("data",)
        pool = [
            (str(rng.choice(_KINDS)).removeprefix("torch."), rng.choice(roles))
            for _ in range(2 + size // 2)
        ]
        script: Script = []
        for _ in range(3 + 2 * size if weights else 1 + size):
            chosen = [rng.randrange(len(pool)) for _ in range(rng.randint(1, 3))]
            script.append(("cast", rng.choice(names), chosen))
            if weights and rng.chance(0.2):
                script.append(("end",))
            if rng.chance(inner):
                script.append(("begin", rng.chance(0.4)))
                inside: Script = [("cast", rng.choice(names), chosen), ("end",)]
                if rng.chance(0.4):  # a region inside this one, on or off
                    inside = [("begin", rng.chance(0.6)), *inside, *inside]
                script += [*inside, script[-2]] if script[-2][0] == "cast" else []
            if weights and rng.chance(0.5):
                script.append(("write", rng.choice(chosen)))
        return pool, script

    return case


@handed_out
def _which(tensor: Tensor, argument: Tensor, casts: list[Tensor]) -> str:
    """Which tensor came back for the argument; a new one is noted in `casts`."""
    if tensor is argument:
        return "the argument itself"
    number = next((i for i, one in enumerate(casts, 1) if one is tensor), 0)
    if number:
        return f"cast {number} again"
    casts.append(tensor)
    return f"a new cast, number {len(casts)}"


@handed_out
def _gradient(tensor: Tensor, argument: Tensor) -> str:
    """Whether backward from the tensor reaches the argument that it was made of."""
    reached = tensor.requires_grad
    if reached and argument.requires_grad:
        (found,) = torch.autograd.grad(tensor.sum(), argument, retain_graph=True, allow_unused=True)
        reached = found is not None
    return "with gradient" if reached else "without gradient"


@handed_out
def _cast(region: Any, name: str, given: list[Tensor]) -> list[Tensor]:
    """What the region makes of these tensors.

    Raises   ValueError   the list, or the type of a tensor in it, is another one afterwards
    """
    asked, before = list(given), [(id(one), one.dtype) for one in given]
    made: list[Tensor] = region.cast(name, asked)
    if [(id(one), one.dtype) for one in asked] != before or [t.dtype for t in given] != [
        dtype for _, dtype in before
    ]:
        raise ValueError(f"cast changed what it was given for {name}")
    return made


def _drive_region(answer: Any, pool: list[tuple[str, str]], script: Script) -> list[Any]:
    """Of every tensor that came back: its type, which one, what it holds, if it has a node."""
    made = []
    for place, (name, role) in enumerate(pool):
        tensor = torch.full((1,), float(place + 2)).to(getattr(torch, name))
        if role != "data" and tensor.is_floating_point():
            tensor.requires_grad_()
            tensor = tensor if role == "weight" else tensor * 1  # no leaf any more
        made.append(tensor)
    region, after = answer(), []
    casts: list[Tensor] = []
    for what, *rest in script:
        if what == "cast":
            given = [made[i] for i in rest[1]]
            for tensor, argument in zip(_cast(region, rest[0], given), given, strict=True):
                which = _which(tensor, argument, casts)
                dtype = str(tensor.dtype).removeprefix("torch.")
                grad = _gradient(tensor, argument)
                after.append((rest[0], dtype, which, tensor.item(), grad))
        elif what == "end":
            region.end()
        elif what == "begin":
            region.begin(rest[0])
        else:
            with torch.no_grad():
                made[rest[0]].mul_(2)
    return after


def _right_region(pool: list[tuple[str, str]], script: Script) -> list[Any]:
    return _drive_region(finished_region(), pool, script)


def _unequal(e: Any, place: int) -> bool:
    """True when the first difference is in that place of an entry."""
    at = unequal_at(e.value, e.right)
    return at is not None and e.value[at][place] != e.right[at][place]


def _right_entry(e: Any) -> Any:
    """What the first wrong entry should have been: (operator, type, which, value, gradient)."""
    at = unequal_at(e.value, e.right)
    return ("", "", "", 0.0, "") if at is None else e.right[at]


def _waits_for_begin(e: Any) -> bool:
    """True when nothing was cast before the first `begin`, where something had to be."""
    at = unequal_at(e.value, e.right)
    begun = any(step[0] == "begin" for step in e.inputs[1])
    return not begun and at is not None and all(entry[2].endswith("itself") for entry in e.value)


_OTHERS = ("add", "relu")

mini_autocast = Exercise(
    id="mixed_precision.mini_autocast",
    case=_casts(LOWER + FLOAT32 + WIDEST + _OTHERS, weights=True, inner=0.2),
    expected=_right_region,
    drive=_drive_region,
    rung="core",
    minutes=12,
    cases=80,
    stages=(
        Stage("lower", case=_casts((*LOWER, *_OTHERS), weights=False), cases=20),
        Stage("float32", case=_casts((*FLOAT32, *_OTHERS), weights=False), cases=20),
        Stage("widest", case=_casts((*WIDEST, *_OTHERS), weights=False), cases=20),
        Stage(
            "kept weights", cases=40, case=_casts(LOWER + FLOAT32 + WIDEST + _OTHERS, weights=True)
        ),
        Stage("regions inside"),
    ),
    hints=(
        Hint(
            "The list and its tensors belong to the caller: they are as before when you return. "
            "Make a new list; `tensor.to(to)` makes a new tensor.",
            when=lambda e: e.kind == "raised" and "it was given" in e.got,
        ),
        Hint(
            "Nothing was cast, and no `begin` was called. A new `Region` is open: it casts "
            "already.",
            when=_waits_for_begin,
        ),
        Hint(
            "`add` and `relu` are in no list: their tensors come back themselves.",
            when=lambda e: _right_entry(e)[0] in _OTHERS,
        ),
        Hint(
            "Only float16 and float32 tensors are cast. Integers and float64 stay as they are.",
            when=lambda e: _unequal(e, 1) and _right_entry(e)[1] in ("int64", "float64"),
        ),
        Hint(
            "One float32 tensor is enough, wherever it stands among them: then all become float32.",
            when=lambda e: _unequal(e, 1) and _right_entry(e)[0] in WIDEST,
        ),
        Hint(
            "A cast without a gradient: backward would never reach the weight. Do not detach it.",
            when=lambda e: _unequal(e, 4),
        ),
        Hint(
            "A cast came back that was made before. Only casts of weights are kept, and only until "
            "`end`. Something computed from a weight is no leaf, so it is no weight.",
            when=lambda e: (
                e.stage != "regions inside"
                and _unequal(e, 2)
                and _right_entry(e)[2].startswith("a new")
            ),
        ),
        Hint(
            "A weight is a leaf that requires a gradient. Its float16 cast goes into `self.kept`, "
            "and comes out of it, the same object, until `end`, also when the weight was written.",
            when=lambda e: _unequal(e, 2),
            stage="kept weights",
        ),
        Hint(
            "In a region inside that is switched off nothing is cast. When it ends, the one around "
            "it goes on with the casts that it has kept: only the end of the outermost drops them.",
            when=lambda e: any(step[0] == "begin" for step in e.inputs[1]),
            stage="regions inside",
        ),
        Hint(
            "The numbers differ: a kept cast is not made again when the weight is written.",
            when=lambda e: _unequal(e, 3),
        ),
        "First find the type `to` for the whole call, or None. Then go over the tensors.",
        "Use the weight itself as the key: `self.kept[tensor]`.",
    ),
    must_fail=(
        "casts everything",
        "casts nothing before begin",
        "cache survives the region",
        "keeps what is no weight",
        "keeps what was computed from a weight",
        "keeps a cast without a gradient",
        "keeps a cast that backward does not leave",
        "casts a weight each time",
        "makes the cast again after a write",
        "integers cast",
        "nested disable ignored",
        "stays off when the inner region ends",
        "an inner region's end drops the casts",
        "the innermost that was switched off decides for all",
        "the first tensor decides how wide",
        "casts float64, too",
        CHANGES,
    ),
)
