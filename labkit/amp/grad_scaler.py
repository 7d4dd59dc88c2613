"""A scale for the loss that keeps gradients out of a half's underflow, and steps that survive inf.

    scaler.scale(loss).backward()
    scaler.step(optimizer)          # unscales first; skipped when a gradient overflowed
    scaler.update()                 # the scale backs off, or grows

Source   torch/amp/grad_scaler.py  GradScaler
Differs  no sparse gradients, no optimizers that take the scale themselves
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import labkit as lab
from labkit._tensor import Tensor
from labkit.core.device import Device
from labkit.ops.aten import aten


class OptState(Enum):
    """What has happened to an optimizer's gradients since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


@dataclass
class _OptimizerState:
    stage: OptState = OptState.READY
    found_inf_per_device: dict[Device, Tensor] = field(default_factory=dict)


class GradScaler:
    """One scale for all losses and optimizers of a training run.

    device           where the first scaled loss is expected: "cuda" or "cpu"
    init_scale       the first scale
    growth_factor    the scale is multiplied by it after `growth_interval` steps without an inf
    backoff_factor   the scale is multiplied by it after a step with one
    enabled          False: every method does what a plain loop would do

    Raises   AssertionError   growth that shrinks, backoff that grows
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self.device = device
        self._enabled = enabled
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Any = None
        self._growth_tracker: Any = None
        self._states: defaultdict[int, _OptimizerState] = defaultdict(_OptimizerState)

    def scale(self, outputs: Any) -> Any:
        """The loss, or each of a list of losses, times the scale.

        Raises   ValueError   neither a tensor nor a list or tuple of them
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(each) for each in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """The optimizer's gradients are those of the loss itself: now they can be clipped.

        Raises   RuntimeError   called twice since the last `update`, or after `step`
                 ValueError     float16 gradients: unscaled, they would underflow again
        """
        if not self._enabled:
            return
        self._check_made("unscale_")
        state = self._states[id(optimizer)]
        if state.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state.found_inf_per_device = self._unscaled(optimizer)
        state.stage = OptState.UNSCALED

    def _unscaled(self, optimizer: Any) -> dict[Device, Tensor]:
        """Device -> 1 if a gradient there held an inf or a NaN, else 0."""
        inverse = self._scale.double().reciprocal().float()
        grads: defaultdict[Device, list[Tensor]] = defaultdict(list)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.dtype is lab.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grads[parameter.grad.device].append(parameter.grad)
        found: dict[Device, Tensor] = {}
        with lab.no_grad():
            for device, of_device in grads.items():
                found[device] = lab.zeros((), device=device)
                aten._amp_foreach_non_finite_check_and_unscale_(
                    of_device, found[device], inverse.to(device)
                )
        return found

    def step(self, optimizer: Any) -> None:
        """The optimizer has taken its step, unless one of its gradients was an inf or a NaN.

        Raises   RuntimeError     called twice since the last `update`
                 AssertionError   the optimizer has no gradients
        """
        if not self._enabled:
            optimizer.step()
            return
        self._check_made("step")
        state = self._states[id(optimizer)]
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if not state.found_inf_per_device:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if not any(found.item() for found in state.found_inf_per_device.values()):
            optimizer.step()
        state.stage = OptState.STEPPED

    def update(self, new_scale: float | None = None) -> None:
        """The next iteration's scale; all optimizers start over.

        new_scale  the scale itself, instead of growth or backoff

        Raises   AssertionError   nothing was unscaled since the last one
        """
        if not self._enabled:
            return
        self._check_made("update")
        if new_scale is not None:
            self._scale.fill_(new_scale)
        else:
            states = self._states.values()
            found = [
                flag.to(self._scale.device)
                for state in states
                for flag in state.found_inf_per_device.values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            together: Any = found[0]
            for other in found[1:]:
                together += other
            aten._amp_update_scale_(
                self._scale, self._growth_tracker, together, self._growth_factor,
                self._backoff_factor, self._growth_interval,
            )  # fmt: skip
        self._states.clear()

    def get_scale(self) -> float:
        """The scale as a number; waits for the device."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale if self._scale is None else self._scale.item())

    def is_enabled(self) -> bool:
        """False: a plain loop."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """What a run needs to go on with the same scale; empty when disabled."""
        if not self._enabled:
            return {}
        tracker = self._growth_tracker
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._init_growth_tracker if tracker is None else tracker.item(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The scale, its factors and its count are those of the run that was saved.

        Raises   RuntimeError   saved by a scaler that was disabled
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def _make_scale(self, device: Device) -> None:
        self._scale = lab.full((), self._init_scale, dtype=lab.float32, device=device)
        self._growth_tracker = lab.full(
            (), self._init_growth_tracker, dtype=lab.int32, device=device
        )

    def _check_made(self, method: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )
