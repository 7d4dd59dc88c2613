"""Do elements share memory: within one tensor, and between two."""

from enum import Enum

from labkit.core.memory_format import Ints
from labkit.core.strides import is_non_overlapping_and_dense
from labkit.core.tensor_impl import TensorImpl


class MemOverlap(Enum):
    """Whether one tensor shows some byte twice; TOO_HARD is an honest "did not look".

    Source   aten/src/ATen/MemoryOverlap.h  MemOverlap
    """

    NO = 0
    YES = 1
    TOO_HARD = 2


class MemOverlapStatus(Enum):
    """How much memory two tensors share.

    Source   aten/src/ATen/MemoryOverlap.h  MemOverlapStatus
    """

    FULL = 0
    PARTIAL = 1
    NO = 2
    TOO_HARD = 3


def has_internal_overlap(sizes: Ints, strides: Ints) -> MemOverlap:
    """Whether two indices of one tensor are the same memory, as far as a quick look tells.

    Source   aten/src/ATen/MemoryOverlap.cpp  has_internal_overlap
    """
    if is_non_overlapping_and_dense(sizes, strides):
        return MemOverlap.NO
    if any(stride == 0 and size > 1 for size, stride in zip(sizes, strides, strict=True)):
        return MemOverlap.YES
    return MemOverlap.TOO_HARD


def assert_no_internal_overlap(sizes: Ints, strides: Ints) -> None:
    """Return when writing element by element is known to be safe, or not known to be unsafe.

    Raises   RuntimeError   one element is shown more than once
    """
    if has_internal_overlap(sizes, strides) is MemOverlap.YES:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation. "
            f"It has sizes {list(sizes)} and strides {list(strides)}"
        )


def get_overlap_status(a: TensorImpl, b: TensorImpl) -> MemOverlapStatus:
    """How two tensors overlap; only dense ones are compared.

    Source   aten/src/ATen/MemoryOverlap.cpp  get_overlap_status
    """
    if a is b:
        return MemOverlapStatus.FULL
    if a.numel() == 0 or b.numel() == 0:
        return MemOverlapStatus.NO
    if not (
        is_non_overlapping_and_dense(a.sizes, a.strides)
        and is_non_overlapping_and_dense(b.sizes, b.strides)
    ):
        return MemOverlapStatus.TOO_HARD
    if not a.is_alias_of(b):
        return MemOverlapStatus.NO
    a_begin, b_begin = a.storage_offset() * a.itemsize, b.storage_offset() * b.itemsize
    a_end = a_begin + a.numel() * a.itemsize
    b_end = b_begin + b.numel() * b.itemsize
    if (a_begin, a_end) == (b_begin, b_end):
        return MemOverlapStatus.FULL if a.strides == b.strides else MemOverlapStatus.PARTIAL
    if a_begin < b_end and b_begin < a_end:
        return MemOverlapStatus.PARTIAL
    return MemOverlapStatus.NO


def assert_no_partial_overlap(written: TensorImpl, read: TensorImpl) -> None:
    """Return when the two are the same elements, or share none as far as a quick look tells.

    Raises   RuntimeError   they share some memory but are not the same tensor
    """
    _refuse(written, read, {MemOverlapStatus.PARTIAL})


def assert_no_overlap(written: TensorImpl, read: TensorImpl) -> None:
    """Return when the two share no memory, as far as a quick look tells.

    Raises   RuntimeError   they do
    """
    _refuse(written, read, {MemOverlapStatus.PARTIAL, MemOverlapStatus.FULL})


def _refuse(written: TensorImpl, read: TensorImpl, refused: set[MemOverlapStatus]) -> None:
    if get_overlap_status(written, read) in refused:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. Please clone() the tensor before performing the "
            f"operation. Written: sizes {list(written.sizes)}, offset {written.storage_offset()}; "
            f"read: sizes {list(read.sizes)}, offset {read.storage_offset()}"
        )
