"""What `show` reads off a tensor: metadata and memory, of torch, labkit and NumPy alike.

A tensor of torch's is there only when torch is loaded, and a picture without one does not load it.
"""

import ctypes
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import formats
from labkit.core.dtype import DTYPES
from labkit.core.tensor_impl import TensorImpl

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Memory:
    """The bytes a tensor lies in.

    owner      what tells two memories apart that have no address
    address    of the first byte; 0 where there is none
    read       the bytes, copied to the host; None where there are none to read
    handle     kept by whoever compares memories over time, so that no address is used twice
    """

    owner: Hashable
    address: int
    nbytes: int
    use_count: int | None
    note: str
    read: Callable[[], Bytes] | None
    handle: Any = field(compare=False, repr=False)


@dataclass(frozen=True)
class View:
    """One tensor's metadata: sizes, strides and offset in elements.

    identity   the same for two names of one tensor that are read at one moment
    """

    dtype: str
    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    version: int | None
    memory: Memory
    identity: int | None = None


def is_tensor(value: object) -> bool:
    """Whether `read_view` has a reader for it (it may still refuse the layout)."""
    return isinstance(value, (np.ndarray, TensorImpl)) or _is_torchs(value)


def _is_torchs(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def read_view(tensor: Any, called: str) -> View:
    """The metadata and memory of a torch tensor, a labkit tensor or a NumPy array.

    called   how error messages name it

    Raises   TypeError    not a tensor
             ValueError   a tensor without strides or storage: sparse, nested, opaque
    """
    if _is_torchs(tensor):
        return replace(_read_torch(tensor, called), identity=id(tensor))
    if isinstance(tensor, np.ndarray):
        return replace(_read_numpy(tensor, called), identity=id(tensor))
    if isinstance(tensor, TensorImpl):
        return replace(_read_labkit(tensor), identity=id(tensor))
    shown = repr(tensor)
    raise TypeError(
        f"{called} is {type(tensor).__name__} {shown[:60]}, which has no strides: "
        "show a torch tensor, a labkit tensor or a NumPy array (torch.tensor(...) makes one)"
    )


def _read_torch(tensor: Any, called: str) -> View:
    import torch  # late: see above

    if tensor.layout is not torch.strided or tensor.is_nested:
        kind = "nested tensor" if tensor.is_nested else f"tensor with layout {tensor.layout}"
        raise ValueError(
            f"{called} is a {kind}: it has no strides over one storage to show; "
            "show its parts, such as .values(), .indices() or .to_dense()"
        )
    try:
        storage = tensor.untyped_storage()
        sizes, strides, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        sizes_, strides_ = tuple(map(int, sizes)), tuple(map(int, strides))
    except (NotImplementedError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{called} has no storage that can be shown: {reason}") from error
    meta = storage.device.type == "meta"
    notes = [
        "on meta: addresses, but no bytes" if meta else "",
        f"on {tensor.device}" if tensor.device.type not in ("cpu", "meta") else "",
        "conjugated when read (conj bit set)" if tensor.is_conj() else "",
        "negated when read (neg bit set)" if tensor.is_neg() else "",
    ]

    def read() -> Bytes:
        with torch.no_grad():
            flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            copied: Bytes = flat.cpu().numpy().copy()
        return copied

    memory = Memory(
        owner=("torch", storage._cdata),
        address=0 if meta else storage.data_ptr(),
        nbytes=storage.nbytes(),
        use_count=torch._C._storage_Use_Count(storage._cdata) - 1,  # less our handle
        note=", ".join(filter(None, notes)),
        read=None if meta else read,
        handle=storage,
    )
    name = str(tensor.dtype).removeprefix("torch.")
    version = None if tensor.is_inference() else tensor._version
    return View(name, tensor.element_size(), sizes_, strides_, int(offset), version, memory)


def _read_numpy(array: NDArray[Any], called: str) -> View:
    itemsize = array.dtype.itemsize
    if array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise ValueError(
            f"{called} is an array of dtype {array.dtype}: only numbers in the machine's own "
            "byte order can be shown"
        )
    if any(stride % itemsize for stride in array.strides):
        raise ValueError(
            f"{called} has strides of {array.strides} bytes, not all multiples of its "
            f"{itemsize}-byte elements: torch could not describe it, and neither can this view"
        )
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    first, last = np.lib.array_utils.byte_bounds(owner)

    def read() -> Bytes:  # by address: the owner may hold its elements in any order
        return np.frombuffer(ctypes.string_at(first, last - first), np.uint8)

    memory = Memory(
        owner=("numpy", id(owner)),
        address=first,
        nbytes=last - first,
        use_count=None,
        note="a NumPy array's memory",
        read=read,
        handle=owner,
    )
    strides = tuple(stride // itemsize for stride in array.strides)
    behind = array.__array_interface__["data"][0] - first
    if behind % itemsize:
        raise ValueError(f"{called} begins {behind} bytes into its memory, between elements")
    name = array.dtype.name
    return View(name, itemsize, array.shape, strides, behind // itemsize, None, memory)


def _read_labkit(impl: TensorImpl) -> View:
    storage = TensorImpl.storage(impl)  # its own reference: asking the face counts one more
    host = impl.device.type == "cpu"
    memory = Memory(
        owner=("labkit", id(getattr(storage, "impl", storage))),
        address=storage.const_data_ptr(),
        nbytes=storage.nbytes,
        use_count=storage.use_count,
        note="" if host else f"on {impl.device}",
        read=(lambda: storage.bytes().copy()) if host else None,
        handle=getattr(storage, "impl", storage),
    )
    return View(
        impl.dtype.name, impl.dtype.itemsize, tuple(impl.sizes), tuple(impl.strides),
        impl.storage_offset(), impl.version, memory,
    )  # fmt: skip


def decode(raw: Bytes, dtype: str) -> NDArray[Any] | list[str] | None:
    """The elements those bytes hold: real numbers as an array, complex ones as text.

    None for a dtype whose bytes are not elements by themselves (quantized, sub-byte).
    """
    kind = DTYPES.get(dtype)
    if kind is None:
        return None
    whole = raw[: len(raw) // kind.itemsize * kind.itemsize]
    elements = formats.decode(whole.view(kind.raw), kind)
    if kind.is_complex:
        return [f"{number.real:.3g}{number.imag:+.3g}j" for number in elements.tolist()]
    return elements
