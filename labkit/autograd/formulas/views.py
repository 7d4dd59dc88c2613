"""The way back through views: dimensions put back, slices put into zeros.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import zeros
from labkit.core.strides import maybe_wrap_dim
from labkit.ops.aten import aten


def permute_backward(grad: Any, dims: Sequence[int]) -> Any:
    """The dimensions back in their order.

    Source   torch/csrc/autograd/FunctionsManual.cpp  permute_backwards
    """
    count = len(dims)
    back = [0] * count
    for i, dim in enumerate(dims):
        back[dim % count] = i
    return aten.permute.default(grad, back)


def unsqueeze_to(grad: Any, sizes: Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """The dimensions of size 1 that squeeze had dropped.

    dims   the ones that were asked for; None: all

    Source   torch/csrc/autograd/FunctionsManual.cpp  unsqueeze_to
    """
    count = len(sizes)
    if dims is None:
        asked = set(range(count))
    else:
        several = [dims] if isinstance(dims, int) else dims
        asked = {maybe_wrap_dim(dim, count) for dim in several} if count else set()
    for dim, size in enumerate(sizes):
        if size == 1 and dim in asked:
            grad = aten.unsqueeze.default(grad, dim)
    return grad


def slice_backward_wrapper(
    grad: Any, sizes: Sequence[int], dim: int, start: int | None, end: int | None, step: int
) -> Any:
    """Zeros of these sizes with the gradient in the slice.

    Source   torch/csrc/autograd/FunctionsManual.cpp  slice_backward_wrapper
    """
    first = 0 if start is None else start
    last = (1 << 63) - 1 if end is None else end
    return aten.slice_backward.default(grad, list(sizes), dim, first, last, step)


def split_with_sizes_backward(
    grads: Sequence[Any],
    split_sizes: Sequence[int],
    dim: int,
    sizes: Sequence[int],
    dtype: Any,
    device: Any,
) -> Any:
    """The parts' gradients beside each other, zeros where there is none.

    Source   torch/csrc/autograd/FunctionsManual.cpp  split_with_sizes_backward
    """
    dim = maybe_wrap_dim(dim, len(sizes))
    whole = []
    for grad, size in zip(grads, split_sizes, strict=True):
        if grad is None:
            part = [*sizes[:dim], size, *sizes[dim + 1 :]]
            grad = zeros(part, dtype, device)
        whole.append(grad)
    return aten.cat.default(whole, dim)


def split_backward(
    grads: Sequence[Any],
    split_size: int,
    dim: int,
    sizes: Sequence[int],
    dtype: Any,
    device: Any,
) -> Any:
    """As above, for parts of one size, the last of which may be smaller.

    Source   torch/csrc/autograd/FunctionsManual.cpp  split_backward
    """
    dim = maybe_wrap_dim(dim, len(sizes))
    parts = [split_size] * len(grads)
    parts[-1] = split_size - (split_size * len(grads) - sizes[dim])
    return split_with_sizes_backward(grads, parts, dim, sizes, dtype, device)


def unbind_backward(
    grads: Sequence[Any], dim: int, sizes: Sequence[int], dtype: Any, device: Any
) -> Any:
    """The gradients of the rows, stacked; zeros where there is none.

    Source   torch/csrc/autograd/FunctionsManual.cpp  unbind_backward
    """
    dim = maybe_wrap_dim(dim, len(sizes))
    row = [*sizes[:dim], *sizes[dim + 1 :]]
    rows = [zeros(row, dtype, device) if grad is None else grad for grad in grads]
    return aten.stack.default(rows, dim)


def as_strided_backward(
    grad: Any,
    geometry: tuple[Sequence[int], Sequence[int], int],
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Any:
    """Every element of the gradient, added at the place in memory its element came from.

    geometry   sizes, strides and offset of the tensor that was viewed

    Elements that the input shows more than once share what came for their memory: the gradient
    of each is the mean, as if the input had been made by `expand`.

    Source   torch/csrc/autograd/FunctionsManual.cpp  as_strided_backward
    """
    sizes, strides, base_offset = geometry
    offset = base_offset if storage_offset is None else storage_offset
    grad, out_sizes, out_strides = _without_repeats(grad, size, stride)
    if 0 in out_sizes or 0 in sizes:
        return zeros(sizes, grad.dtype, grad.device)
    in_sizes = [size for size in sizes if size != 1]
    in_strides = [step for size, step in zip(sizes, strides, strict=True) if size != 1]
    shared = min(base_offset, offset)
    ends = [
        at + sum((s - 1) * st for s, st in zip(n, steps, strict=True)) + 1
        for at, n, steps in (
            (base_offset - shared, in_sizes, in_strides),
            (offset - shared, out_sizes, out_strides),
        )
    ]
    storage = zeros([max(ends)], grad.dtype, grad.device)
    if _may_overlap(out_sizes, out_strides):
        places = _places(max(ends), out_sizes, out_strides, offset - shared, grad.device)
        storage = aten.index_put.default(storage, [places], grad, True)
    else:
        target = aten.as_strided.default(storage, out_sizes, out_strides, offset - shared)
        aten.copy_.default(target, grad)
    if _may_overlap(in_sizes, in_strides):
        places = _places(max(ends), in_sizes, in_strides, base_offset - shared, grad.device)
        count = zeros([max(ends)], grad.dtype, grad.device)
        once = aten.ones_like.default(places, dtype=grad.dtype)
        storage = storage / aten.index_put.default(count, [places], once, True)
    return aten.as_strided.default(storage, list(sizes), list(strides), base_offset - shared)


def _without_repeats(
    grad: Any, sizes: Sequence[int], strides: Sequence[int]
) -> tuple[Any, list[int], list[int]]:
    """The gradient without dimensions of size 1, and summed over those of stride 0."""
    kept_sizes: list[int] = []
    kept_strides: list[int] = []
    dim = 0
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            grad = aten.squeeze.dim(grad, dim)
        elif stride == 0:
            grad = aten.sum.dim_IntList(grad, [dim], False)
        else:
            kept_sizes.append(size)
            kept_strides.append(stride)
            dim += 1
    return grad, kept_sizes, kept_strides


def _may_overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """True unless each stride steps over everything inside it.

    Source   torch/csrc/autograd/FunctionsManual.cpp  _maybe_overlapping_memory
    """
    inside = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if stride <= inside:
            return True
        inside += stride * (size - 1)
    return False


def _places(
    length: int, sizes: Sequence[int], strides: Sequence[int], offset: int, device: Any
) -> Any:
    """Per element, where in the memory it is."""
    every = aten.arange.default(length, device=device)
    return aten.as_strided.default(every, list(sizes), list(strides), offset)
