"""Complex numbers from their parts.

Source   aten/src/ATen/native/TensorFactories.cpp
"""

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.registration import kernel


@kernel("complex(Tensor real, Tensor imag) -> Tensor", variants="function")
def complex_(real: TensorImpl, imag: TensorImpl) -> TensorImpl:
    """Complex numbers with these parts."""
    allowed = (dtypes.float16, dtypes.float32, dtypes.float64)
    if real.dtype not in allowed or imag.dtype not in allowed:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {real.dtype.name} "
            f"and {imag.dtype.name}"
        )
    if real.dtype is not imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {real.dtype.name} but got scalar type "
            f"{imag.dtype.name} for second argument of complex"
        )
    x, y = np.broadcast_arrays(wide(real), wide(imag))
    both = np.empty(x.shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    both.real, both.imag = x, y
    strides = output_strides(x.shape, [(each.sizes, each.strides) for each in (real, imag)])
    return new_tensor(both, dtypes.to_complex(real.dtype), strides)
