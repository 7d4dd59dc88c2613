"""Resizing what an operator writes into.

Source   aten/src/ATen/native/Resize.cpp
"""

import warnings

from labkit.core.callers import level_outside_the_lab
from labkit.core.memory_format import Ints, contiguous_strides
from labkit.core.strides import storage_nbytes
from labkit.core.tensor_impl import TensorImpl


def resize_(self: TensorImpl, sizes: Ints, strides: Ints | None = None) -> TensorImpl:
    """The tensor has these sizes; its storage grows when it is too small, and never shrinks.

    strides  elements; None for contiguous

    Raises   RuntimeError   the storage has to grow and is not this tensor's to replace
    Source   aten/src/ATen/native/Resize.cpp  resize_impl_cpu_
    """
    chosen = contiguous_strides(sizes) if strides is None else strides
    needed = self.storage_offset() * self.itemsize
    needed += storage_nbytes(sizes, chosen, self.itemsize)
    storage = TensorImpl.storage(self)
    if needed > storage.nbytes and 0 not in sizes:
        storage.resize_(needed)
    self.set_sizes_and_strides(sizes, chosen)
    return self


def resize_output(out: TensorImpl, sizes: Ints, strides: Ints | None = None) -> None:
    """`out` has these sizes; a UserWarning when it held elements of another shape.

    Source   aten/src/ATen/native/Resize.cpp  resize_output
    """
    if out.sizes == sizes:
        return
    if out.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(out.sizes)}, which does not match the required output shape {list(sizes)}.",
            UserWarning,
            stacklevel=level_outside_the_lab(),
        )
    resize_(out, sizes, strides)
