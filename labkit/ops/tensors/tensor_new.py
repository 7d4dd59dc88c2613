"""New tensors: from nested lists, from numbers, from NumPy arrays.

Source   torch/csrc/utils/tensor_new.cpp
         aten/src/ATen/native/TensorFactories.cpp
"""

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core import promotion, tensor_impl
from labkit.core.allocator import DataPtr
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import encode
from labkit.core.memory_format import Ints
from labkit.core.storage import Storage
from labkit.core.strides import storage_nbytes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy

_SEQUENCES = (list, tuple, np.ndarray)


def _is_sequence(data: Any) -> bool:
    return isinstance(data, _SEQUENCES) and getattr(data, "ndim", 1) > 0


def shape_of(data: Any) -> Ints:
    """The sizes of nested sequences, read off the first element of each level."""
    sizes: list[int] = []
    while _is_sequence(data):
        sizes.append(len(data))
        if not sizes[-1]:
            break
        data = data[0]
    return tuple(sizes)


def flatten_numbers(data: Any, sizes: Ints, dim: int = 0) -> list[Any]:
    """The numbers of nested sequences in row-major order; NumPy's scalars stay what they are.

    Raises   ValueError     a level has another length than its first neighbour, a text, or a
                            tensor of more than one element
             TypeError      a sequence beside numbers, or a number beside sequences
             RuntimeError   something that is neither a sequence nor a number
    """
    if dim == len(sizes):
        return [_number(data, dim)]
    if not _is_sequence(data):
        raise TypeError(f"not a sequence at dim {dim}: {data!r}")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    return [number for item in data for number in flatten_numbers(item, sizes, dim + 1)]


def _number(data: Any, dim: int) -> Any:
    if _is_sequence(data):
        raise TypeError(f"expected a number at depth {dim}, got a {type(data).__name__}")
    if isinstance(data, str):
        raise ValueError(f"too many dimensions 'str': {data!r}")
    if isinstance(data, np.ndarray):
        return data[()]
    impl = getattr(data, "impl", None)
    if isinstance(impl, TensorImpl):
        if impl.numel() != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars, got sizes "
                f"{list(impl.sizes)}"
            )
        return copy.item(impl)
    if not isinstance(data, bool | int | float | complex | np.number | np.bool_):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}: {data!r}")
    return data


def infer_dtype(numbers: Sequence[Any]) -> DType:
    """The promoted type of all numbers; the default dtype for none.

    Python's floats count as the default dtype, its integers as int64, NumPy's scalars as what
    they are.

    Source   torch/csrc/utils/tensor_new.cpp  infer_scalar_type
    """
    found = dict.fromkeys([_dtype_of(number) for number in numbers])  # in order, as PyTorch goes
    if not found:
        return promotion.get_default_dtype()
    return functools.reduce(promotion.promote_types, found)


def _dtype_of(number: Any) -> DType:
    if isinstance(number, np.generic):
        return dtypes.from_numpy_dtype(number.dtype)
    dtype = promotion.dtype_of_number(number)
    if dtype is dtypes.complex128:
        return promotion.default_complex_dtype()
    return promotion.get_default_dtype() if dtype is dtypes.float64 else dtype


def tensor(data: Any, dtype: DType | None = None, device: Device = CPU) -> TensorImpl:
    """A new tensor holding the numbers of nested lists and tuples."""
    sizes = shape_of(data)
    numbers = flatten_numbers(data, sizes)
    chosen = dtype or infer_dtype(numbers)
    host = tensor_impl.empty(sizes, chosen)
    if numbers:
        raw = np.array([_number_raw(number, chosen) for number in numbers], chosen.raw)
        copy.store(host, raw.reshape(sizes))
    return host if device == CPU else copy.to_copy(host, chosen, device)


def _number_raw(number: Any, dtype: DType) -> Any:
    """One raw element for `tensor([...])`, which is stricter on kinds and laxer on floats."""
    if isinstance(number, np.generic):
        number = number.item()
    if isinstance(number, complex) and not (dtype.is_complex or dtype.kind == "bool"):
        raise TypeError(f"can't convert complex {number} to {dtype}")
    if not dtype.is_integral:
        if isinstance(number, int):
            number = number != 0 if dtype.kind == "bool" else float(number)
        return encode(np.array(number), dtype)[()]
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63 + (dtype is dtypes.uint64):
        raise ValueError(f"Overflow when unpacking long long: {number}")
    return copy.scalar_raw(number, dtype)[()]


def full(sizes: Ints, value: complex | bool, dtype: DType | None, device: Device) -> TensorImpl:
    """A new contiguous tensor of one value, in the type of the value when none is given."""
    impl = tensor_impl.empty(sizes, dtype or infer_dtype([value]), device)
    return filled(impl, value)


def filled(impl: TensorImpl, value: complex | bool) -> TensorImpl:
    """The tensor itself, every element `value`, without a new version."""
    copy.fill(impl, value)
    return impl


def arange(start: float, end: float, step: float, dtype: DType | None) -> TensorImpl:
    """The numbers from start to before end; int64 when all three are integers.

    Raises   RuntimeError   step is 0, or leads away from the end
             ValueError     a step of int64 numbers that is 0 once its fraction is cut off

    Source   aten/src/ATen/native/RangeFactories.cpp  arange_out
    """
    integers = all(isinstance(number, int) for number in (start, end, step))
    chosen = dtype or (dtypes.int64 if integers else promotion.get_default_dtype())
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    count = math.ceil((end - start) / step)
    if chosen.is_integral:  # the loop counts in whole numbers; for int64 the size does so too
        start, end, step = math.trunc(start), math.trunc(end), math.trunc(step)
        if chosen is dtypes.int64:
            if step == 0:
                raise ValueError("step must be nonzero as a whole number")
            count = math.ceil((end - start) / step)
    wide = np.arange(count) * step + start  # start + i * step: no error adds up
    impl = tensor_impl.empty((count,), chosen)
    copy.write(impl, wide)
    return impl


def from_numpy(array: Any) -> TensorImpl:
    """The memory of a NumPy array as a tensor: a write through either is seen by both.

    Raises   TypeError    not an array, or an element type PyTorch does not have
             ValueError   a negative stride, or one that is no whole number of elements
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtype = dtypes.from_numpy_dtype(array.dtype)
    if any(stride < 0 for stride in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            f"strides are not currently supported: {array.strides}. You can make a copy with "
            "array.copy()"
        )
    if any(stride % dtype.itemsize for stride in array.strides):
        raise ValueError(
            f"given numpy array strides {array.strides} are not multiples of the element size "
            f"{dtype.itemsize}; copy the array first"
        )
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and tensors always are: a write through the "
            "tensor changes the array all the same. Copy the array first.",
            UserWarning,
            stacklevel=3,
        )
    strides = tuple([stride // dtype.itemsize for stride in array.strides])
    nbytes = storage_nbytes(array.shape, strides, dtype.itemsize)
    data_ptr = DataPtr(array.ctypes.data, CPU, array, lambda context: None)
    return tensor_impl.make(Storage.from_data_ptr(data_ptr, nbytes), dtype, array.shape, strides)


def to_numpy(self: TensorImpl) -> "np.ndarray[Any, Any]":
    """The tensor's memory as a NumPy array, which keeps the memory alive.

    Raises   TypeError   NumPy has no such element type, or the memory is not the host's

    Source   torch/csrc/utils/tensor_numpy.cpp  tensor_to_numpy
    """
    if self.device.type != "cpu":
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )
    if self.dtype.numpy is None:
        raise TypeError(f"NumPy has no type with the values of {self.dtype}")
    self.storage().impl.resizable = False  # the array would keep showing the old memory
    return self.raw(writable=True)
