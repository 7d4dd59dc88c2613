"""What a view shows, put back into a whole: gradients of views, and writing without in-place.

Source   aten/src/ATen/native/TensorShape.cpp  select_backward, slice_scatter
         aten/src/ATen/native/UnfoldBackward.cpp
"""

from collections.abc import Callable, Sequence

import numpy as np

from labkit.core import tensor_impl
from labkit.core.memory_format import MemoryFormat
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


def _in_copy(self: TensorImpl, src: TensorImpl, show: View) -> TensorImpl:
    """A copy of `self`, of its strides, with `src` where the view looks."""
    result = copy.empty_like(self)
    if self.numel():
        copy.store(result, self.raw())
    shown = show(result)
    if shown.sizes != src.sizes:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.sizes)}, slice size = {list(shown.sizes)}"
        )
    if src.numel():
        copy.store(shown, copy.convert(src.raw(), src.dtype, self.dtype))
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


@kernel("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor")
def select_scatter(self: TensorImpl, src: TensorImpl, dim: int, index: int) -> TensorImpl:
    """`self` with `src` in one slice."""
    return _in_copy(self, src, lambda whole: view.select(whole, dim, index))


@kernel(
    "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor"
)
def slice_scatter(
    self: TensorImpl,
    src: TensorImpl,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> TensorImpl:
    """`self` with `src` in a range of slices."""
    return _in_copy(self, src, lambda whole: view.slice_(whole, dim, start, end, step))


@kernel("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor")
def diagonal_scatter(
    self: TensorImpl, src: TensorImpl, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> TensorImpl:
    """`self` with `src` on a diagonal."""
    return _in_copy(self, src, lambda whole: view.diagonal(whole, offset, dim1, dim2))


@kernel(
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
    "SymInt? storage_offset=None) -> Tensor"
)
def as_strided_scatter(
    self: TensorImpl,
    src: TensorImpl,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> TensorImpl:
    """`self` with `src` where `as_strided` looks."""
    sizes, strides = tuple(size), tuple(stride)
    return _in_copy(self, src, lambda whole: view.as_strided(whole, sizes, strides, storage_offset))


@kernel("narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor")
def narrow_copy(self: TensorImpl, dim: int, start: int, length: int) -> TensorImpl:
    """A contiguous copy of a range of slices."""
    part = view.slice_(self, dim, start, start + length, 1)
    if length < 0 or part.sizes[dim % self.dim()] != length:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size "
            f"({self.sizes[dim % self.dim()]})."
        )
    return copy.clone(part, MemoryFormat.contiguous_format)


@kernel("diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor")
def diagonal_copy(self: TensorImpl, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorImpl:
    """A contiguous copy of a diagonal."""
    return copy.clone(view.diagonal(self, offset, dim1, dim2), MemoryFormat.contiguous_format)
