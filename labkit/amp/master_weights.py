"""float32 twins of weights that are halves themselves: a half is too coarse to be counted up in.

    masters = MasterWeights(model.parameters())
    optimizer = SGD(masters.parameters, lr=0.1)
    ...                              # backward gives the model's halves their gradients
    masters.take_gradients()
    optimizer.step()
    masters.write_back()

Autocast needs none of this: its model stays in float32, and every cast is a copy.

Source   the loop of Micikevicius et al., Mixed Precision Training (2018), section 3.1
"""

from collections.abc import Iterable

import labkit as lab
from labkit._tensor import Tensor


class MasterWeights:
    """The weights of a model, once more in float32, for the optimizer to move.

    parameters   the twins, in order; leaves that want gradients
    """

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self.weights = list(weights)
        self.parameters = [
            weight.detach().to(lab.float32, copy=True).requires_grad_() for weight in self.weights
        ]

    def take_gradients(self) -> None:
        """Each twin's gradient is its weight's in float32, which the weight then no longer has."""
        for weight, master in zip(self.weights, self.parameters, strict=True):
            master.grad = None if weight.grad is None else weight.grad.to(lab.float32)
            weight.grad = None

    def write_back(self) -> None:
        """Each weight is its twin, rounded."""
        with lab.no_grad():
            for weight, master in zip(self.weights, self.parameters, strict=True):
                weight.copy_(master)
