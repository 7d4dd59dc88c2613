"""The kernels of `kernels/` take and leave elements row by row: this is the way there and back."""

from labkit.core import tensor_impl
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy


def packed(self: TensorImpl | None) -> TensorImpl | None:
    """The tensor, or a copy that lies row by row; None stays None."""
    return None if self is None else copy.contiguous(self)


def laid_out(self: TensorImpl, strides: Ints | None) -> TensorImpl:
    """The tensor, or a copy with these strides; None leaves it as it is."""
    if strides is None or strides == self.strides:
        return self
    result = tensor_impl.empty_strided(self.sizes, strides, self.dtype, self.device)
    copy.copy_(result, self)
    result.version_counter.version = 0
    return result
