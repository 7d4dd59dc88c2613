"""Elements moved, converted and filled without leaving the device.

Bytes of equal element types move unread; equal layouts without gaps are one copy of bytes, other
layouts of four-byte elements are the last rung of `kernels/strided_copy`, the rest are element-wise
kernels.

Source   aten/src/ATen/native/cuda/Copy.cu  copy_device_to_device
"""

import math

from labkit.core import dtype as dtypes
from labkit.core.allocator import copy_bytes
from labkit.core.strides import storage_nbytes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.cuda import elementwise
from labkit.ops.cuda.elementwise_source import ELEMENTS
from labkit.ops.cuda.launching import NoKernel, check_device, read, shelf, written
from labkit.ops.iterator.iterator_operand import AS_THEY_ARE
from labkit.ops.iterator.tensor_iterator import build

_BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def copy(name: str, destination: TensorImpl, source: TensorImpl) -> bool:
    """Queue the elements of `source`, broadcast and converted, into `destination`; False, and
    counted under `name`, when no kernel can.
    """
    try:
        device = check_device(destination, source)
    except NoKernel as missing:
        fallback.note(name, str(missing))
        return False
    if destination.dtype is not source.dtype:
        for dtype in (source.dtype, destination.dtype):
            if dtype not in ELEMENTS:
                fallback.note(name, f"{fallback.NO_KERNEL} for {dtype.name}")
                return False
        it = build([source], [destination], AS_THEY_ARE)
        return elementwise.launch("copy_", it, source.dtype, source.dtype, [("src", source)])
    if destination.dtype.itemsize not in _BITS:
        fallback.note(name, f"{fallback.NO_KERNEL} for {destination.dtype.name}")
        return False
    same_layout = (destination.sizes, destination.strides) == (source.sizes, source.strides)
    if same_layout and source.is_non_overlapping_and_dense:
        nbytes = storage_nbytes(source.sizes, source.strides, source.itemsize)
        copy_bytes(destination.data_ptr(), device, source.const_data_ptr(), device, nbytes)
        return True
    return _between_layouts(destination, source)


def _between_layouts(destination: TensorImpl, source: TensorImpl) -> bool:
    from labkit.cuda.structures import Dim, Layout, fast_first  # late: see `launching`

    dtype = _BITS[destination.itemsize]
    it = build([source], [destination], AS_THEY_ARE)
    if dtype.itemsize != 4 or it.ndim > Layout.MAX_DIMS:
        return elementwise.copy_bits(dtype, it)
    to, start = ([step // 4 for step in operand.stride_bytes] for operand in it.operands)
    dims, turned = fast_first(list(map(Dim, it.shape, start, to)))
    first, second, *others = (dim.size for dim in dims)
    kernel, into = shelf("strided_copy", "3_vectorised"), written(destination)
    geometry = kernel.geometry(size0=first, size1=second, others=math.prod(others))
    kernel(*geometry, (read(source), into, Layout.of(dims), turned))
    return True


def fill(self: TensorImpl, value: complex | bool) -> bool:
    """Queue `value` into every element; False, and counted, when no kernel can."""
    it = build([], [self], AS_THEY_ARE)
    return elementwise.launch("fill_", it, self.dtype, self.dtype, [("value", value)])
