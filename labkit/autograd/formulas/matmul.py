"""Gradients of matrix products, laid out as the operands are.

Source   torch/csrc/autograd/FunctionsManual.cpp  mm_mat1_backward, _trilinear_backward
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


def over_batch(grad: Any, left: Sequence[int], right: Sequence[int]) -> Any:
    """The gradient of a sum over a batch, shown once per matrix of the batch."""
    return aten.expand.default(aten.unsqueeze.default(grad, 0), (left[0], left[1], right[2]))


def trilinear_backward(
    grad: Any,
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    needs: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Gradients of a product of three: each the product of the other two with the gradient."""
    make = aten._trilinear.default
    return (
        make(grad, i2, i3, sumdim, expand2, expand3, expand1) if needs[0] else None,
        make(i1, grad, i3, expand1, sumdim, expand3, expand2) if needs[1] else None,
        make(i1, i2, grad, expand1, expand2, sumdim, expand3) if needs[2] else None,
    )
