"""Python's arguments as the plain integers that operators take."""

from typing import Any

import numpy as np

from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl


def integer(value: Any, function: str) -> int:
    """`value` as an integer argument.

    Raises   TypeError   a float, a bool, a text, or anything else that is not a whole number
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, TensorImpl) and not value.sizes and value.dtype.is_integral:
        return int(value.raw())  # a 0-dim integer tensor counts as an integer
    raise TypeError(f"{function}(): expected an int, got {type(value).__name__} {value!r}")


def integers(values: tuple[Any, ...], function: str) -> Ints:
    """Sizes or dimensions, given one by one or as one sequence.

    Raises   TypeError   one of them is not a whole number
    """
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = tuple(values[0])
    return tuple([integer(value, function) for value in values])


def impl_of(value: Any, function: str) -> TensorImpl:
    """The `TensorImpl` behind a tensor argument.

    Raises   TypeError   not a labkit tensor
    """
    if not isinstance(value, TensorImpl):
        raise TypeError(f"{function}(): expected a labkit.Tensor, got {type(value).__name__}")
    return value
