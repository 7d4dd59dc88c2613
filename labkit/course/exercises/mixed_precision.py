"""Halves that train: a gradient scaler, and casts per operator."""

import pickle
from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._cast_regions import mini_autocast, unequal_at
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

        def state(self) -> Any:
            return self.value, self.good

        def load(self, state: Any) -> None:
            self.value, self.good = state

    return Scaler


def _round(rng: Rng, optimizers: int, unscales: float) -> Script:
    """One iteration: backward, perhaps unscale by hand, step, update."""
    slopes = [[rng.choice((1.0, 0.5, -2.0)) for _ in range(2)] for _ in range(optimizers)]
    if rng.chance(0.35):
        rng.choice(slopes)[rng.randrange(2)] = rng.choice((INF, NAN, -INF))
    by_hand = [("unscale", i) for i in range(optimizers) if rng.chance(unscales)]
    return [("backward", slopes), *by_hand, *[("step", i) for i in range(optimizers)], ("update",)]


def _script(optimizers: int, unscales: float, reloads: float = 0.0) -> Any:
    def case(rng: Rng, size: int) -> tuple[float, int, Script]:
        rounds = [_round(rng, optimizers, unscales) for _ in range(2 + size)]
        for one in rounds:
            if rng.chance(reloads):
                one.append(("reload",))
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
        elif what == "reload":
            kept, scaler = pickle.dumps(scaler.state()), answer(1.0, interval)
            scaler.load(pickle.loads(kept))
        else:
            scaler.update()
            after.append(("scale", scaler.value))
            after += [("left in found", len(scaler.found))] if scaler.found else []
    return after


def _right_scaler(scale: float, interval: int, script: Script) -> list[Any]:
    return _drive_scaler(finished_scaler(), scale, interval, script)


def _first_difference(value: Any, right: Any) -> str:
    """What the first unequal entry is about: "gradients", "weights" or "scale"."""
    place = unequal_at(value, right)
    return "" if place is None else str(right[place][0])


def _stood_still(value: Any, right: Any) -> bool:
    """True when the first unequal entry holds weights as they were before."""
    place = unequal_at(value, right)
    if place is None or right[place][0] != "weights":
        return False
    return value[place] in [("weights", [1.0] * len(right[place][1])), *value[:place]]


grad_scaler = Exercise(
    id="mixed_precision.grad_scaler",
    case=_script(2, 0.4, 0.5),
    expected=_right_scaler,
    drive=_drive_scaler,
    rung="core",
    minutes=15,
    cases=60,
    stages=(
        Stage("unscale", case=_only_unscale, cases=15),
        Stage("step", case=_one_step, cases=20),
        Stage("update", case=_script(1, 0.0), cases=20),
        Stage("two optimizers", case=_script(2, 0.4)),
        Stage("saved and loaded"),
    ),
    hints=(
        Hint("Divide each gradient in place: `gradient /= self.value`.", stage="unscale"),
        Hint(
            "`self.found` is not empty after `update`: then the next `unscale` does nothing.",
            when=lambda e: isinstance(e.value, list) and "left in found" in dict(e.value),
        ),
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
            when=lambda e: (
                _first_difference(e.value, e.right) == "scale" and e.stage != "saved and loaded"
            ),
        ),
        Hint(
            "The scaler was saved, and a new one went on with its state. The scale is part of it, "
            "and so is how many good updates there were in a row.",
            stage="saved and loaded",
        ),
        "In `unscale`: look at the optimizer's gradients, "
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
        "loses state on reload",
        "saves the scale alone",
        "leaves NaN where it divided",
        "keeps what it found",
    ),
)

EXERCISES = (stands_still, best_scale, grad_scaler, mini_autocast)
