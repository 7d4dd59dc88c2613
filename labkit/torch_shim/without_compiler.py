"""The device where no C++ compiler is found: PyTorch's own Python hooks in the place of the shim.

One device, with its memory and every operator, computed by the host and counted; no streams,
events, generators or pinned memory of its own, and no kernels, which want the compiler too.

Source   torch/utils/backend_registration.py  _setup_privateuseone_for_python_backend
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.utils import backend_registration

from labkit.torch_shim.native import Answer, Verb

KEY = "PrivateUse1"
HOST = DispatchKeySet(DispatchKey.CPU)
ONLY_DESCRIBE = (
    "as_strided", "view", "view.dtype", "_reshape_alias", "unfold", "view_as_real",
    "view_as_complex", "set_.source_Storage", "set_.source_Storage_storage_offset",
    "set_.source_Tensor",
)  # fmt: skip
"""Operators whose kernels for the host touch no element: they serve here as they are."""
EXTERNAL_DEVICE, UNSIGNED = 12, 1


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor, for bytes."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("index", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )  # fmt: skip


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_mark = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p)
"""What is called when a storage is gone. It may be no Python, which would run in the middle of an
exception, or of a request for memory: C's `time` writes a number of seconds where `data` was."""


class PythonShim:
    """What `Shim` is, made of Python: PyTorch has one device, and `answers` gives it memory."""

    def __init__(self, answers: Mapping[Verb, Answer]) -> None:
        self._answers = answers
        self._generator = torch.Generator()
        torch._C._acc.register_python_privateuseone_hook(
            backend_registration._DummyPrivateUse1Hook()
        )
        torch._C._acc.register_python_privateuseone_device_guard(
            backend_registration._DummyDeviceGuard()
        )
        self._living: dict[int, tuple[_Managed, Any, int]] = {}
        """Where a description lies -> it, its shape, and the address it begins with."""
        self._library = torch.library.Library("aten", "IMPL")
        self._own = torch.library.Library("labkit_device", "DEF")
        self._own.define(
            "adopt(int address, int nbytes, int[] size, int[] stride, ScalarType dtype, int index)"
            " -> Tensor"
        )
        self._own.impl("adopt", self._adopt, "CompositeExplicitAutograd")
        for name in ONLY_DESCRIBE:
            self._library.impl(name, _described(name), KEY)
        self._library.impl("set_", lambda self: self.set_(_bytes_of(self, 0)), KEY)
        self._library.impl("empty.memory_format", self._empty, KEY)
        self._library.impl("empty_strided", self._empty_strided, KEY)
        self._library.impl("resize_", self._resize, KEY)

    def current_stream(self, index: int) -> int:
        """The only one."""
        return 0

    def current_device(self) -> int:
        """The only one."""
        return 0

    def set_device(self, index: int) -> None:
        """Raises   RuntimeError   another than the only one"""
        if index > 0:
            raise RuntimeError(f"there is no device lab:{index}; there is 1 without a compiler")

    def default_generator(self, index: int) -> torch.Generator:
        """The host's class of generator: PyTorch can be given no other from Python."""
        return self._generator

    def synchronize(self, index: int) -> None:
        """Everything queued on the device has run."""
        self._answers[Verb.SYNCHRONIZE_DEVICE](index, 0, 0, 0)

    def released(self) -> list[tuple[bool, int]]:
        """(False, address) of every storage that nobody holds any more."""
        gone = [
            (place, address)
            for place, (managed, _, address) in self._living.items()
            if (managed.data or 0) != address
        ]
        for place, _ in gone:
            del self._living[place]
        return [(False, address) for _, address in gone if address]

    def _memory(self, nbytes: int) -> torch.Tensor:
        """Fresh bytes of the device, as a tensor that owns them."""
        address = int(self._answers[Verb.ALLOCATE](0, nbytes, 0, 0) or 0) if nbytes else 0
        return self._owned(address, nbytes)

    def _owned(self, address: int, nbytes: int) -> torch.Tensor:
        shape = (ctypes.c_int64 * 1)(nbytes)
        managed = _Managed(
            address, EXTERNAL_DEVICE, 0, 1, UNSIGNED, 8, 1, shape, None, 0, None, _mark
        )
        place = ctypes.addressof(managed)
        self._living[place] = managed, shape, address
        tensor: torch.Tensor = torch._C._from_dlpack(_capsule(place, b"dltensor", None))
        return tensor

    def _empty(
        self, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = None, memory_format: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        like = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format)
        return self._empty_strided(like.shape, like.stride(), dtype=like.dtype)

    def _empty_strided(
        self, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        like = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        flat = self._memory(like.untyped_storage().nbytes())
        return _as(flat, like.dtype, size, stride)

    def _adopt(
        self, address: int, nbytes: int, size: Any, stride: Any, dtype: Any, index: int
    ) -> torch.Tensor:
        return _as(self._owned(address, nbytes), dtype, size, stride)

    def _resize(self, tensor: torch.Tensor, size: Any, *, memory_format: Any = None) -> Any:
        like = torch.empty(size, dtype=tensor.dtype, device="meta")
        if memory_format is not None:
            like = like.contiguous(memory_format=memory_format)
        offset = tensor.storage_offset()
        storage = tensor.untyped_storage()
        needed = offset * tensor.itemsize + like.untyped_storage().nbytes()
        if like.numel() and needed > storage.nbytes():
            grown = self._memory(needed)
            if storage.nbytes():
                self._answers[Verb.COPY](0, grown.data_ptr(), storage.data_ptr(), storage.nbytes())
            storage = grown.untyped_storage()
        return tensor.set_(storage, offset, size, like.stride())


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _described(name: str) -> Any:
    op = _operator(name)
    return lambda *args, **kwargs: op.redispatch(HOST, *args, **kwargs)


def _bytes_of(tensor: torch.Tensor, nbytes: int) -> torch.Tensor:
    return torch.empty(nbytes, dtype=tensor.dtype, device=tensor.device)


def _as(flat: torch.Tensor, dtype: torch.dtype, size: Any, stride: Any) -> torch.Tensor:
    """The bytes under another description."""
    typed = torch.ops.aten.view.dtype.redispatch(HOST, flat, dtype)
    found: torch.Tensor = torch.ops.aten.as_strided.default.redispatch(HOST, typed, size, stride)
    return found
