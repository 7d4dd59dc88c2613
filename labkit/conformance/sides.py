"""The same step on a labkit tensor and on a torch tensor, and what can be observed afterwards."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

import labkit
from labkit._tensor import Tensor
from labkit.core import dtype as dtypes
from labkit.core.allocator import DataPtr
from labkit.core.device import CPU
from labkit.core.dtype import DTYPES, DType
from labkit.core.memory_format import MemoryFormat
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl

TORCH_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
LABKIT_DTYPES: dict[torch.dtype, DType] = {TORCH_DTYPES[n]: value for n, value in DTYPES.items()}
_TORCH_FORMATS = {each: getattr(torch, each.name) for each in MemoryFormat}
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
PATTERN = 251
"""Elements of a new storage count up from 0 and start again here; small types hold them exactly
or round them alike."""


@dataclass(frozen=True)
class Fresh:
    """A tensor argument of its own: counting up, in a shape and an element type."""

    sizes: tuple[int, ...]
    dtype: DType

    def __repr__(self) -> str:
        count = int(np.prod(self.sizes))
        return f"(m.arange({count}) % {modulus(self.dtype)}).to(m.{self.dtype.name})" + (
            f".reshape({self.sizes})"
        )


def modulus(dtype: DType) -> int:
    """Where the counting of new elements starts again, so that every value fits the type."""
    return 2 if dtype.kind == "bool" else PATTERN if (
        dtype.is_inexact or dtype.itemsize > 1
    ) else 101  # fmt: skip


@lru_cache(maxsize=64)
def _bytes(dtype: DType, elements: int) -> bytes:
    counting = (torch.arange(elements) % modulus(dtype)).to(TORCH_DTYPES[dtype.name])
    return bytes(counting.view(torch.uint8).numpy().tobytes())


def pair(elements: int, dtype: DType) -> tuple[torch.Tensor, Tensor]:
    """One new tensor on each side, with equal bytes in a storage of its own."""
    if elements == 0:
        empty = torch.empty(0, dtype=TORCH_DTYPES[dtype.name])
        return empty, labkit.empty(0, dtype=dtype)
    data = _bytes(dtype, max(elements, 4096))[: elements * dtype.itemsize]
    first = torch.frombuffer(bytearray(data), dtype=TORCH_DTYPES[dtype.name])
    array = np.frombuffer(bytearray(data), np.uint8)
    data_ptr = DataPtr(array.ctypes.data, CPU, array, lambda context: None)
    storage = Storage.from_data_ptr(data_ptr, len(data))
    return first, Tensor(TensorImpl(storage, dtype, (elements,), (1,)))


@dataclass(frozen=True)
class Step:
    """A method and its arguments, in words that mean the same on both sides.

    Arguments may be `DType`s, `MemoryFormat`s and `Fresh` tensors; property access has no
    arguments at all (`arguments` is None).
    """

    name: str
    arguments: tuple[Any, ...] | None = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        if self.arguments is None:
            return f"x.{self.name}"
        if self.name == "slice":
            return f"aten_slice(x, {', '.join(map(text_of, self.arguments))})"
        if self.name in ("view_as_real", "view_as_complex"):
            return f"m.{self.name}(x)"
        given = [text_of(each) for each in self.arguments]
        given += [f"{name}={text_of(value)}" for name, value in self.options]
        return f"x.{self.name}({', '.join(given)})"


def program(name: str, lines: Sequence[str], found: str) -> str:
    """The lines as a program for either module, and what the two answered."""
    head = [f"# {name}: run with `import torch as m`, and with `import labkit as m`"]
    if any("numpy." in line for line in lines):
        head.append("import numpy")
    if any("aten_slice" in line for line in lines):
        head.append("aten_slice = getattr(m.Tensor, 'slice', None) or m.ops.aten.slice")
    return "\n".join([*[f"  {line}" for line in [*head, *lines]], found])


def text_of(value: Any) -> str:
    """An argument as it would be written with `m` being either module."""
    if isinstance(value, DType | MemoryFormat):
        return f"m.{value.name}"
    return re.sub(r"Fresh\(.*\)", repr, repr(value))


def on_torch(value: Any) -> Any:
    """An argument as torch takes it."""
    if isinstance(value, DType):
        return TORCH_DTYPES[value.name]
    if isinstance(value, MemoryFormat):
        return _TORCH_FORMATS[value]
    if isinstance(value, Fresh):
        return pair(int(np.prod(value.sizes)), value.dtype)[0].reshape(value.sizes)
    return value


def on_labkit(value: Any) -> Any:
    """An argument as labkit takes it."""
    if isinstance(value, Fresh):
        return pair(int(np.prod(value.sizes)), value.dtype)[1].reshape(value.sizes)
    return value


def run_torch(tensor: torch.Tensor, step: Step) -> Any:
    """What torch answers, or the exception it raises."""
    try:
        if step.arguments is None:
            return getattr(tensor, step.name)
        arguments = [on_torch(each) for each in step.arguments]
        if step.name == "slice":
            return torch.ops.aten.slice.Tensor(tensor, *arguments)
        if step.name in ("view_as_real", "view_as_complex"):
            return getattr(torch, step.name)(tensor)
        options = {name: on_torch(value) for name, value in step.options}
        return getattr(tensor, step.name)(*arguments, **options)
    except Exception as error:
        return error


def run_labkit(tensor: Tensor, step: Step) -> Any:
    """What labkit answers, or the exception it raises."""
    try:
        if step.arguments is None:
            return getattr(tensor, step.name)
        arguments = [on_labkit(each) for each in step.arguments]
        return getattr(tensor, step.name)(*arguments, **dict(step.options))
    except Exception as error:
        return error


def describe_torch(tensor: torch.Tensor, root: torch.Tensor) -> tuple[Any, ...]:
    """Everything observable about a tensor but its values.

    root  the first tensor of the program: aliasing is "same storage as it", and the address is
          counted from its storage
    """
    storage = tensor.untyped_storage()
    aliases = storage._cdata == root.untyped_storage()._cdata
    empty = tensor.numel() == 0
    return (
        LABKIT_DTYPES[tensor.dtype],
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.is_contiguous(),
        tensor.is_contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else None,
        tensor._version,
        tensor._is_view(),
        aliases,
        tensor.data_ptr() == 0 if empty else tensor.data_ptr() - storage.data_ptr(),
        storage.nbytes(),
    )


def describe_labkit(tensor: Tensor, root: Tensor) -> tuple[Any, ...]:
    """The same observations as `describe_torch`, in the same order."""
    impl = tensor.impl
    storage = TensorImpl.storage(impl)
    return (
        impl.dtype,
        impl.sizes,
        impl.strides,
        impl.storage_offset(),
        impl.is_contiguous(),
        impl.is_contiguous(MemoryFormat.channels_last) if impl.dim() == 4 else None,
        impl.version,
        impl.base is not None,
        impl.is_alias_of(root.impl),
        impl.data_ptr() == 0 if impl.numel() == 0 else impl.data_ptr() - storage.data_ptr(),
        storage.nbytes,
    )


OBSERVED = (
    "dtype", "shape", "strides", "offset", "contiguous", "channels_last", "version", "is view",
    "aliases the first tensor", "address in storage", "storage bytes",
)  # fmt: skip


def values_torch(tensor: torch.Tensor) -> bytes:
    """The bytes of the elements, in row-major order."""
    size = tensor.element_size()
    if size == 16:
        return bytes(tensor.numpy().tobytes())
    return bytes(tensor.view(_SAME_SIZE[size]).numpy().tobytes())


def values_labkit(tensor: Tensor) -> bytes:
    """The bytes of the elements, in row-major order."""
    return tensor.impl.raw().tobytes()


def difference(theirs: Sequence[Any], ours: Sequence[Any]) -> str:
    """The observations that differ, one per line."""
    lines = [
        f"  {name}: torch {a}, labkit {b}"
        for name, a, b in zip(OBSERVED, theirs, ours, strict=True)
        if a != b
    ]
    return "\n".join(lines)


def as_tuple(result: Any) -> tuple[Any, ...]:
    """The tensors of a result, whether one or several."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def outcome(result: Any) -> str:
    """A result in a few words."""
    if isinstance(result, Exception):
        return f"raises {type(result).__name__}: {str(result).splitlines()[0][:200]}"
    if result is None:
        return "done"
    return ", ".join(str(tuple(each.shape)) for each in as_tuple(result))


class Different(Exception):
    """The two sides disagree; the text says on what."""


def both_refuse(theirs: Any, ours: Any) -> bool:
    """True when both are errors of one class, False when both are as many answers.

    Raises   Different   neither
    """
    refused = [type(each) for each in (theirs, ours) if isinstance(each, Exception)]
    if len(refused) == 2 and refused[0] is refused[1]:
        return True
    if refused or len(as_tuple(theirs)) != len(as_tuple(ours)):
        raise Different(f"  torch: {outcome(theirs)}\n  labkit: {outcome(ours)}")
    return False


def expect_same(theirs: torch.Tensor, ours: Tensor, roots: tuple[torch.Tensor, Tensor]) -> None:
    """Raise `Different` unless all that can be observed but the values is equal."""
    described = describe_torch(theirs, roots[0]), describe_labkit(ours, roots[1])
    if described[0] != described[1]:
        raise Different(difference(*described))


def expect_same_values(theirs: torch.Tensor, ours: Tensor, what: str = "values") -> None:
    """Raise `Different` unless every byte of the elements is equal."""
    if values_torch(theirs) != values_labkit(ours):
        raise Different(f"  {what}: torch {theirs.tolist()}\n  {what}: labkit {ours.tolist()}")


def numeric_dtypes() -> Iterator[DType]:
    """The element types with arithmetic in PyTorch on the host."""
    no_kernels = {"uint16", "uint32", "uint64", "complex32"}
    for dtype in dtypes.DTYPES.values():
        if dtype.name not in no_kernels and dtype.kind != "bool":
            yield dtype
