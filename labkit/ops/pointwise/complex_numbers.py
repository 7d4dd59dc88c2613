"""Complex numbers from their parts.

Source   aten/src/ATen/native/TensorFactories.cpp
"""

from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.registration import kernel


def _check_parts(name: str, first: TensorImpl, second: TensorImpl) -> None:
    allowed = (dtypes.float16, dtypes.float32, dtypes.float64)
    if first.dtype not in allowed or second.dtype not in allowed:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {first.dtype.name} "
            f"and {second.dtype.name}"
        )
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {first.dtype.name} but got scalar type "
            f"{second.dtype.name} for second argument of {name}"
        )


def _combined(first: TensorImpl, second: TensorImpl, values: Any) -> TensorImpl:
    shape = broadcast_shapes(first.sizes, second.sizes)
    strides = output_strides(shape, [(each.sizes, each.strides) for each in (first, second)])
    return new_tensor(values, dtypes.to_complex(first.dtype), strides)


@kernel("complex(Tensor real, Tensor imag) -> Tensor", variants="function")
def complex_(real: TensorImpl, imag: TensorImpl) -> TensorImpl:
    """Complex numbers with these parts."""
    _check_parts("complex", real, imag)
    x, y = np.broadcast_arrays(wide(real), wide(imag))
    both = np.empty(x.shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    both.real, both.imag = x, y
    return _combined(real, imag, both)
