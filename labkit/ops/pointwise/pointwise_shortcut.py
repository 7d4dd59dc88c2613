"""The short way of the commonest element-wise calls: one NumPy call, no iterator.

Nothing here changes an answer: `labkit.ops.pointwise.pointwise` gives the same one, more slowly.
"""

from collections.abc import Callable
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl, from_array

Loop = Callable[..., Any]
_FAST = frozenset({dtypes.float32, dtypes.float64})


def with_shortcut(plain: Loop, fast: Loop, tensors: int) -> Loop:
    """The operator, with a short way for host operands of one type and shape without gaps.

    plain     the operator without it
    fast      a NumPy function that answers the same for such operands
    tensors   1 or 2: how many the operator takes
    """
    if tensors == 1:

        def unary(x: TensorImpl, *rest: Any, **others: Any) -> TensorImpl:
            sizes = x.sizes
            if not rest and not others and sizes and x.dtype in _FAST:
                values = x.raw()
                if values.flags.c_contiguous:
                    return from_array(fast(values), x.dtype, sizes)
            return plain(x, *rest, **others)

        return unary

    def binary(x: TensorImpl, y: TensorImpl, *rest: Any, **others: Any) -> TensorImpl:
        dtype, sizes = x.dtype, x.sizes
        if (
            dtype is y.dtype
            and sizes == y.sizes
            and sizes
            and dtype in _FAST
            and not rest
            and not others  # an alpha of True or 1 + 0j equals 1, and is refused
        ):
            a, b = x.raw(), y.raw()
            if a.flags.c_contiguous and b.flags.c_contiguous:
                return from_array(fast(a, b), dtype, sizes)
        return plain(x, y, *rest, **others)

    return binary
