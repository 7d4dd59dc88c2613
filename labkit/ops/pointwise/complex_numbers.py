"""Complex numbers from their parts; one-hot rows.

Source   aten/src/ATen/native/TensorFactories.cpp, Onehot.cpp
"""

from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy


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


@composite("one_hot(Tensor self, int num_classes=-1) -> Tensor", variants="")
def one_hot(self: TensorImpl, num_classes: int = -1) -> Any:
    """A new last dimension, 1 in the place that each index names."""
    if self.dtype is not dtypes.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, got {self.dtype.name}"
        )
    if not self.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return new_tensor(np.zeros((*self.sizes, num_classes), np.int64), dtypes.int64)
    values = copy.values(self)
    if values.min() < 0:
        raise RuntimeError(f"Class values must be non-negative, got {values.min()}")
    if num_classes == -1:
        num_classes = int(values.max()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"num_classes should be positive, got {num_classes}")
    elif num_classes <= values.max():
        raise RuntimeError(
            f"Class values must be smaller than num_classes: {values.max()} and {num_classes}"
        )
    rows = (values[..., None] == np.arange(num_classes)).astype(np.int64)
    host = new_tensor(rows, dtypes.int64)
    return host if self.device.type == "cpu" else copy.to_copy(host, host.dtype, self.device)
