"""Operators that compute every element from the elements in its place.

    pointwise            what every one of them does: read this first
    dtype_rules          the types each computes in; promotion itself is in `labkit.core.promotion`
    arithmetic, unary, binary, ternary, activation, conjugate   the operators
    scalar_overloads     operators of a tensor and a number
    special_functions    loops that NumPy lacks
    pointwise_shortcut   the short way of the commonest calls
    fused_multiply_add   a * b + c with one rounding, for kernels elsewhere

Broadcasting, overlap and strides are the iterator's: `labkit.ops.iterator`.
"""
