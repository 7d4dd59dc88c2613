"""Operators whose results are answers or whole numbers: nothing to differentiate."""

from labkit.autograd.derivatives.row import Row, not_differentiable

_COMPARISONS = [
    f"{name}.{overload}"
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Tensor", "Scalar")
]
_BITWISE = [
    f"{name}.{overload}"
    for name in (
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    )
    for overload in ("Tensor", "Tensor_Scalar", "Scalar", "Scalar_Tensor")
]  # fmt: skip

ROWS: list[Row] = not_differentiable(
    *_COMPARISONS, *_BITWISE, "bitwise_not", "logical_and", "logical_or", "logical_xor",
    "logical_not", "isnan", "isinf", "isfinite", "isneginf", "isposinf", "isreal", "signbit",
    "isclose", "isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor", "floor_divide",
    "floor_divide.Scalar", "gcd", "lcm", "heaviside", "bucketize.Tensor", "bucketize.Scalar",
    "searchsorted.Tensor", "searchsorted.Scalar", "bincount",
    "histc", "unique_dim", "_unique2", "unique_consecutive", "_local_scalar_dense", "is_nonzero",
)  # fmt: skip
