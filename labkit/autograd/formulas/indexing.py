"""Gradients of what was fetched from, or combined into, named places.

Source   torch/csrc/autograd/FunctionsManual.cpp  scatter_reduce_backward, index_backward
         aten/src/ATen/native/TensorAdvancedIndexing.cpp  gather_backward, index_select_backward,
         masked_select_backward
"""

from collections.abc import Callable, Sequence
from typing import Any

from labkit.core.strides import broadcast_shapes
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


def masked_select_back(grad: Any, sizes: Sequence[int], mask: Any) -> Any:
    """Zeros with the gradients, one after the other, under the mask."""
    shape = broadcast_shapes(tuple(sizes), mask.sizes)
    zeros = aten.expand.default(aten.new_zeros.default(grad, sizes), shape)
    zeros = aten.clone.default(zeros) if tuple(sizes) != shape else zeros
    return aten.masked_scatter_.default(zeros, mask, grad)


def take_backward(grad: Any, self: Any, index: Any) -> Any:
    """Zeros with every gradient added at its position."""
    return aten.put_.default(aten.zeros_like.default(self), index, grad, True)


def index_fill_value(grad: Any, dim: int, index: Any) -> Any:
    """The sum over the slices that were filled, each once."""
    kept = aten.index_fill.int_Scalar(grad, dim, index, 0)
    return aten.sum.default(aten.sub.Tensor(grad, kept))


def embedding_double_backward(grad: Any, indices: Any, padding_idx: int) -> Any:
    """The rows that were looked up; zeros where that was the padding row."""
    rows = aten.index_select.default(grad, 0, aten.reshape.default(indices, (-1,)))
    rows = aten.reshape.default(rows, (*indices.sizes, grad.sizes[1]))
    if padding_idx < 0:
        return rows
    padded = aten.unsqueeze.default(aten.eq.Scalar(indices, padding_idx), -1)
    return aten.masked_fill.Scalar(rows, padded, 0)


def _reduce_backward(
    grad: Any,
    self: Any,
    src: Any,
    reduce: str,
    include_self: bool,
    result: Any,
    fetch: Callable[[Any], Any],
    add: Callable[[Any, Any], Any],
    multiply: Callable[[Any, Any], Any],
    reset: Callable[[Any, float], Any],
) -> tuple[Any, Any]:
    """Gradients of a tensor and of what was combined into it.

    fetch          what lies in the named places
    add, multiply  the second tensor into the named places of the first
    reset          the named places set to a number
    """
    if reduce in ("sum", "mean"):
        grad_self, grad_src = grad, fetch(grad)
        if reduce == "mean":
            ones = aten.ones_like.default(grad)
            count = ones if include_self else reset(ones, 0)
            count = add(count, aten.ones_like.default(src))
            count = aten.masked_fill_.Scalar(count, aten.eq.Scalar(count, 0), 1)
            grad_self, grad_src = grad / count, fetch(grad) / fetch(count)
    elif reduce == "prod":
        grad_self, grad_src = _product_backward(grad, self, src, result, fetch, add, multiply)
    else:
        value = fetch(result)
        is_self = _as_numbers(aten.eq.Tensor(self, result), grad)
        is_src = _as_numbers(aten.eq.Tensor(src, value), grad)
        share = add(is_self, is_src)  # of equal ones, each takes its part
        each = grad / share
        grad_self, grad_src = each * is_self, fetch(each) * is_src
    if not include_self:
        grad_self = reset(grad_self, 0)
    return grad_self, grad_src


def _as_numbers(mask: Any, like: Any) -> Any:
    return aten._to_copy.default(mask, dtype=like.dtype)


def _product_backward(
    grad: Any,
    self: Any,
    src: Any,
    result: Any,
    fetch: Callable[[Any], Any],
    add: Callable[[Any, Any], Any],
    multiply: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """A factor's gradient is the product of the others: without it, where it is a lone zero."""
    whole = aten.masked_fill.Scalar(self, aten.eq.Scalar(self, 0), 1)
    grad_self = grad * multiply(whole, src) / whole
    zero = aten.eq.Scalar(src, 0)
    counted = add(aten.zeros_like.default(self), aten._to_copy.default(zero, dtype=self.dtype))
    alone = aten.bitwise_and.Tensor(zero, aten.eq.Scalar(fetch(counted), 1))
    others = multiply(self, aten.masked_fill.Scalar(src, alone, 1))
    quotient = fetch(grad * result) / aten.masked_fill.Scalar(src, zero, 1)
    return grad_self, aten.where.self(alone, fetch(grad * others), quotient)


def scatter_reduce_backward(
    grad: Any,
    self: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    include_self: bool,
    result: Any,
) -> tuple[Any, Any]:
    """Gradients of `self` and of what was combined into it; of equal extremes each takes a part."""
    return _reduce_backward(
        grad, self, src, reduce, include_self, result,
        lambda whole: aten.gather.default(whole, dim, index),
        lambda into, what: aten.scatter_add.default(into, dim, index, what),
        lambda into, what: aten.scatter_reduce.two(
            into, dim, index, what, "prod", include_self=include_self),
        lambda into, number: aten.scatter.value(into, dim, index, number),
    )  # fmt: skip


def index_reduce_backward(
    grad: Any,
    self: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    include_self: bool,
    result: Any,
) -> tuple[Any, Any]:
    """As `scatter_reduce_backward`, for whole slices."""
    return _reduce_backward(
        grad, self, source, reduce, include_self, result,
        lambda whole: aten.index_select.default(whole, dim, index),
        lambda into, what: aten.index_add.default(into, dim, index, what),
        lambda into, what: aten.index_reduce.default(
            into, dim, index, what, "prod", include_self=include_self),
        lambda into, number: aten.index_fill.int_Scalar(into, dim, index, number),
    )  # fmt: skip
