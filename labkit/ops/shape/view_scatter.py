"""What a view shows, put back into a whole: gradients of views, and writing without in-place.

Source   aten/src/ATen/native/TensorShape.cpp  select_backward, slice_scatter
         aten/src/ATen/native/UnfoldBackward.cpp
"""

from collections.abc import Callable, Sequence

import numpy as np

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.registration import kernel
from labkit.ops.shape import view
from labkit.ops.tensors import copy

View = Callable[[TensorImpl], TensorImpl]


def _in_zeros(grad: TensorImpl, sizes: Sequence[int], show: View) -> TensorImpl:
    """Zeros of the given sizes with the gradient where the view looks."""
    result = tensor_impl.empty(tuple(sizes), grad.dtype)
    if result.numel():
        copy.store(result, np.zeros((), grad.dtype.raw))
        shown = show(result)
        copy.store(shown, np.broadcast_to(grad.raw(), shown.sizes))
    return result


@kernel(
    "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
    variants="",
)
def select_backward(
    grad_output: TensorImpl, input_sizes: Sequence[int], dim: int, index: int
) -> TensorImpl:
    """Zeros with the gradient in one slice."""
    return _in_zeros(grad_output, input_sizes, lambda whole: view.select(whole, dim, index))


@kernel(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
    "SymInt step) -> Tensor",
    variants="",
)
def slice_backward(
    grad_output: TensorImpl,
    input_sizes: Sequence[int],
    dim: int,
    start: int,
    end: int,
    step: int,
) -> TensorImpl:
    """Zeros with the gradient in a range of slices."""
    return _in_zeros(
        grad_output, input_sizes, lambda whole: view.slice_(whole, dim, start, end, step)
    )


@kernel(
    "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) "
    "-> Tensor",
    variants="",
)
def diagonal_backward(
    grad_output: TensorImpl, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> TensorImpl:
    """Zeros with the gradient on a diagonal."""
    return _in_zeros(
        grad_output, input_sizes, lambda whole: view.diagonal(whole, offset, dim1, dim2)
    )


@kernel(
    "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
    variants="",
)
def unfold_backward(
    grad_in: TensorImpl, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> TensorImpl:
    """Zeros with every window's gradient added where the window lay."""
    g = wide(grad_in)
    result = np.zeros(tuple(input_sizes), g.dtype)
    if not result.shape:
        return new_tensor(g.reshape(()), grad_in.dtype)
    axis = dim % result.ndim
    for window in range(g.shape[axis]):
        place = [slice(None)] * result.ndim
        place[axis] = slice(window * step, window * step + size)
        result[tuple(place)] += np.moveaxis(np.take(g, window, axis), -1, axis)
    return new_tensor(result, grad_in.dtype)
