"""From a tensor to numbers a kernel can compute with, and from the numbers to a new tensor."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import tensor_impl
from labkit.core.dtype import DType
from labkit.core.formats import encode
from labkit.core.memory_format import Ints
from labkit.core.memory_overlap import (
    assert_no_internal_overlap,
    assert_no_overlap,
    assert_no_partial_overlap,
)
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy

Array = NDArray[Any]


def wide(self: TensorImpl) -> Array:
    """The values; those of two-byte floats as float32, which is what sums of them are kept in."""
    found = copy.values(self)
    return found.astype(np.float32) if found.dtype == np.float16 else found


def new_tensor(values: Any, dtype: DType, strides: Ints | None = None) -> TensorImpl:
    """A tensor with these values, rounded to the element type.

    strides  elements; None for contiguous
    """
    return new_raw(encode(np.asarray(values), dtype), dtype, strides)


def adopted(values: Any, dtype: DType) -> TensorImpl:
    """A contiguous tensor that takes over a fresh array's memory, where type and layout allow.

    values   nobody else's: the caller computed them and forgets them
    """
    values = np.asarray(values)
    flags = values.flags
    if flags.owndata and flags.c_contiguous and values.dtype == dtype.numpy:
        sizes = values.shape
        return tensor_impl.from_array(values, dtype, sizes)
    return new_tensor(values, dtype)


def new_raw(raw: Array, dtype: DType, strides: Ints | None = None) -> TensorImpl:
    """A tensor with these raw elements, moved unread."""
    if strides is None:
        result = tensor_impl.empty(raw.shape, dtype)
    else:
        result = tensor_impl.empty_strided(raw.shape, strides, dtype)
    if raw.size:
        result.raw(writable=True)[...] = raw
    return result


def assert_writable(out: TensorImpl, read: Iterable[Any], same: Any = None) -> None:
    """Pass when writing to `out` element by element spoils nothing that is read meanwhile.

    read   arguments of the call; no tensor among them, or in a list of them, shares memory with
           `out`, except
    same   the one that may be `out` itself

    Raises   RuntimeError   `out` shows an element twice, or shares memory with what is read
    """
    assert_no_internal_overlap(out.sizes, out.strides)
    for each in read:
        if isinstance(each, list | tuple):
            assert_writable(out, each, same)
        elif isinstance(each, TensorImpl):
            check = assert_no_partial_overlap if each is same else assert_no_overlap
            check(out, each)


def in_place(functional: Callable[..., TensorImpl]) -> Callable[..., TensorImpl]:
    """The operator that writes into its first argument, from the one that does not."""

    def write(self: TensorImpl, *args: Any, **options: Any) -> TensorImpl:
        assert_writable(self, args)
        return overwrite(self, functional(self, *args, **options))

    write.__doc__ = f"`{functional.__name__}`, written into `self`."
    return write


def overwrite(self: TensorImpl, result: TensorImpl) -> TensorImpl:
    """`self` holds the elements of a result of its own shape and type; one more version.

    Raises   RuntimeError   `self` shows an element twice
    """
    assert_no_internal_overlap(self.sizes, self.strides)
    if result.numel():
        copy.store(self, result.raw())
    self.bump_version()
    return self


def refuse_unless(name: str, dtype: DType, kinds: Sequence[str]) -> None:
    """Pass when the element type is of one of the kinds.

    Raises   NotImplementedError   names the operator and the type
    """
    if dtype.kind not in kinds:
        raise NotImplementedError(f"{name!r} not implemented for {dtype.name}")


def refuse_mixed(name: str, *tensors: TensorImpl | None) -> None:
    """Pass when all tensors have one element type.

    Raises   RuntimeError   names the operator and the types
    """
    dtypes = [tensor.dtype for tensor in tensors if tensor is not None]
    if any(dtype is not dtypes[0] for dtype in dtypes):
        raise RuntimeError(
            f"{name} expects tensors of one dtype, got {', '.join(each.name for each in dtypes)}"
        )
