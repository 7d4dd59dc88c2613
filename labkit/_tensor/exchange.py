"""One memory seen by several libraries: DLPack, and the CUDA array interface.

Memory of the emulated device has no address that another library could use: it is refused in words.

Source   torch/_tensor.py  Tensor.__dlpack__, __cuda_array_interface__
         torch/utils/dlpack.py  from_dlpack
"""

from typing import Any

import numpy as np

from labkit.core.allocator import DataPtr
from labkit.core.device import Device
from labkit.core.dtype import from_numpy_dtype
from labkit.core.storage import Storage
from labkit.core.strides import storage_nbytes
from labkit.core.tensor_impl import TensorImpl, make
from labkit.ops.tensors import tensor_new

DLPACK_CPU, DLPACK_CUDA = 1, 2


def dlpack_device(self: TensorImpl) -> tuple[int, int]:
    """DLPack's number of the device type, and the device's own."""
    if self.device.type == "cpu":
        return DLPACK_CPU, 0
    return DLPACK_CUDA, self.device.index or 0


def dlpack(self: TensorImpl, **options: Any) -> Any:
    """A capsule that shares the tensor's memory.

    Raises   BufferError   the memory is the emulator's, or the tensor requires a gradient
             TypeError     NumPy has no such element type
    """
    if self.device.type == "cpu":
        return tensor_new.to_numpy(self).__dlpack__(**options)
    return _gpu(self.device).export_dlpack(self, **options)


def _gpu(device: Device) -> Any:
    from labkit import cuda

    if device.type != "cuda":
        raise BufferError(f"memory of device type {device.type!r} is not shared by DLPack here")
    driver: Any = cuda.current_driver()
    if driver.name == "emulator":
        raise BufferError(
            f"memory on {device} is the emulator's, and no other library can see it: use "
            "Tensor.cpu() to copy the tensor to host memory first"
        )
    return driver


def cuda_array_interface(self: TensorImpl) -> dict[str, Any]:
    """Where the tensor lies on a GPU, for CuPy, Numba and PyTorch.

    Raises   AttributeError   it is not on a GPU
    """
    if self.device.type == "cpu":
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor type; use Tensor.cuda() first"
        )
    try:
        _gpu(self.device)
    except BufferError as refusal:
        raise AttributeError(str(refusal)) from None
    if self.dtype.numpy is None:
        raise AttributeError(f"no array interface has the values of {self.dtype}")
    return {
        "shape": self.sizes,
        "strides": tuple([stride * self.itemsize for stride in self.strides]),
        "typestr": self.dtype.numpy.str,
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 2,
    }


def from_dlpack(source: Any) -> TensorImpl:
    """The memory of anything that speaks DLPack, as a tensor.

    Raises   BufferError   memory of a GPU, and the emulator serves here
    """
    if isinstance(source, TensorImpl):
        return source.alias(source.sizes, source.strides, source.storage_offset())
    kind, index = (int(number) for number in source.__dlpack_device__())
    if kind != DLPACK_CUDA:
        return tensor_new.from_numpy(np.from_dlpack(source))
    device = Device("cuda", index)
    array = _gpu(device).import_dlpack(source)
    described = array.__cuda_array_interface__
    dtype = from_numpy_dtype(np.dtype(described["typestr"]))
    steps = [stride // dtype.itemsize for stride in array.strides]
    shape, strides = tuple(described["shape"]), tuple(steps)
    held = DataPtr(described["data"][0], device, array, lambda context: None)
    nbytes = storage_nbytes(shape, strides, dtype.itemsize)
    return make(Storage.from_data_ptr(held, nbytes), dtype, shape, strides)
