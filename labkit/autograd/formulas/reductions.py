"""The way back through reductions and scans: every element that was reduced gets its share.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import zeros
from labkit.core.strides import maybe_wrap_dim
from labkit.ops.aten import aten

Dims = int | Sequence[int] | None


def _listed(dims: Dims) -> list[int]:
    return [] if dims is None else [dims] if isinstance(dims, int) else list(dims)


def restore_reduced_dims(tensor: Any, dims: Dims, keepdim: bool, count: int | None = None) -> Any:
    """The tensor with the reduced dimensions back, of size 1.

    count   dimensions before the reduction; None: those of the tensor and the named ones

    Source   torch/csrc/autograd/FunctionsManual.cpp  restore_reduced_dims, unsqueeze_multiple
    """
    named = _listed(dims)
    if keepdim or not named:
        return tensor
    before = tensor.dim() + len(named) if count is None else count
    if before == 0:
        return tensor
    for dim in sorted(maybe_wrap_dim(dim, before) for dim in named):
        tensor = aten.unsqueeze.default(tensor, dim)
    return tensor


def sum_backward(grad: Any, sizes: Sequence[int], dims: Dims, keepdim: bool) -> Any:
    """The gradient of every sum, for each of its terms.

    Source   torch/csrc/autograd/FunctionsManual.cpp  sum_backward
    """
    grad = restore_reduced_dims(grad, dims, keepdim, len(sizes))
    return aten.expand.default(grad, list(sizes))


def reduced_count(sizes: Sequence[int], dims: Dims) -> int:
    """How many elements each reduction took.

    Source   torch/csrc/autograd/FunctionsManual.cpp  safe_size
    """
    named = _listed(dims)
    if not sizes:
        return 1
    return math.prod(sizes[dim] for dim in named) if named else math.prod(sizes)


def mean_backward(grad: Any, sizes: Sequence[int], dims: Dims, keepdim: bool) -> Any:
    """The gradient of every mean, shared equally.

    Source   torch/csrc/autograd/FunctionsManual.cpp  mean_backward
    """
    return sum_backward(grad, sizes, dims, keepdim) / reduced_count(sizes, dims)


def var_backward(grad: Any, self: Any, dims: Dims, correction: float | None, keepdim: bool) -> Any:
    """Twice the distance from the mean, over the degrees of freedom.

    Source   torch/csrc/autograd/FunctionsManual.cpp  var_backward
    """
    taken = 1 if correction is None else correction
    if self.dim() == 0 or dims is None or not _listed(dims):
        freedom = self.numel() - taken
        centre = aten.mean.default(self)
    else:
        freedom = reduced_count(self.sizes, dims) - taken
        centre = aten.mean.dim(self, _listed(dims), True)
        if self.dim() > 1:
            grad = restore_reduced_dims(grad, dims, keepdim, self.dim())
    if freedom <= 0:
        infinite = aten.full_like.default(self, math.inf)
        lost = aten.masked_fill.Scalar(infinite, aten.eq.Tensor(self, centre), math.nan)
        return grad * lost
    return (2.0 / freedom) * grad * (self - centre)


def evenly_distribute_backward(grad: Any, self: Any, value: Any) -> Any:
    """The gradient of an extreme, shared by all elements that are it.

    Source   torch/csrc/autograd/FunctionsManual.cpp  evenly_distribute_backward
    """
    is_nan = value.item() != value.item()
    mask = aten.isnan.default(self) if is_nan else aten.eq.Tensor(self, value)
    nothing = zeros(self.sizes, self.dtype, self.device)
    return aten.masked_fill.Tensor(nothing, mask, grad / aten.sum.default(mask))


def value_selecting_reduction_backward(
    grad: Any, dim: int, indices: Any, sizes: Sequence[int], keepdim: bool
) -> Any:
    """Zeros with the gradient where the selected elements were.

    Source   aten/src/ATen/native/ReduceOps.cpp  value_selecting_reduction_backward_symint
    Differs  PyTorch scatters; labkit has no scatter, and writes by an index for each dimension
    """
    if not sizes:
        return grad
    if not keepdim:
        grad = aten.unsqueeze.default(grad, dim)
        indices = aten.unsqueeze.default(indices, dim)
    rank = len(sizes)
    grid = [
        aten.reshape.default(
            aten.arange.default(size, device=grad.device),
            [-1 if i == at else 1 for i in range(rank)],
        )
        for at, size in enumerate(sizes)
    ]
    grid[maybe_wrap_dim(dim, rank)] = indices
    return aten.index_put.default(zeros(sizes, grad.dtype, grad.device), grid, grad)


def extreme_backward(grad: Any, self: Any, result: Any, dims: Dims, keepdim: bool) -> Any:
    """The gradient of each extreme, shared by the elements that are it.

    Source   torch/csrc/autograd/FunctionsManual.cpp  scale_grad_by_count
    """
    grad = restore_reduced_dims(grad, dims, keepdim, self.dim())
    result = restore_reduced_dims(result, dims, keepdim, self.dim())
    mask = aten.eq.Tensor(result, self)
    return (grad * mask) / aten.sum.dim_IntList(mask, _listed(dims), True)


def norm_backward(
    grad: Any, self: Any, p: float | None, norm: Any, dims: Dims = None, keepdim: bool = False
) -> Any:
    """The gradient of a p-norm; where the norm is zero or not smooth, PyTorch's choice of zero.

    Source   torch/csrc/autograd/FunctionsManual.cpp  norm_backward
    """
    order = 2.0 if p is None else float(p)
    if self.dim():
        grad = restore_reduced_dims(grad, dims, keepdim, self.dim())
        norm = restore_reduced_dims(norm, dims, keepdim, self.dim())
    if order == 0.0:
        return None
    if order == 1.0:
        return aten.sgn.default(self) * grad
    is_zero = aten.eq.Scalar(norm, 0)
    if order == 2.0:
        return grad * aten.masked_fill.Scalar(self / norm, is_zero, 0)
    size = aten.abs.default(self)
    if math.isinf(order):
        mask = aten.logical_or.default(aten.eq.Tensor(size, norm), aten.isnan.default(size))
        share = grad / aten.sum.dim_IntList(mask, _listed(dims), True)
        return aten.sgn.default(self) * (share * mask)
    if order < 1.0:
        power = aten.sgn.default(self) * aten.pow.Tensor_Scalar(size, order - 1)
        power = aten.masked_fill.Scalar(power, aten.eq.Scalar(self, 0), 0)
        return power * grad * aten.pow.Tensor_Scalar(norm, 1 - order)
    if order < 2.0:
        power = aten.sgn.default(self) * aten.pow.Tensor_Scalar(size, order - 1)
    else:
        power = self * aten.pow.Tensor_Scalar(size, order - 2)
    scale = aten.masked_fill.Scalar(grad / aten.pow.Tensor_Scalar(norm, order - 1), is_zero, 0)
    return power * scale


def cumsum_backward(grad: Any, dim: int) -> Any:
    """The sum from each place to the end.

    Source   torch/csrc/autograd/FunctionsManual.cpp  cumsum_backward
    """
    if grad.numel() <= 1 or grad.sizes[dim] == 1:
        return grad
    flipped = aten.flip.default(grad, [dim])
    return aten.flip.default(aten.cumsum.default(flipped, dim), [dim])
