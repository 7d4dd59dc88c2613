"""Elements between the host and the devices: `_copy_from`, behind every `copy_`, `to` and `cpu`.

Bytes cross only where both sides lie alike and dense; what is strided or of another type is packed
by a kernel on the device's side or by PyTorch on the host's, and crosses then.

Source   aten/src/ATen/native/cuda/Copy.cu  copy_kernel_cuda, copy_requires_temporaries
"""

from typing import Any

import torch

from labkit.core.strides import is_non_overlapping_and_dense
from labkit.cuda.tensor_memory import copy_now
from labkit.ops.cuda import copying
from labkit.ops.fallback import NoKernel, refused
from labkit.torch_device.twins import NAME, Twins
from labkit.torch_shim.devices import Devices


class Copies:
    """The copies of these devices."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices

    def copy_from(
        self, source: torch.Tensor, destination: torch.Tensor, non_blocking: bool = False
    ) -> torch.Tensor:
        """The destination holds the source's elements, broadcast and converted."""
        if not destination.numel():
            return destination
        here, there = source.device, destination.device
        if here.type != NAME:
            self._up(source, destination, non_blocking)
        elif there.type != NAME:
            self._down(source, destination, non_blocking)
        elif here != there or not self._across(source, destination):
            host = torch.empty(source.shape, dtype=source.dtype)
            self._down(source, host, False)
            self._up(host, destination, False)
        return destination

    def item(self, tensor: torch.Tensor) -> Any:
        """The only element, as a Python number."""
        return tensor.cpu().item()

    def _across(self, source: torch.Tensor, destination: torch.Tensor) -> bool:
        """A kernel has been queued; False where there is none."""
        if _bits(source) != _bits(destination):
            return False
        twins = Twins()
        try:
            to, elements = twins.of(destination), twins.of(source.expand(destination.shape))
            with self.devices.serving(destination.device.index), refused():
                return copying.copy("copy_", to, elements)
        except NoKernel:
            return False

    def _up(self, source: torch.Tensor, destination: torch.Tensor, non_blocking: bool) -> None:
        if not (_alike(source, destination) and not _bits(source)[0]):
            packed = torch.empty_like(
                destination, device="cpu", memory_format=torch.contiguous_format
            )
            source = packed.copy_(source)
            non_blocking = False
        if destination.is_conj():
            source = source.conj().resolve_conj()
        if destination.is_neg():
            source = source.neg()
        if _alike(source, destination):
            self._bytes(destination, source, non_blocking)
            return
        arrived = torch.empty(source.shape, dtype=source.dtype, device=destination.device)
        self._bytes(arrived, source, False)
        plain = _without_bits(destination)
        if not self._across(arrived, plain):
            self._through_the_span(source, plain)

    def _through_the_span(self, source: torch.Tensor, destination: torch.Tensor) -> None:
        """Elements that no kernel can place: the storage is read, changed and written."""
        whole = torch.empty(0, dtype=torch.uint8, device=destination.device)
        whole.set_(destination.untyped_storage())
        host = torch.empty(whole.shape, dtype=torch.uint8)
        self._bytes(host, whole, False)
        seen = torch.empty(0, dtype=destination.dtype).set_(
            host.untyped_storage(), destination.storage_offset(), destination.shape,
            destination.stride(),
        )  # fmt: skip
        seen.copy_(source)
        self._bytes(whole, host, False)

    def _down(self, source: torch.Tensor, destination: torch.Tensor, non_blocking: bool) -> None:
        plain = _without_bits(source)
        if _alike(plain, destination) and not any(_bits(source) + _bits(destination)):
            self._bytes(destination, plain, non_blocking)
            return
        if not plain.is_contiguous():
            packed = torch.empty(plain.shape, dtype=plain.dtype, device=plain.device)
            if self._across(plain, packed):
                plain = packed
        if plain.is_contiguous():
            host = torch.empty(plain.shape, dtype=plain.dtype)
            self._bytes(host, plain, False)
        else:
            whole = torch.empty(0, dtype=torch.uint8, device=plain.device)
            whole.set_(plain.untyped_storage())
            bytes_here = torch.empty(whole.shape, dtype=torch.uint8)
            self._bytes(bytes_here, whole, False)
            host = torch.empty(0, dtype=plain.dtype).set_(
                bytes_here.untyped_storage(), plain.storage_offset(), plain.shape, plain.stride()
            )
        if source.is_conj():
            host = host.conj()
        destination.copy_(torch._neg_view(host) if source.is_neg() else host)

    def _bytes(self, to: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        """The bytes of two tensors that lie alike; only pinned memory may be left to its stream."""
        device = to.device if to.device.type == NAME else source.device
        driver = self.devices[device.index].driver
        stream = self.devices.shim.current_stream(device.index)
        host = source if to.device.type == NAME else to
        where, nbytes = (to.data_ptr(), source.data_ptr()), source.numel() * source.itemsize
        if not (non_blocking and host.is_pinned()):
            copy_now(driver, *where, nbytes, stream)
        elif driver.name == "emulator":
            driver.memcpy_async(*where, nbytes, stream, keep=host)  # type: ignore[call-arg]
        else:
            driver.memcpy_async(*where, nbytes, stream)


def _bits(tensor: torch.Tensor) -> tuple[bool, bool]:
    """Whether its elements are to be conjugated, and to be negated, when they are read."""
    return tensor.is_conj(), tensor.is_neg()


def _without_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as they lie in memory."""
    if tensor.is_conj():
        tensor = tensor.conj()
    return torch._neg_view(tensor) if tensor.is_neg() else tensor


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True when the bytes of one are the bytes of the other, in one piece."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and (a.stride() == b.stride() or (a.is_contiguous() and b.is_contiguous()))
        and is_non_overlapping_and_dense(tuple(a.shape), a.stride())
    )
