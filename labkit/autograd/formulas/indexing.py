"""Gradients of what was fetched from, or combined into, named places.

Source   torch/csrc/autograd/FunctionsManual.cpp  scatter_reduce_backward, index_backward
         aten/src/ATen/native/TensorAdvancedIndexing.cpp  gather_backward, index_select_backward,
         masked_select_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten


def index_backward(grad: Any, sizes: Sequence[int], indices: Sequence[Any]) -> Any:
    """Zeros with every gradient added in its place."""
    zeros = aten.new_zeros.default(grad, sizes)
    return aten._index_put_impl_.default(zeros, indices, grad, True, True)


def index_select_back(grad: Any, sizes: Sequence[int], dim: int, index: Any) -> Any:
    """Zeros with every slice added in its place."""
    return aten.index_add_.default(aten.new_zeros.default(grad, sizes), dim, index, grad)


def gather_back(grad: Any, sizes: Sequence[int], dim: int, index: Any) -> Any:
    """Zeros with every gradient added in its place."""
    return aten.scatter_add_.default(aten.new_zeros.default(grad, sizes), dim, index, grad)
