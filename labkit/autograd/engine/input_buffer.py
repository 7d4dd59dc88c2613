"""Gradients that come to one input of a node from several places are added.

Source   torch/csrc/autograd/input_buffer.cpp  InputBuffer::add
"""

import sys
from typing import Any

from labkit.autograd.state import STATE
from labkit.ops.aten import aten

_UNSHARED = 3
"""References to a gradient that only the engine holds: its local, the parameter here, and
getrefcount's argument."""


def accumulate(held: Any, grad: Any) -> Any:
    """The sum: in the memory of `held` where nobody else can see that, else a new tensor.

    Source   torch/csrc/autograd/input_buffer.cpp  accumulate
    """
    if (
        not STATE.grad
        and sys.getrefcount(held) <= _UNSHARED
        and held.base is None
        and held.storage().use_count == 1
        and held.dtype is grad.dtype
        and held.sizes == grad.sizes
        and held.is_non_overlapping_and_dense
    ):
        return aten.add_.Tensor(held, grad)
    return aten.add.Tensor(held, grad)
