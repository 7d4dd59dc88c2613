"""Gradients of joined and repeated tensors.

Source   torch/csrc/autograd/FunctionsManual.cpp  cat_tensors_backward, repeat_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import real_part
from labkit.core.dtype import DType
from labkit.core.strides import maybe_wrap_dim
from labkit.ops.aten import aten


def _for_type(grad: Any, dtype: DType) -> Any:
    """The gradient of an input that was widened to complex."""
    return real_part(grad) if grad.dtype.is_complex and not dtype.is_complex else grad


def cat_backward(
    grad: Any, sizes: Sequence[Sequence[int]], dtypes: Sequence[DType], dim: int
) -> list[Any]:
    """To each tensor its part; nothing to an empty vector, which was left out."""
    joined = next((each for each in sizes if tuple(each) != (0,)), (0,))
    axis = maybe_wrap_dim(dim, len(joined))
    parts, start = [], 0
    for own, dtype in zip(sizes, dtypes, strict=True):
        if tuple(own) == (0,):
            parts.append(aten.new_zeros.default(grad, (0,)))
            continue
        part = aten.narrow.default(grad, axis, start, own[axis])
        parts.append(_for_type(part, dtype))
        start += own[axis]
    return parts


def stack_backward(grad: Any, dim: int, dtypes: Sequence[DType]) -> list[Any]:
    """To each tensor its slice."""
    slices = aten.unbind.int(grad, dim)
    return [_for_type(each, dtype) for each, dtype in zip(slices, dtypes, strict=True)]
