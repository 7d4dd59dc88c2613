"""One tensor under two descriptions: PyTorch's, and labkit's `TensorImpl` over the same memory.

A kernel of labkit takes twins and knows nothing of PyTorch. What it returns is labkit's memory,
which PyTorch adopts: no byte moves in either direction.
"""

from typing import Any

import torch

from labkit.core import dtype as dtypes
from labkit.core.allocator import DataPtr
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.fallback import NoKernel
from labkit.ops.tensors import copy

NAME = "lab"
DTYPES: dict[torch.dtype, DType] = {
    found: dtype
    for dtype in dtypes.DTYPES.values()
    if isinstance(found := getattr(torch, dtype.name, None), torch.dtype)
}
TORCH_DTYPES = {dtype: found for found, dtype in DTYPES.items()}


class Twins:
    """The tensors of one call: the same tensor has one twin, and the same storage too.

    index  the device they are on; None before the first
    """

    def __init__(self) -> None:
        self.index: int | None = None
        self._twins: dict[int, TensorImpl] = {}
        self._storages: dict[int, Storage] = {}
        self._originals: dict[int, torch.Tensor] = {}

    def of(self, value: Any) -> Any:
        """An argument of PyTorch's as labkit has it.

        Raises   NoKernel       a host tensor with more than one number
                 RuntimeError   tensors on several devices
        """
        if isinstance(value, torch.Tensor):
            return self._of_tensor(value)
        if isinstance(value, list | tuple):
            return [self.of(each) for each in value]
        if isinstance(value, torch.dtype):
            return _labkit_dtype(value)
        return value

    def _of_tensor(self, tensor: torch.Tensor) -> TensorImpl:
        twin = self._twins.get(id(tensor))
        if twin is not None:
            return twin
        if tensor.device.type != NAME:
            return _number(tensor)
        index = tensor.device.index
        if self.index is None:
            self.index = index
        elif index != self.index:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{NAME}:{self.index} and {NAME}:{index}!"
            )
        twin = TensorImpl(
            self._storage(tensor), _labkit_dtype(tensor.dtype), tuple(tensor.shape),
            tensor.stride(), tensor.storage_offset(),
        )  # fmt: skip
        self._twins[id(tensor)] = twin
        self._originals[id(twin)] = tensor
        return twin

    def _storage(self, tensor: torch.Tensor) -> Storage:
        own = tensor.untyped_storage()
        address, nbytes = own.data_ptr(), own.nbytes()
        known = self._storages.get(address)
        if known is None:
            data_ptr = DataPtr(address, Device("cuda", tensor.device.index), tensor)
            known = self._storages[address] = Storage.from_data_ptr(data_ptr, nbytes)
        return known

    def back(self, result: Any) -> Any:
        """A result of labkit's as PyTorch has it: an argument itself, or a tensor of its own."""
        if isinstance(result, TensorImpl):
            original = self._originals.get(id(result))
            return self._adopted(result) if original is None else original
        if isinstance(result, list | tuple):
            return type(result)(self.back(each) for each in result)
        return result

    def _adopted(self, result: TensorImpl) -> torch.Tensor:
        storage = TensorImpl.storage(result)  # a labkit.Tensor's own would be one reference more
        if storage.impl.allocator is None or storage.use_count > 1 or result.storage_offset():
            result = copy.clone(result)  # a view of an argument, say: PyTorch wants its own memory
            storage = TensorImpl.storage(result)
        nbytes, address = storage.nbytes, storage.data_ptr()
        storage.impl.data_ptr.release_context()
        adopted: torch.Tensor = torch.ops.labkit_device.adopt(
            address, nbytes, result.sizes, result.strides, TORCH_DTYPES[result.dtype], self.index
        )
        return adopted


def _labkit_dtype(dtype: torch.dtype) -> DType:
    found = DTYPES.get(dtype)
    if found is None:
        raise NoKernel(f"labkit has no element type {dtype}")
    return found


def _number(tensor: torch.Tensor) -> TensorImpl:
    """A host tensor with one number, which kernels take by its value."""
    if tensor.device.type != "cpu" or tensor.dim():
        raise NoKernel(f"an argument is on {tensor.device}")
    twin = TensorImpl(Storage.allocate(tensor.itemsize, CPU), _labkit_dtype(tensor.dtype), (), ())
    torch.frombuffer(twin.storage().bytes(writable=True), dtype=tensor.dtype)[0] = tensor
    return twin
