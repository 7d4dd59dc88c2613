"""Element-wise operators whose result lies as `empty_like` of the first operand does.

Most take the layout an iterator gives; these make their output first and then fill it. The two
differ for operands with gaps.
"""

from collections.abc import Callable
from typing import Any

from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.pointwise.pointwise import OPERATORS, Loop
from labkit.ops.registration import DEVICES, kernel
from labkit.ops.tensors import copy

KEYS = ("CPU", *DEVICES)


def like_the_input(name: str, dtype_of: Callable[[DType], DType] = lambda dtype: dtype) -> Loop:
    """The functional operator of that name, with such a result, registered in place of the old.

    dtype_of  the type of the result, from that of the first operand
    """
    op = OPERATORS[name]

    def functional(self: TensorImpl, *args: Any, **kwargs: Any) -> TensorImpl:
        result = copy.empty_like(self, dtype=dtype_of(self.dtype))
        return op.filling(result, self, *args, **kwargs)

    return register(name, functional)


def register(name: str, function: Loop) -> Loop:
    """The function is the operator's kernel on the host and on devices, in place of the old one."""
    for key in KEYS:
        kernel(name, key)(function)
    return function


def in_place(schema: str, name: str) -> None:
    """The operator of that name, writing into its first tensor, under a schema of its own.

    For those whose overloads in place are not named like the functional ones.
    """
    defined = schema.partition("(")[0]
    for key in KEYS:
        operator = schema if key == KEYS[0] else defined
        kernel(operator, key, variants="method")(OPERATORS[name].in_place)
