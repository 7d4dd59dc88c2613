"""Gradients of matrix products, laid out as the operands are.

Source   torch/csrc/autograd/FunctionsManual.cpp  mm_mat1_backward, mm_mat2_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import conj, maybe_multiply
from labkit.ops.aten import aten


def _is_column_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    return strides[0] == 1 and strides[1] == sizes[0]


def mm_left(grad: Any, right: Any, sizes: Sequence[int], strides: Sequence[int], alpha: Any) -> Any:
    """The gradient of the left matrix of a product; column by column where that matrix is."""
    if _is_column_major(sizes, strides):
        made = aten.t.default(aten.mm.default(conj(right), aten.t.default(grad)))
    else:
        made = aten.mm.default(grad, conj(aten.t.default(right)))
    return maybe_multiply(made, conj(alpha))


def mm_right(grad: Any, left: Any, sizes: Sequence[int], strides: Sequence[int], alpha: Any) -> Any:
    """The gradient of the right matrix of a product; column by column where that matrix is."""
    if _is_column_major(sizes, strides):
        made = aten.t.default(aten.mm.default(aten.t.default(grad), conj(left)))
    else:
        made = aten.mm.default(conj(aten.t.default(left)), grad)
    return maybe_multiply(made, conj(alpha))
