"""Adam and AdamW.

Source   torch/optim/adam.py  _single_tensor_adam
"""

from collections.abc import Iterable
from typing import Any

import labkit as lab
from labkit.optim.optimizer import Optimizer, check_at_least


class Adam(Optimizer):
    """Steps of about lr, whatever the size of the gradients: mean over root of mean square."""

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            check_at_least(name, value)
        for place, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"invalid beta {place}: {beta}, must be in [0, 1)")
        super().__init__(params)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.weight_decay, self.amsgrad, self.maximize = weight_decay, amsgrad, maximize

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any]) -> None:
        if not state:
            state["step"] = 0
            state["exp_avg"] = lab.zeros_like(parameter)
            state["exp_avg_sq"] = lab.zeros_like(parameter)
            if self.amsgrad:
                state["max_exp_avg_sq"] = lab.zeros_like(parameter)
        state["step"] += 1
        if self.maximize:
            grad = -grad
        if self.weight_decay and self.decoupled:
            parameter.mul_(1 - self.lr * self.weight_decay)
        elif self.weight_decay:
            grad = grad.add(parameter, alpha=self.weight_decay)
        beta1, beta2 = self.betas
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction1 = 1 - beta1 ** state["step"]
        correction2 = 1 - beta2 ** state["step"]
        if self.amsgrad:
            square = state["max_exp_avg_sq"] = lab.maximum(state["max_exp_avg_sq"], square)
        root = (square.sqrt() / correction2**0.5).add_(self.eps)
        parameter.addcdiv_(mean, root, value=-(self.lr / correction1))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, **options: Any) -> None:
        super().__init__(params, lr, **{"weight_decay": 1e-2, **options})
