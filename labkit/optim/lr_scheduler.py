"""A learning rate that follows the epochs.

Source   torch/optim/lr_scheduler.py  StepLR
"""

from typing import Any

from labkit.optim.optimizer import Optimizer


class StepLR:
    """Every `step_size` epochs the learning rate of every group is multiplied by `gamma`."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.optimizer, self.step_size, self.gamma = optimizer, step_size, gamma
        self.last_epoch = 0
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])

    def step(self) -> None:
        """One more epoch is over."""
        self.last_epoch += 1
        if self.last_epoch % self.step_size == 0:
            for group in self.optimizer.param_groups:
                group["lr"] *= self.gamma

    def get_last_lr(self) -> list[float]:
        """The learning rate of every group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands; the learning rates themselves are the optimizer's."""
        return {
            "step_size": self.step_size, "gamma": self.gamma, "last_epoch": self.last_epoch
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The schedule stands where another one stood."""
        self.__dict__.update(state)
