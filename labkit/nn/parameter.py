"""A tensor that a module trains.

Source   torch/nn/parameter.py  Parameter
"""

from labkit._tensor import Tensor
from labkit.core.tensor_impl import TensorImpl


class Parameter(Tensor):
    """A leaf over the memory of `data`; assigning it to a module registers it there.

    Differs  it is called Parameter only until it is used: results are plain tensors, as in PyTorch
    """

    __slots__ = ()

    def __new__(cls, data: TensorImpl, requires_grad: bool = True) -> "Parameter":
        leaf = super().__new__(cls, data.detach())  # type: ignore[attr-defined]
        leaf.requires_grad_(requires_grad)
        return leaf  # type: ignore[return-value]

    def __init__(self, data: TensorImpl, requires_grad: bool = True) -> None:
        """Nothing: the object is complete."""

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
