"""What all optimizers share: parameters, their state, and their gradients set aside.

Source   torch/optim/optimizer.py  Optimizer
Differs  one group of parameters
"""

from collections.abc import Iterable
from typing import Any

from labkit._tensor import Tensor
from labkit.autograd import no_grad


class Optimizer:
    """Parameters and what is remembered of each between steps.

    Raises   ValueError   no parameters, or one that was computed and keeps no gradient
             TypeError    something that is not a tensor
    """

    def __init__(self, params: Iterable[Any]) -> None:
        self.params: list[Any] = list(params)
        if not self.params:
            raise ValueError("optimizer got an empty parameter list")
        for parameter in self.params:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"can only optimize Tensors, got {type(parameter).__name__}")
            if not (parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        self.state: dict[int, dict[str, Any]] = {id(parameter): {} for parameter in self.params}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """No parameter has a gradient; or, where it has one, zeros."""
        for parameter in self.params:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.detach_().zero_()

    def step(self) -> None:
        """Every parameter that has a gradient moves once."""
        with no_grad():
            for parameter in self.params:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, self.state[id(parameter)])

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no update")


def check_at_least(name: str, value: float, least: float = 0.0) -> None:
    """Pass when the option is not below its least value.

    Raises   ValueError   it is
    """
    if not value >= least:
        raise ValueError(f"invalid {name}: {value}, must be at least {least}")
