"""The kernel of every operator that has none here: the host computes it, counted by operator.

Storages come to the host whole, tensors are described over them as they were, the host's kernel
runs, and what the schema says is written goes back. Random numbers follow from the device's own
generator: the same seed draws the same ones.

Source   aten/src/ATen/native/CPUFallback.cpp  cpu_fallback
Differs  results keep the strides that the host's kernel gave them; views of one storage stay
         views of one storage
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from labkit.core.strides import is_non_overlapping_and_dense
from labkit.ops.fallback import NO_KERNEL
from labkit.torch_device import randomness
from labkit.torch_device.twins import NAME

counts: Counter[str] = Counter()
"""Operator -> how often the host served it."""
OBSERVERS: list[Callable[[str, str], None]] = []
"""Each is told (operator, who computes it) when a kernel is entered, here or on the device."""
refuses = False
"""True while a detour is an error."""


def on_the_host(op: Any, args: Any, kwargs: dict[str, Any], why: str = NO_KERNEL) -> Any:
    """The operator's results, computed on the host, on the device of its arguments.

    why  a clause that says what is missing

    Raises   NotImplementedError   detours are refused; or the host has no kernel either
    """
    name = op._schema.name.partition("::")[2]
    name += f".{op._schema.overload_name}" if op._schema.overload_name else ""
    if refuses:
        raise NotImplementedError(f"{name} would be computed on the host: {why}")
    counts[name] += 1
    for told in OBSERVERS:
        told(op.name(), f"{op.name()}, computed by the host")
    detour = _Detour()
    given = {**dict(zip([a.name for a in op._schema.arguments], args, strict=False)), **kwargs}
    generator = detour.generator_of(given.values())
    host_args, host_kwargs = detour.to_host(list(args)), detour.to_host(kwargs)
    for i, argument in enumerate(op._schema.arguments[: len(args)]):
        if str(argument.type) == "Tensor" and not isinstance(args[i], torch.Tensor):
            host_args[i] = _number(args[i])
    seeded = torch.Tag.nondeterministic_seeded in op.tags
    with randomness.on_the_host(generator) if seeded else contextlib.nullcontext():
        results = op(*host_args, **host_kwargs)
    for argument in op._schema.arguments:
        if argument.is_write and argument.name in given:
            detour.write_back(given[argument.name])
    return detour.to_device(results)


def _number(value: Any) -> torch.Tensor:
    """A Python number in a tensor's place; as a 0-dim tensor it widens no other's type."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


class _Detour:
    """What one call has on both sides."""

    def __init__(self) -> None:
        self.device = torch.device(NAME, torch.lab.current_device())
        self._hosts: dict[int, torch.Tensor] = {}
        self._originals: dict[int, torch.Tensor] = {}
        self._storages: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Address -> the bytes of a storage, there and here."""

    def to_host(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._staged(value) if value.device.type == NAME else value
        if isinstance(value, torch.device) and value.type == NAME:
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type == NAME:
            return None  # the host's default one stands in, in the same state
        if isinstance(value, dict):
            return {name: self.to_host(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.to_host(each) for each in value)
        return value

    def _staged(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._hosts:
            self.device = tensor.device
            host = _described_as(tensor, self._bytes_of(tensor)[1])
            self._hosts[id(tensor)], self._originals[id(host)] = host, tensor
        return self._hosts[id(tensor)]

    def _bytes_of(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._storages or not address:
            there = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._storages[address] = there, there.cpu()
        return self._storages[address]

    def write_back(self, value: Any) -> None:
        if isinstance(value, list | tuple):
            for each in value:
                self.write_back(each)
        if id(value) not in self._hosts:
            return
        host = self._hosts[id(value)]
        there, here = self._bytes_of(value)
        if host.untyped_storage().nbytes() == there.numel() and host.shape == value.shape:
            there.copy_(here)
        else:  # an `out` that has grown
            value.resize_(host.shape)
            if is_non_overlapping_and_dense(tuple(host.shape), host.stride()):
                value.as_strided_(host.shape, host.stride())
            value.copy_(host)

    def to_device(self, result: Any) -> Any:
        if isinstance(result, list | tuple):
            return type(result)(self.to_device(each) for each in result)
        if not isinstance(result, torch.Tensor) or result.device.type != "cpu":
            return result
        if id(result) in self._originals:
            return self._originals[id(result)]
        address = result.untyped_storage().data_ptr()
        for there, here in self._storages.values():
            if address and here.untyped_storage().data_ptr() == address:
                return _described_as(result, there)
        made = torch.empty_like(result, device=self.device)
        if is_non_overlapping_and_dense(tuple(result.shape), result.stride()):
            made = torch.empty_strided(
                result.shape, result.stride(), dtype=result.dtype, device=self.device
            )
        return made.copy_(result)

    def generator_of(self, values: Any) -> torch.Generator:
        """The device's generator among the arguments, else its default one."""
        for value in values:
            if isinstance(value, torch.Generator) and value.device.type == NAME:
                return value
        return torch.lab.default_generators[self.device.index or 0]


def _described_as(tensor: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type, shape, strides and offset over other bytes."""
    described = torch.empty(0, dtype=tensor.dtype, device=memory.device).set_(
        memory.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )
    if tensor.is_conj():
        described = described.conj()
    return torch._neg_view(described) if tensor.is_neg() else described
