"""Stochastic gradient descent.

Source   torch/optim/sgd.py  _single_tensor_sgd
"""

from collections.abc import Iterable
from typing import Any

from labkit.optim.optimizer import Optimizer, check_at_least


class SGD(Optimizer):
    """parameter -= lr * (momentum of) (grad + weight_decay * parameter)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            check_at_least(name, value)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params)
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov, self.maximize = weight_decay, nesterov, maximize

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any]) -> None:
        if self.maximize:
            grad = -grad
        if self.weight_decay:
            grad = grad.add(parameter, alpha=self.weight_decay)
        if self.momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.clone()
            else:
                buffer.mul_(self.momentum).add_(grad, alpha=1 - self.dampening)
            grad = grad.add(buffer, alpha=self.momentum) if self.nesterov else buffer
        parameter.add_(grad, alpha=-self.lr)
