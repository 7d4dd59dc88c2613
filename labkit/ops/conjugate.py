"""The complex conjugate.

Source   aten/src/ATen/native/UnaryOps.cpp  conj_physical, conj
"""

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.pointwise import ARITHMETIC, pointwise
from labkit.ops.registration import composite

pointwise("conj_physical(Tensor self) -> Tensor", ARITHMETIC)(np.conjugate)


@composite("conj(Tensor(a) self) -> Tensor(a)")
def conj(self: TensorImpl) -> TensorImpl:
    """The tensor itself when it is real, else a tensor of the conjugates.

    Differs  PyTorch gives a view that negates imaginary parts as they are read; the lab has no
             such bit.
    """
    if not self.dtype.is_complex:
        return self
    result: TensorImpl = aten.conj_physical.default(self)
    return result
