"""Kernels that serve device tensors too, because all that they call runs on the device.

Source   aten/src/ATen/native/cuda/Dropout.cu, IndexKernel.cpp
"""

from typing import Any

from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda import reduction
from labkit.ops.cuda.launching import NoKernel
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.indexing import masked
from labkit.ops.pointwise.pointwise import OPERATORS
from labkit.ops.random import random_factories
from labkit.ops.registration import kernel

kernel("native_dropout_backward", "CUDA")(random_factories.native_dropout_backward)
kernel("masked_fill.Scalar", "CUDA")(masked.masked_fill)
kernel("masked_fill.Tensor", "CUDA")(masked.masked_fill_tensor)


@device_kernel("dot")
def dot(self: TensorImpl, tensor: TensorImpl) -> TensorImpl:
    """The sum of the products of two vectors."""
    if self.dim() != 1 or self.sizes != tensor.sizes or self.dtype is not tensor.dtype:
        raise NoKernel("its kernel takes two vectors alike")
    return reduction.sum_dim(
        OPERATORS["mul.Tensor"].functional(self, tensor), None, dtype=self.dtype
    )


@device_kernel("linalg_vector_norm")
def linalg_vector_norm(
    self: TensorImpl,
    ord: Any = 2,  # noqa: A002  PyTorch's name for it
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> TensorImpl:
    """The root of the sum of squares over some dimensions."""
    if ord != 2 or dtype not in (None, self.dtype) or not self.dtype.is_floating_point:
        raise NoKernel(f"it has no device kernel for the norm {ord} of {self.dtype.name}")
    squares = OPERATORS["mul.Tensor"].functional(self, self)
    return OPERATORS["sqrt"].functional(reduction.sum_dim(squares, dim, keepdim))
