"""Operators whose results are answers or whole numbers: nothing to differentiate.

Written over a tensor, the answers of a comparison end its history: what it held before gets zeros.
"""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

ZERO = "zeros_like(grad)"
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BITWISE = [
    f"{name}.{overload}"
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    for overload in ("Tensor", "Scalar", "Scalar_Tensor")
]

ROWS: list[Row] = [
    *(row(f"{name}_.Scalar", f"{name.title()}Backward0", self=ZERO) for name in _COMPARISONS),
    *(
        row(f"{name}_.Tensor", f"{name.title()}Backward1", self=ZERO, other=ZERO)
        for name in _COMPARISONS
    ),
    *not_differentiable(
        *(f"{name}.{overload}" for name in _COMPARISONS for overload in ("Tensor", "Scalar")),
        *_BITWISE, "bitwise_not", "logical_and", "logical_or", "logical_xor", "logical_not",
        "isnan", "isinf", "isfinite", "isneginf", "isposinf", "isclose", "_local_scalar_dense",
    ),
]  # fmt: skip
