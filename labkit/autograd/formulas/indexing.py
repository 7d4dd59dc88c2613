"""Gradients of what was fetched from named places.

Source   torch/csrc/autograd/FunctionsManual.cpp  index_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten


def index_backward(grad: Any, sizes: Sequence[int], indices: Sequence[Any]) -> Any:
    """Zeros with every gradient added in its place."""
    zeros = aten.new_zeros.default(grad, sizes)
    return aten._index_put_impl_.default(zeros, indices, grad, True, True)
