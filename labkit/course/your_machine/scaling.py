"""The seat of the loss scale: gradients are unscaled, a step is taken or not, the scale moves."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.core.tensor_impl import TensorImpl
from labkit.course.your_machine.engine import TOLERANCE, to_torch
from labkit.course.your_machine.seat import Ask, Place, Seat
from labkit.ops.cuda import amp_kernels
from labkit.ops.tensors import copy

Unscaled = tuple[list[NDArray[np.float32]], bool]
"""The gradients, and whether the optimizer steps with them."""


class Noted(torch.optim.SGD):  # type: ignore[misc]
    """An optimizer of the exercise: it notes that it was told to step."""

    def __init__(self, grads: list[TensorImpl]) -> None:
        self.steps = 0
        self.grads = [to_torch(grad) for grad in grads]
        parameters = [torch.zeros_like(grad).requires_grad_() for grad in self.grads]
        for parameter, grad in zip(parameters, self.grads, strict=True):
            parameter.grad = grad
        super().__init__(parameters, lr=0.0)

    def step(self, closure: Any = None) -> None:
        """Nothing moves."""
        self.steps += 1


def _scaler(ask: Ask, scale: Any, good: Any, interval: int) -> Any:
    """The part's scaler, as far as labkit's has come: so many good steps since it last moved."""
    kept = vars(ask).setdefault("scalers", {})
    if id(scale) not in kept:
        made = ask(float(copy.item(scale).real), interval)
        for _ in range(int(copy.item(good).real)):
            ask(Noted([scale]), which=made.step)
            ask(which=made.update)
        kept[id(scale)] = scale, made  # the first lives as long, so its id stays its own
    return kept[id(scale)][1]


def _grads(optimizer: Any) -> list[TensorImpl]:
    found = [p.grad for group in optimizer.param_groups for p in group["params"]]
    return [grad for grad in found if grad is not None]


def _unscaled(ask: Ask, scaler: Any, optimizer: Any) -> Unscaled:
    """What the part leaves of the gradients, and whether it steps."""
    mine = _scaler(ask, scaler._scale, scaler._growth_tracker, scaler._growth_interval)
    noted = Noted(_grads(optimizer))
    ask(noted, which=mine.step)
    return [grad.numpy() for grad in noted.grads], noted.steps == 1


def _labkits_unscaled(function: Any, scaler: Any, optimizer: Any) -> Unscaled:
    grads = _grads(optimizer)
    before = [np.array(copy.values(grad)) for grad in grads]
    found = function(scaler, optimizer)
    after = [np.array(copy.values(grad)) for grad in grads]
    for grad, scaled in zip(grads, before, strict=True):
        copy.store(grad, scaled)
    return after, not any(flag.item() for flag in found.values())


def _alike(mine: Unscaled, right: Unscaled, *args: Any) -> bool:
    if mine[1] != right[1] or not right[1]:
        return mine[1] == right[1]  # nobody looks at the numbers of a step that is not taken
    return all(np.allclose(a, b, rtol=TOLERANCE) for a, b in zip(mine[0], right[0], strict=True))


def _left(value: Unscaled, scaler: Any, optimizer: Any) -> dict[Any, Any]:
    """The gradients are the part's; device -> 1 where the step is not taken."""
    import labkit

    grads = _grads(optimizer)
    for grad, unscaled in zip(grads, value[0], strict=True):
        copy.store(grad, unscaled)
    devices = {grad.device for grad in grads}
    return {device: labkit.full((), float(not value[1]), device=device) for device in devices}


def _moved(
    ask: Ask, scale: Any, good: Any, found: Any, up: float, down: float, interval: int
) -> float:
    """The next scale, as the part has it."""
    mine = _scaler(ask, scale, good, interval)
    ask(which=mine.update)
    return float(mine.value)


def _labkits_move(function: Any, scale: Any, good: Any, *rest: Any) -> float:
    moved = copy.clone(scale)
    function(moved, copy.clone(good), *rest)
    return float(copy.item(moved).real)


def _set(value: float, scale: Any, good: Any, *rest: Any) -> Any:
    amp_kernels.update_scale_(scale, good, *rest)  # counts the good steps
    copy.store(scale, np.array(value, np.float32))
    return scale


SEATS = (
    Seat(
        "mixed_precision.grad_scaler",
        "the scale of the loss",
        "Python",
        "Gradients are divided by the scale, a step with an infinity is left out, the scale moves.",
        "torch/amp/grad_scaler.py  GradScaler",
        (
            Place(
                "labkit.amp.grad_scaler.GradScaler._unscaled",
                _unscaled,
                right=_labkits_unscaled,
                same=_alike,
                commit=_left,
            ),
            Place(
                "labkit.ops.cuda.amp_kernels.update_scale_",
                _moved,
                right=_labkits_move,
                commit=_set,
                covers=lambda scale, good, found, up, down, interval: (up, down) == (2.0, 0.5),
            ),
        ),
    ),
)
