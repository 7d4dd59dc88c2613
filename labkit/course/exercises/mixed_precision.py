"""Halves that train: a gradient scaler, and casts per operator."""

from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._half_steps import best_scale, stands_still

NOTEBOOK = "4_vision_low_level/9_mixed_precision"
INF, NAN = float("inf"), float("nan")
Script = list[tuple[Any, ...]]

# --- grad_scaler


@handed_out
def gradients(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The gradients of the optimizer's parameters, as far as they have one."""
    found = [p.grad for group in optimizer.param_groups for p in group["params"]]
    return [gradient for gradient in found if gradient is not None]


def finished_scaler() -> type:
    """The finished class; a function, so that no answer finds it."""

    class Scaler:
        def __init__(self, scale: float = 65536.0, interval: int = 3) -> None:
            self.value, self.interval, self.good = scale, interval, 0
            self.found: dict[Any, bool] = {}

        def scale(self, loss: Tensor) -> Tensor:
            return loss * self.value

        def unscale(self, optimizer: Any) -> None:
            if optimizer in self.found:
                return
            self.found[optimizer] = False
            for gradient in gradients(optimizer):
                self.found[optimizer] |= not bool(gradient.isfinite().all())
                gradient /= self.value

        def step(self, optimizer: Any) -> None:
            self.unscale(optimizer)
            if not self.found[optimizer]:
                optimizer.step()

        def update(self) -> None:
            self.good += 1
            if any(self.found.values()):
                self.value, self.good = self.value / 2, 0
            elif self.good == self.interval:
                self.value, self.good = self.value * 2, 0
            self.found = {}

    return Scaler


def _round(rng: Rng, optimizers: int, unscales: float) -> Script:
    """One iteration: backward, perhaps unscale by hand, step, update."""
    slopes = [[rng.choice((1.0, 0.5, -2.0)) for _ in range(2)] for _ in range(optimizers)]
    if rng.chance(0.35):
        rng.choice(slopes)[rng.randrange(2)] = rng.choice((INF, NAN, -INF))
    by_hand = [("unscale", i) for i in range(optimizers) if rng.chance(unscales)]
    return [("backward", slopes), *by_hand, *[("step", i) for i in range(optimizers)], ("update",)]


def _script(optimizers: int, unscales: float) -> Any:
    def case(rng: Rng, size: int) -> tuple[float, int, Script]:
        rounds = [_round(rng, optimizers, unscales) for _ in range(2 + size)]
        script = [step for one in rounds for step in one]
        return 2.0 ** rng.randint(1, 12), rng.randint(1, 3), script

    return case


def _only_unscale(rng: Rng, size: int) -> tuple[float, int, Script]:
    scale, interval, script = _script(1, 1.0)(rng, 0)
    return scale, interval, script[:2]


def _one_step(rng: Rng, size: int) -> tuple[float, int, Script]:
    scale, interval, script = _script(1, 0.5)(rng, 0)
    return scale, interval, script[: script.index(("update",))]


@handed_out
def _numbers(tensors: list[Tensor]) -> list[Any]:
    """NaN equals nothing, not even itself: it goes by a name."""
    flat = [number for tensor in tensors for number in tensor.tolist()]
    return [number if abs(number) < INF else "inf or nan" for number in flat]


def _drive_scaler(answer: Any, scale: float, interval: int, script: Script) -> list[Any]:
    """What is true after each step of the script."""
    scaler = answer(scale, interval)
    count = len(script[0][1])
    parameters = [[torch.ones(2), torch.ones(1)] for _ in range(count)]
    for of_one in parameters:
        for parameter in of_one:
            parameter.requires_grad_()
    optimizers = [torch.optim.SGD(of_one, lr=0.5) for of_one in parameters]
    after: list[Any] = []
    for what, *rest in script:
        if what == "backward":
            loss = torch.zeros(())
            for optimizer, of_one, slopes in zip(optimizers, parameters, rest[0], strict=True):
                optimizer.zero_grad()
                loss = loss + sum((p * s).sum() for p, s in zip(of_one, slopes, strict=True))
            scaler.scale(loss).backward()
        elif what == "unscale":
            scaler.unscale(optimizers[rest[0]])
            after.append(("gradients", _numbers(gradients(optimizers[rest[0]]))))
        elif what == "step":
            scaler.step(optimizers[rest[0]])
            after.append(("weights", _numbers([p.detach() for p in parameters[rest[0]]])))
        else:
            scaler.update()
            after.append(("scale", scaler.value))
    return after


def _right_scaler(scale: float, interval: int, script: Script) -> list[Any]:
    return _drive_scaler(finished_scaler(), scale, interval, script)


def _unequal_at(value: Any, right: Any) -> int | None:
    """The place of the first entry that is not right."""
    if not isinstance(value, list):
        return None
    pairs = enumerate(zip(value, right, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), None)


def _first_difference(value: Any, right: Any) -> str:
    """What the first unequal entry is about: "gradients", "weights" or "scale"."""
    place = _unequal_at(value, right)
    return "" if place is None else str(right[place][0])


def _stood_still(value: Any, right: Any) -> bool:
    """True when the first unequal entry holds weights as they were before."""
    place = _unequal_at(value, right)
    if place is None or right[place][0] != "weights":
        return False
    return value[place] in [("weights", [1.0] * len(right[place][1])), *value[:place]]


grad_scaler = Exercise(
    id="mixed_precision.grad_scaler",
    case=_script(2, 0.4),
    expected=_right_scaler,
    drive=_drive_scaler,
    rung="core",
    minutes=15,
    cases=60,
    stages=(
        Stage("unscale", case=_only_unscale, cases=15),
        Stage("step", case=_one_step, cases=20),
        Stage("update", case=_script(1, 0.0), cases=20),
        Stage("two optimizers"),
    ),
    hints=(
        Hint("Divide each gradient in place: `gradient /= self.value`.", stage="unscale"),
        Hint(
            "Weights became infinite or NaN: an infinity or a NaN in *any* gradient stops the "
            "whole step. `isfinite` is False for both.",
            when=lambda e: (
                "inf or nan" in str([one for one in e.value if one[0] == "weights"])
                if isinstance(e.value, list)
                else False
            ),
        ),
        Hint(
            "An optimizer stood still, and its own gradients were finite. It asks "
            "`self.found[optimizer]`; only `update` asks about all.",
            when=lambda e: _stood_still(e.value, e.right),
        ),
        Hint(
            "The step is too small by the scale: gradients that were unscaled by hand are divided "
            "once more in `step`. `self.found` knows who was.",
            when=lambda e: (
                _first_difference(e.value, e.right) == "weights"
                and any(step[0] == "unscale" for step in e.inputs[2])
            ),
        ),
        Hint(
            "The scale differs first. It is halved at once when *any* optimizer met an infinity, "
            "and doubled only after `interval` good updates in a row. The count starts again after "
            "both.",
            when=lambda e: _first_difference(e.value, e.right) == "scale",
        ),
        "In `unscale`: if the optimizer is in `self.found`, return. Else look at its gradients, "
        "note True or False in `self.found[optimizer]`, and divide.",
        "In `update`: any(self.found.values()), then `self.good`, and last `self.found = {}`.",
    ),
    must_fail=(
        "unscales twice",
        "steps on infinity",
        "checks only the first parameter",
        "grows every step",
        "does not start to count again after an infinity",
        "one optimizer's infinity stops the other",
        "looks for infinities after the last optimizer only",
        "forgets that NaN is no infinity",
    ),
)

# --- mini_autocast

LOWER = ("mm", "linear", "conv2d")
FLOAT32 = ("sum", "softmax", "mse_loss")
WIDEST = ("cat", "stack")
_KINDS = (torch.float32, torch.float16, torch.float64, torch.int64)


def finished_region() -> type:
    """The finished class; a function, so that no answer finds it."""

    class Region:
        def __init__(self) -> None:
            self.kept: dict[Any, Tensor] = {}

        def cast(self, name: str, tensors: list[Tensor]) -> list[Tensor]:
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
            self.kept = {}

    return Region


def _casts(names: tuple[str, ...], *, weights: bool) -> Any:
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
            for tensor, argument in zip(region.cast(rest[0], given), given, strict=True):
                which = _which(tensor, argument, casts)
                dtype = str(tensor.dtype).removeprefix("torch.")
                grad = "with gradient" if tensor.requires_grad else "without gradient"
                after.append((rest[0], dtype, which, tensor.item(), grad))
        elif what == "end":
            region.end()
        else:
            with torch.no_grad():
                made[rest[0]].mul_(2)
    return after


def _right_region(pool: list[tuple[str, str]], script: Script) -> list[Any]:
    return _drive_region(finished_region(), pool, script)


def _unequal(e: Any, place: int) -> bool:
    """True when the first difference is in that place of an entry."""
    at = _unequal_at(e.value, e.right)
    return at is not None and e.value[at][place] != e.right[at][place]


def _right_entry(e: Any) -> Any:
    """What the first wrong entry should have been: (operator, type, which, value, gradient)."""
    at = _unequal_at(e.value, e.right)
    return ("", "", "", 0.0, "") if at is None else e.right[at]


_OTHERS = ("add", "relu")

mini_autocast = Exercise(
    id="mixed_precision.mini_autocast",
    case=_casts(LOWER + FLOAT32 + WIDEST + _OTHERS, weights=True),
    expected=_right_region,
    drive=_drive_region,
    rung="core",
    minutes=12,
    cases=80,
    stages=(
        Stage("lower", case=_casts((*LOWER, *_OTHERS), weights=False), cases=20),
        Stage("float32", case=_casts((*FLOAT32, *_OTHERS), weights=False), cases=20),
        Stage("widest", case=_casts((*WIDEST, *_OTHERS), weights=False), cases=20),
        Stage("kept weights"),
    ),
    hints=(
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
            when=lambda e: _unequal(e, 2) and _right_entry(e)[2].startswith("a new"),
            stage="kept weights",
        ),
        Hint(
            "A weight is a leaf that requires a gradient. Its float16 cast goes into `self.kept`, "
            "and comes out of it, the same object, until `end`, also when the weight was written.",
            when=lambda e: _unequal(e, 2),
            stage="kept weights",
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
        "cache survives the region",
        "keeps what is no weight",
        "keeps what was computed from a weight",
        "keeps a cast without a gradient",
        "casts a weight each time",
        "makes the cast again after a write",
        "integers cast",
        "the first tensor decides how wide",
    ),
)

EXERCISES = (stands_still, best_scale, grad_scaler, mini_autocast)
