"""Gradients of joined tensors.

Source   torch/csrc/autograd/FunctionsManual.cpp  cat_tensors_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.core.strides import maybe_wrap_dim
from labkit.ops.aten import aten


def cat_backward(grad: Any, sizes: Sequence[Sequence[int]], dim: int) -> list[Any]:
    """To each tensor its part; nothing to an empty vector, which was left out."""
    joined = next((each for each in sizes if tuple(each) != (0,)), (0,))
    axis = maybe_wrap_dim(dim, len(joined))
    parts, start = [], 0
    for own in sizes:
        if tuple(own) == (0,):
            parts.append(aten.new_zeros.default(grad, (0,)))
            continue
        parts.append(aten.narrow.default(grad, axis, start, own[axis]))
        start += own[axis]
    return parts
