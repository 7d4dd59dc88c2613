"""What leaves a tensor: numbers, lists, arrays, and the protocols other libraries read it by.

Source   torch/_tensor.py; tools/autograd/templates/python_variable_methods.cpp
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import autograd
from labkit._tensor import exchange
from labkit._tensor.autograd_methods import AutogradMethods
from labkit._tensor.view_methods import ViewMethods
from labkit.ops.aten import aten
from labkit.ops.tensors import copy, tensor_new


class ValuesOut(AutogradMethods, ViewMethods):
    """The part of `Tensor` that gives its elements away."""

    __slots__ = ()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a 0-dim tensor."""
        return copy.values(self).tolist()

    def item(self) -> Any:
        """The only element, as a Python number.

        Raises   RuntimeError   not exactly one element
        """
        return aten._local_scalar_dense.default(self)

    def numpy(self) -> NDArray[Any]:
        """The memory as a NumPy array: a write through either is seen by both."""
        if self.requires_grad and autograd.is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        return tensor_new.to_numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        return array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return exchange.dlpack(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return exchange.cuda_array_interface(self)

    def __len__(self) -> int:
        if not self.sizes:
            raise TypeError("len() of a 0-d tensor")
        return self.sizes[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.sizes:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError(f"Boolean value of Tensor with {self.numel()} values is ambiguous")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.numel() != 1 or not (self.dtype.is_integral or self.dtype.kind == "bool"):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(copy.values((self == value).impl)))
