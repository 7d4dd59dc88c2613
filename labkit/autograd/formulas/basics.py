"""What nearly every formula needs: conjugates, products with a scalar that is mostly one.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

from collections.abc import Sequence
from typing import Any

from labkit.core.tensor_impl import empty
from labkit.ops.aten import aten
from labkit.ops.tensors import copy


def conj(value: Any) -> Any:
    """The complex conjugate; what is real is its own."""
    try:
        is_complex = value.dtype.kind == "complex"
    except AttributeError:
        return value.conjugate() if isinstance(value, complex) else value
    return aten.conj_physical.default(value) if is_complex else value


def maybe_multiply(tensor: Any, scalar: Any) -> Any:
    """The product, or the tensor itself for a scalar that is one.

    Source   torch/csrc/autograd/FunctionsManual.cpp  maybe_multiply
    """
    return tensor if scalar == 1 else tensor * scalar


def zeros(sizes: Sequence[int], dtype: Any, device: Any) -> Any:
    """A contiguous tensor of zeros; like any constant, it has no history."""
    made = empty(tuple(sizes), dtype, device)
    copy.fill(made, 0)
    return made


def zeros_like(tensor: Any) -> Any:
    """Zeros, laid out like the tensor."""
    made = copy.empty_like(tensor)
    copy.fill(made, 0)
    return made


def sum_to(tensor: Any, sizes: Sequence[int]) -> Any:
    """The tensor summed over what broadcasting from these sizes had stretched.

    Source   aten/src/ATen/ExpandUtils.h  sum_to
    """
    if not sizes:
        return aten.sum.default(tensor)
    leading = tensor.dim() - len(sizes)
    dims = list(range(leading))
    for dim in range(leading, tensor.dim()):
        if sizes[dim - leading] == 1 and tensor.sizes[dim] != 1:
            dims.append(dim)
    if dims:
        tensor = aten.sum.dim_IntList(tensor, dims, True)
    return aten.view.default(tensor, list(sizes)) if leading > 0 else tensor
