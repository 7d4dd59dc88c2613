"""Operators whose results are answers or whole numbers: nothing to differentiate.

Differs  In place they leave the history of what they write as it was, and may write a leaf that
         requires grad. PyTorch's `eq_`, `lt_`, ... have a derivative of zeros, its `floor_divide_`
         is an error in backward, and neither may write such a leaf.
"""

from labkit.autograd.derivatives.row import Row, not_differentiable

_COMPARISONS = [
    f"{name}.{overload}"
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Tensor", "Scalar")
]
_BITWISE = [
    f"{name}.{overload}"
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    for overload in ("Tensor", "Scalar", "Scalar_Tensor")
]

ROWS: list[Row] = not_differentiable(
    *_COMPARISONS, *_BITWISE, "bitwise_not", "logical_and", "logical_or", "logical_xor",
    "logical_not", "isnan", "isinf", "isfinite", "isneginf", "isposinf", "isclose", "floor_divide",
    "floor_divide.Scalar", "_local_scalar_dense",
)  # fmt: skip
