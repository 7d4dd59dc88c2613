"""Sums, means and extremes over some or all dimensions, on the device.

Source   aten/src/ATen/native/cuda/ReduceSumProdKernel.cu, ReduceMomentKernel.cu
Differs  one block makes an output at most, where PyTorch also splits long sums over blocks
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints, contiguous_strides
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.elementwise_source import ELEMENTS, HEADERS
from labkit.ops.cuda.launching import NoKernel, blocks, check_device, from_text, read, written
from labkit.ops.cuda.reduction_source import MAX_DIMS, THREADS, Call, kernel_name, source
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.reduction import reduction as host
from labkit.ops.reduction.reduction import Dims

FEW = 64
"""Elements that one thread adds up alone."""

Dim = tuple[int, int, int]
"""Size, and the bytes between neighbours in the output and in x."""


def fold(
    name: str, self: TensorImpl, dims: Ints, keepdim: bool = False, dtype: DType | None = None
) -> TensorImpl:
    """The elements folded over some dimensions, as `reduction_source.FOLDS` says.

    dtype  of the result; None for that of `self`

    Raises   NoKernel   an element type without one, or too many dimensions
    """
    check_device(self)
    out_dtype = dtype or self.dtype
    for each in (self.dtype, out_dtype):
        if each not in ELEMENTS:
            raise NoKernel(f"it has no device kernel for {each.name}")
    if self.dim() > MAX_DIMS:
        raise NoKernel(f"its kernel has {MAX_DIMS} dimensions, and this needs {self.dim()}")
    kept_sizes = tuple([1 if d in dims else size for d, size in enumerate(self.sizes)])
    shape = tuple([size for d, size in enumerate(kept_sizes) if keepdim or d not in dims])
    result = tensor_impl.empty(shape, out_dtype, self.device)
    if not result.numel():
        return result
    types, out_strides = (self.dtype, out_dtype), contiguous_strides(kept_sizes)
    launch = folding(name, types, self.sizes, self.strides, out_strides, dims)
    into = written(result)
    kernel = from_text(launch.text, launch.kernel)
    kernel((launch.grid,), (THREADS,), (into, read(self), *launch.numbers))
    return result


class Folding(NamedTuple):
    """A launch that folds, in blocks of `THREADS`; its first arguments are the output and x.

    numbers  its other arguments
    """

    text: str
    kernel: str
    grid: int
    numbers: tuple[Any, ...]


def folding(
    name: str, types: tuple[DType, DType], sizes: Ints, strides: Ints, out_strides: Ints, dims: Ints
) -> Folding:
    """The launch for one layout, with at least one output.

    types        of x and of the output
    strides      of x, in elements
    out_strides  of the output, one for every dimension of x; those of `dims` are not asked
    """
    step, out_step = (dtype.itemsize for dtype in types)
    kept = [
        (sizes[d], out_strides[d] * out_step, strides[d] * step)
        for d in reversed(range(len(sizes)))
        if d not in dims
    ]
    folded = sorted([(sizes[d], 0, strides[d] * step) for d in dims], key=lambda dim: dim[2])
    outputs = math.prod([size for size, _, _ in kept])
    count = math.prod([size for size, _, _ in folded])
    lanes = THREADS if count >= FEW else 1
    numbers = (outputs, count, _walk(kept), _walk(folded))
    text = source(Call(name, *types, lanes))
    return Folding(text, kernel_name(name), blocks(outputs * lanes, THREADS), numbers)


def _walk(dims: Sequence[Dim]) -> bytes:
    """The kernel's `Walk`."""
    unused = MAX_DIMS - len(dims)
    numbers = [len(dims), *[size for size, _, _ in dims], *[1] * unused]
    numbers += [step for _, *steps in dims for step in steps] + [0, 0] * unused
    return bytes((ctypes.c_longlong * len(numbers))(*numbers))


@device_kernel("sum.dim_IntList")
def sum_dim(
    self: TensorImpl, dim: Dims, keepdim: bool = False, *, dtype: DType | None = None
) -> TensorImpl:
    """The sum over some dimensions; of whole numbers in int64."""
    dims = host.reduced_dims(self, dim)
    if dtype is None and (self.dtype.is_integral or self.dtype.kind == "bool"):
        dtype = dtypes.int64
    else:
        self = host.in_dtype(self, dtype)
    host.refuse_barebones("sum_cuda", dtype or self.dtype)
    return fold("sum", self, dims, keepdim, dtype)


@device_kernel("sum")
def sum_all(self: TensorImpl, *, dtype: DType | None = None) -> TensorImpl:
    """The sum of all elements."""
    return sum_dim(self, None, dtype=dtype)


@device_kernel("mean.dim")
def mean_dim(
    self: TensorImpl, dim: Dims, keepdim: bool = False, *, dtype: DType | None = None
) -> TensorImpl:
    """The mean over some dimensions; NaN where there is nothing."""
    if not (dtype or self.dtype).is_floating_point:
        raise NoKernel(f"it has no device kernel for {(dtype or self.dtype).name}")
    return fold("mean", host.in_dtype(self, dtype), host.reduced_dims(self, dim), keepdim)


@device_kernel("mean")
def mean_all(self: TensorImpl, *, dtype: DType | None = None) -> TensorImpl:
    """The mean of all elements."""
    return mean_dim(self, None, dtype=dtype)


def _truth(name: str) -> None:
    def truth(self: TensorImpl, dim: Dims = None, keepdim: bool = False) -> TensorImpl:
        if self.dtype in HEADERS:
            raise NoKernel(f"it has no device kernel for {self.dtype.name}")
        dims = host.reduced_dims(self, dim)
        byte = self.dtype is dtypes.uint8
        return fold(name, self, dims, keepdim, dtypes.uint8 if byte else dtypes.bool_)

    for overload in ("", ".dim", ".dims"):
        device_kernel(f"{name}{overload}")(truth)


_truth("all")
_truth("any")


def _extreme(name: str, of_all: str) -> None:
    def extreme(self: TensorImpl, dim: Dims = (), keepdim: bool = False) -> TensorImpl:
        if not self.numel():
            raise NoKernel("there is nothing to choose from")
        return fold(name, self, host.reduced_dims(self, dim), keepdim)

    device_kernel(name)(extreme)
    device_kernel(of_all)(extreme)


_extreme("amax", "max")
_extreme("amin", "min")
