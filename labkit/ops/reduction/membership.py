"""Whether elements are among others.

Source   aten/src/ATen/native/TensorCompare.cpp
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.registration import kernel

Array = NDArray[Any]


def _isin(elements: Array, test: Array, invert: bool) -> TensorImpl:
    return new_tensor(np.isin(elements, test, invert=invert), dtypes.bool_)


_IS_IN = ", *, bool assume_unique=False, bool invert=False) -> Tensor"


@kernel(f"isin.Tensor_Tensor(Tensor elements, Tensor test_elements{_IS_IN}", variants="function")
def isin(
    elements: TensorImpl,
    test_elements: TensorImpl,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> TensorImpl:
    """Whether each element is among others; with `invert`, whether it is not."""
    return _isin(wide(elements), wide(test_elements), invert)


@kernel(f"isin.Tensor_Scalar(Tensor elements, Scalar test_element{_IS_IN}", variants="function")
def isin_scalar(
    elements: TensorImpl, test_element: Any, *, assume_unique: bool = False, invert: bool = False
) -> TensorImpl:
    """Whether each element is the number."""
    return _isin(wide(elements), np.asarray(test_element), invert)
