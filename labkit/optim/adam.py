"""Adam and AdamW.

Source   torch/optim/adam.py  _single_tensor_adam
"""

from collections.abc import Iterable
from typing import Any

import labkit as lab
from labkit.optim.optimizer import Group, Optimizer, check_at_least


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
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("epsilon value", eps)
        check_at_least("weight_decay value", weight_decay)
        for place, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(
                    f"Invalid beta parameter at index {place}: {beta}, must be in [0, 1)"
                )
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        if not state:
            state["step"] = 0
            state["exp_avg"] = lab.zeros_like(parameter)
            state["exp_avg_sq"] = lab.zeros_like(parameter)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = lab.zeros_like(parameter)
        state["step"] += 1
        if group["weight_decay"] and self.decoupled:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad.add(parameter, alpha=group["weight_decay"])
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction1 = 1 - beta1 ** state["step"]
        correction2 = 1 - beta2 ** state["step"]
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = lab.maximum(state["max_exp_avg_sq"], square)
        root = (square.sqrt() / correction2**0.5).add_(group["eps"])
        parameter.addcdiv_(mean, root, value=-(group["lr"] / correction1))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, **options: Any) -> None:
        super().__init__(params, lr, **{"weight_decay": 1e-2, **options})
