"""What PyTorch's dispatcher was asked for in a piece of code, asked of labkit's again.

Every call of an operator below autograd is written down with its arguments as they were before and
its results as they were after; `differences` gives labkit the same arguments.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from labkit.conformance.autograd import opinfo
from labkit.conformance.sides import LABKIT_DTYPES
from labkit.core import device, tensor_impl
from labkit.core.memory_format import MemoryFormat
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.dispatcher import dispatcher
from labkit.ops.tensors import copy

TOLERANCE = {"float64": 1e-10, "complex128": 1e-10, "float32": 2e-5, "complex64": 2e-5,
             "float16": 4e-3, "bfloat16": 3e-2}  # fmt: skip


@dataclass
class Call:
    name: str
    args: tuple
    kwargs: dict
    results: Any
    error: Exception | None
    written: list


def snapshot(value):
    """The tensor with its strides, in a storage that nobody writes."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    storage = value.untyped_storage().clone()
    copied = torch.empty(0, dtype=value.dtype)
    return copied.set_(storage, value.storage_offset(), value.size(), value.stride())


class Recorder(TorchDispatchMode):
    """Writes down every call of the operators with these names (all, when None)."""

    def __init__(self, names=None):
        super().__init__()
        self.names = names
        self.calls = []
        self._asleep = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::")
        if self._asleep or (self.names is not None and name not in self.names):
            return func(*args, **kwargs)
        before = tree_map(snapshot, (args, kwargs))
        try:
            results = func(*args, **kwargs)
        except Exception as error:
            self.calls.append(Call(name, *before, None, error, []))
            raise
        written = [a for a, s in zip(args, func._schema.arguments, strict=False)
                   if s.alias_info is not None and s.alias_info.is_write]  # fmt: skip
        after = tree_map(snapshot, (results, written))
        self.calls.append(Call(name, *before, after[0], None, after[1]))
        return results


def to_lab(value):
    """The same argument on labkit's side, strides and storage included."""
    if isinstance(value, torch.Tensor):
        raw = np.frombuffer(bytes(value.untyped_storage()), np.uint8)
        storage = Storage.allocate(raw.size, device.CPU)
        if raw.size:
            storage.bytes(True)[: raw.size] = raw
        return tensor_impl.make(
            storage, LABKIT_DTYPES[value.dtype], tuple(value.size()), tuple(value.stride()),
            value.storage_offset(),
        )  # fmt: skip
    if isinstance(value, torch.dtype):
        return LABKIT_DTYPES[value]
    if isinstance(value, torch.device):
        return device.device(str(value))
    if isinstance(value, torch.memory_format):
        return MemoryFormat[str(value).removeprefix("torch.")]
    return value


def numbers(value):
    """A torch tensor's elements as an array of a type NumPy has."""
    value = value.detach().resolve_conj().resolve_neg()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def difference(lab, reference, strides=True):
    """What labkit's result is otherwise; "" when it is the same."""
    if isinstance(reference, torch.Tensor):
        if not isinstance(lab, TensorImpl):
            return f"{lab!r} for a tensor"
        if lab.dtype is not LABKIT_DTYPES[reference.dtype]:
            return f"dtype {lab.dtype} for {reference.dtype}"
        if lab.sizes != tuple(reference.shape):
            return f"sizes {lab.sizes} for {tuple(reference.shape)}"
        if strides and lab.strides != tuple(reference.stride()):
            return f"strides {lab.strides} for {reference.stride()} at sizes {lab.sizes}"
        close = TOLERANCE.get(lab.dtype.name, 0)
        found, wanted = copy.values(lab), numbers(reference)
        if not np.allclose(found, wanted, rtol=close, atol=close, equal_nan=True):
            return f"values {found.ravel()[:6]} for {wanted.ravel()[:6]} at sizes {lab.sizes}"
        return ""
    if isinstance(reference, list | tuple):
        if not isinstance(lab, list | tuple) or len(lab) != len(reference):
            return f"{lab!r} for {len(reference)} results"
        pairs = zip(lab, reference, strict=True)
        return next((text for a, b in pairs if (text := difference(a, b, strides))), "")
    return "" if lab == reference else f"{lab!r} for {reference!r}"


def replay(call, strides=True):
    """What labkit makes of the call otherwise: "" for nothing, None without such an operator."""
    try:
        operator = dispatcher().find(f"aten::{call.name}")
    except KeyError:
        return None
    args, kwargs = tree_map(to_lab, (call.args, call.kwargs))
    try:
        results = operator(*args, **kwargs)
    except Exception as error:
        if call.error is not None and isinstance(error, type(call.error)):
            return ""
        return f"{type(error).__name__}: {error}"
    if call.error is not None:
        return f"no error for {type(call.error).__name__}: {call.error}"
    found = difference(results, call.results, strides)
    if found or not call.written:
        return found
    writes = [a for a, s in zip(args, operator.schema.arguments, strict=False) if s.is_write]
    return difference(writes, call.written, strides)


def samples(name, dtype=torch.float64, limit=None):
    """Sample inputs of PyTorch's own tests for an operator, from all over their list."""
    from torch.testing._internal.common_methods_invocations import op_db

    infos = [info for info in op_db if f"{info.name}.{info.variant_test_name}".strip(".") == name]
    for info in infos:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        opinfo.seed_samples(0)
        wants = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        every = list(opinfo.samples_of(info, dtype, requires_grad=wants))
        count = len(every) if limit is None else min(limit, len(every))
        for place in np.linspace(0, len(every) - 1, count, dtype=int):
            yield info, every[place]


def tensors_in(results):
    flat = [results] if isinstance(results, torch.Tensor) else list(results)
    return [each for each in flat if isinstance(each, torch.Tensor) and each.requires_grad]


def calls_of(name, dtype=torch.float64, backward=True, limit=None, names=None):
    """The operator calls of an operator's samples, forward and, from random gradients, backward."""
    for info, sample in samples(name, dtype, limit):
        recorder = Recorder(names)
        with recorder, contextlib.suppress(Exception):
            results = info.op(sample.input, *sample.args, **sample.kwargs)
            wanting = tensors_in(results) if backward else []
            for each in wanting:
                torch.default_generator.manual_seed(1)
                each.backward(torch.randn_like(each), retain_graph=True)
        yield from recorder.calls
