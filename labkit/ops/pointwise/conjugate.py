"""The complex conjugate.

Source   aten/src/ATen/native/UnaryOps.cpp  conj_physical, conj
"""

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.pointwise.dtype_rules import ARITHMETIC
from labkit.ops.pointwise.pointwise import pointwise
from labkit.ops.registration import composite

pointwise(
    "_conj_physical(Tensor self) -> Tensor", ARITHMETIC, inplace=False, out=None, variants=""
)(np.conjugate)


@composite("resolve_conj(Tensor(a) self) -> Tensor(a)")
@composite("resolve_neg(Tensor(a) self) -> Tensor(a)")
def resolved(self: TensorImpl) -> TensorImpl:
    """The tensor itself: nothing in the lab is conjugated or negated as it is read."""
    return self


@composite("conj_physical(Tensor self) -> Tensor")
@composite("conj(Tensor(a) self) -> Tensor(a)")
def conj(self: TensorImpl) -> TensorImpl:
    """The tensor itself when it is real, else a tensor of the conjugates.

    Differs  PyTorch's `conj` is a view that negates imaginary parts as they are read; the lab has
             no such bit.
    """
    return aten._conj_physical.default(self) if self.dtype.is_complex else self
