"""The Python front door: `Tensor`, a `TensorImpl` with PyTorch's methods.

What Python's arguments need is written here; every other method is made from an operator's schema
(`labkit._tensor.bindings`). All of them call operators through the dispatcher.

Source   torch/_tensor.py
"""

from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from labkit import autograd
from labkit._tensor.arguments import impl_of, integer, integers
from labkit._tensor.bindings import install_methods
from labkit._tensor.conversions import install_conversions
from labkit._tensor.devices import ready
from labkit._tensor.operators import install_operators
from labkit._tensor.saving import Saving
from labkit._tensor.values_out import ValuesOut
from labkit.core import tensor_impl
from labkit.core.device import Device
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat
from labkit.core.missing import missing
from labkit.core.promotion import get_default_dtype, result_type
from labkit.core.storage import Storage
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl, set_python_class
from labkit.ops.aten import aten
from labkit.ops.indexing import indexing
from labkit.ops.pointwise import arithmetic
from labkit.ops.tensors import moving, tensor_new
from labkit.ops.tensors.tensor_str import tensor_str

contiguous_format = MemoryFormat.contiguous_format
preserve_format = MemoryFormat.preserve_format


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple that also counts its elements.

    Source   torch/csrc/Size.cpp
    """

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of these sizes has."""
        total = 1
        for size in self:
            total *= size
        return total

    def __repr__(self) -> str:
        return f"labkit.Size({list(self)})"


class Tensor(ValuesOut, Saving):
    """Elements of one type in a storage, seen through sizes, strides and an offset.

    Every tensor the lab makes is of this class: it is a `TensorImpl` with PyTorch's methods.
    """

    __slots__ = ()
    __hash__ = object.__hash__  # by identity, although == compares elements
    __array_priority__ = 1000  # array + tensor asks the tensor

    def __new__(cls, *data: Any) -> "Tensor":
        """A `TensorImpl` itself, which from now on has PyTorch's methods.

        Of a list it makes a tensor of the default floating type, of sizes one that is not filled,
        as PyTorch's oldest constructor does; `labkit.tensor` and `labkit.empty` say it better.

        Source   torch/csrc/utils/tensor_new.cpp  base_tensor_ctor
        """
        impl: Any = data[0] if len(data) == 1 else None
        if not isinstance(impl, TensorImpl):
            dtype = get_default_dtype()
            if isinstance(impl, list | tuple | np.ndarray) and not isinstance(impl, Size):
                impl = tensor_new.tensor(np.asarray(impl).tolist(), dtype)
            else:
                sizes = impl if isinstance(impl, Size) else integers(data, "Tensor")
                impl = tensor_impl.empty(tuple(sizes) if data else (0,), dtype)
        impl.__class__ = cls
        return cast(Tensor, impl)

    def __init__(self, *data: Any) -> None:
        """Nothing: the object is complete."""

    if not TYPE_CHECKING:  # a type checker should say what is not there

        def __getattr__(self, name: str) -> NoReturn:
            """Asked for what is not there: an error that says where it is to be had."""
            raise missing("'Tensor' object", name)

    @property
    def impl(self) -> TensorImpl:
        """The tensor itself: the part of it that PyTorch calls its TensorImpl."""
        return self

    # What it is

    @property
    def shape(self) -> Size:
        """Elements per dimension."""
        return Size(self.sizes)

    @property
    def ndim(self) -> int:
        """How many dimensions."""
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, as if each were stored once."""
        return self.numel() * self.itemsize

    @property
    def is_cuda(self) -> bool:
        """True on a CUDA device, real or emulated."""
        return self.device.type == "cuda"

    @property
    def _version(self) -> int:
        """How many in-place writes this tensor and its views have seen.

        Raises   RuntimeError   it was made in inference mode
        """
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return self.version

    @property
    def _base(self) -> "Tensor | None":
        """The tensor this one is a view of."""
        return cast("Tensor | None", self.base)

    def _is_view(self) -> bool:
        return self.base is not None

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or the size of one dimension."""
        return self.shape if dim is None else self.sizes[self._dim(dim)]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or the stride of one dimension."""
        return self.strides if dim is None else self.strides[self._dim(dim)]

    def _dim(self, dim: Any) -> int:
        return maybe_wrap_dim(integer(dim, "size"), self.dim(), wrap_scalar=False)

    def nelement(self) -> int:
        """How many elements."""
        return self.numel()

    def new_tensor(self, data: Any, *, dtype: DType | None = None) -> "Tensor":
        """A copy of the numbers in this tensor's element type, on its device."""
        made = Tensor(tensor_new.tensor(data, dtype or self.dtype))
        return made.to(self.device)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.itemsize

    def is_floating_point(self) -> bool:
        """True for the real floating types."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """True for complex types."""
        return self.dtype.is_complex

    def storage(self) -> Storage:
        """One more counted reference to the bytes."""
        return Storage(super().storage().impl)

    untyped_storage = storage

    def __format__(self, spec: str) -> str:
        """A 0-dim tensor as its number, any other as its text.

        Raises   TypeError   a format for more than one element

        Source   torch/_tensor.py  Tensor.__format__
        """
        return object.__format__(self, spec) if self.sizes else format(self.item(), spec)

    def __repr__(self) -> str:
        node = self.grad_fn
        if node is not None:
            return tensor_str(self, also=f"grad_fn=<{node.name()}>")
        return tensor_str(self, also="requires_grad=True" if self.requires_grad else "")

    def detach(self) -> "Tensor":
        """The same elements, in a tensor that is nobody's view and that no gradient reaches."""
        return cast(Tensor, aten.detach.default(self))

    @property
    def data(self) -> "Tensor":
        """The same elements, in a tensor that is nobody's view and counts its own versions."""
        return Tensor(self.shallow_copy_and_detach())

    @data.setter
    def data(self, other: "Tensor") -> None:
        """The tensor shows the elements of another from now on; its history and hooks stay.

        Raises   TypeError      not a tensor
                 RuntimeError   whole numbers for a tensor that takes a gradient

        Source   torch/csrc/autograd/variable.cpp  VariableHooks::set_data
        """
        if not isinstance(other, TensorImpl):
            raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
        source = other
        if self.requires_grad and not source.dtype.is_inexact:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                f"dtype, got {source.dtype.name}"
            )
        self._storage = Storage(TensorImpl.storage(source).impl)
        self._storage_offset, self._array = source.storage_offset(), None
        self.sizes, self.strides, self.dtype = source.sizes, source.strides, source.dtype
        self._key_set, self.device = source._key_set, source.device

    def __getitem__(self, item: Any) -> "Tensor":
        return self._face(indexing.getitem(self, item))

    # Copies

    def clone(self, *, memory_format: MemoryFormat = preserve_format) -> "Tensor":
        """A copy in a storage of its own."""
        return cast(Tensor, aten.clone.default(self, memory_format=memory_format))

    def contiguous(self, memory_format: MemoryFormat = contiguous_format) -> "Tensor":
        """The tensor itself when it has that format already, else a copy that has."""
        return self._face(aten.contiguous.default(self, memory_format=memory_format))

    def _lazy_clone(self) -> "Tensor":
        """A copy whose bytes are copied only when either side writes."""
        return cast(Tensor, aten._lazy_clone.default(self))

    def to(
        self,
        *targets: Any,
        dtype: DType | None = None,
        device: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: MemoryFormat = preserve_format,
    ) -> "Tensor":
        """The tensor with another element type, device or format; itself when nothing changes.

        targets  a dtype, a device, or both, in any order; or another tensor to be like. After them
                 may come non_blocking, which changes nothing here, and copy
        """
        flags = [target for target in targets if isinstance(target, bool)]
        copy = flags[1] if len(flags) > 1 else copy
        for target in targets[: len(targets) - len(flags)]:
            if isinstance(target, Tensor):
                dtype, device = target.dtype, target.device
            elif isinstance(target, DType):
                dtype = target
            elif isinstance(target, str | Device):
                device = target
            else:
                raise TypeError(f"to(): expected a dtype, a device or a tensor, got {target!r}")
        wanted = self.dtype if dtype is None else dtype
        place = self.device if device is None else ready(device)
        return cast(Tensor, moving.to(self, wanted, place, copy, memory_format))

    def cpu(self) -> "Tensor":
        """The tensor in host memory."""
        return self.to("cpu")

    def cuda(self, index: int | None = None) -> "Tensor":
        """The tensor on a CUDA device, real or emulated."""
        return self.to(Device("cuda", index))

    # Writing

    def __setitem__(self, item: Any, value: Any) -> None:
        indexing.setitem(self, item, value)

    def index_put_(self, indices: Any, values: "Tensor", accumulate: bool = False) -> "Tensor":
        """The elements at the index positions become `values`, or grow by them."""
        impls = [impl_of(index, "index_put_") for index in indices]
        source = impl_of(values, "index_put_")
        return cast(Tensor, aten.index_put_.default(self, impls, source, accumulate))

    def masked_fill_(self, mask: "Tensor", value: Any) -> "Tensor":
        """The elements where the mask is true become `value`."""
        number = value.item() if isinstance(value, Tensor) else value
        return cast(Tensor, aten.masked_fill_.Scalar(self, impl_of(mask, "masked_fill_"), number))

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The positions of the elements that are not zero, one row each.

        as_tuple   one vector per dimension instead, ready to index with
        """
        if not as_tuple:
            return aten.nonzero.default(self)
        return aten.nonzero.default(self if self.sizes else self.unsqueeze(0)).unbind(1)

    def copy_(self, source: "Tensor") -> "Tensor":
        """Every element becomes the broadcast, converted element of another tensor."""
        return cast(Tensor, aten.copy_.default(self, impl_of(source, "copy_")))

    def fill_(self, value: Any) -> "Tensor":
        """Every element becomes `value`."""
        op = aten.fill_.Tensor if isinstance(value, Tensor) else aten.fill_.Scalar
        return cast(Tensor, op(self, value))

    def zero_(self) -> "Tensor":
        """Every element becomes 0."""
        return cast(Tensor, aten.zero_.default(self))

    def equal(self, other: "Tensor") -> bool:
        """True when shapes and all values are equal."""
        return arithmetic.equal(self, impl_of(other, "equal"))

    def norm(
        self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: DType | None = None
    ) -> Any:
        """The p-norm over dimensions; see `labkit.norm`."""
        from labkit._tensor.functional import norm

        return norm(self, p, dim, keepdim, dtype=dtype)

    def result_type(self, other: Any) -> DType:
        """The element type an operator on both would compute in."""
        return result_type(self, other)


install_operators(Tensor)
install_conversions(Tensor)
install_methods(Tensor)
autograd.install()
set_python_class(Tensor)
