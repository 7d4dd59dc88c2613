"""Stochastic gradient descent.

Source   torch/optim/sgd.py  _single_tensor_sgd
"""

from collections.abc import Iterable
from typing import Any

from labkit.optim.optimizer import Group, Optimizer, check_at_least


class SGD(Optimizer):
    """parameter -= lr * (momentum of) (grad + weight_decay * parameter)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("momentum value", momentum)
        check_at_least("weight_decay value", weight_decay)
        if nesterov and momentum <= 0:
            raise ValueError("Nesterov momentum requires a momentum")
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        momentum = group["momentum"]
        if group["weight_decay"]:
            grad = grad.add(parameter, alpha=group["weight_decay"])
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.clone()
            else:
                buffer.mul_(momentum).add_(grad)
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        descend(parameter, grad, group["lr"])


def descend(parameter: Any, grad: Any, lr: float) -> None:
    """The parameter is one step further down: parameter -= lr * grad."""
    parameter.add_(grad, alpha=-lr)
