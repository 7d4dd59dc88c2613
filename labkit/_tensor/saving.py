"""Tensors copied, pickled and kept in files: the bytes of a storage once, however many look at it.

Source   torch/_tensor.py  Tensor.__reduce_ex__, Tensor.__deepcopy__; torch/serialization.py
Differs  a plain pickle keeps shared memory shared, as only torch.save does; hooks stay behind; a
         file is a pickle, not PyTorch's archive
"""

import copy
import pickle
from os import PathLike
from pathlib import Path
from typing import IO, Any

from labkit.core import tensor_impl
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints
from labkit.core.storage import Storage, StorageImpl
from labkit.core.tensor_impl import TensorImpl

File = str | PathLike[str] | IO[bytes]


class Saving(TensorImpl):
    """The part of `Tensor` that copies and pickles."""

    __slots__ = ()
    requires_grad: Any
    is_leaf: Any
    grad: Any

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        arguments = (
            type(self), TensorImpl.storage(self).impl, self.dtype, self.sizes, self.strides,
            self.storage_offset(), self.requires_grad,
        )  # fmt: skip
        return rebuilt, arguments, self.__dict__ or None

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A tensor over a copy of the storage, its gradient and attributes copied, too.

        Raises   RuntimeError   a computed tensor that takes gradients
        """
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment; take .detach() or .clone() of this one"
            )
        make, arguments, _ = self.__reduce_ex__(4)
        memo[id(self)] = made = make(*copy.deepcopy(arguments, memo))
        made.grad = copy.deepcopy(self.grad, memo)
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made


def rebuilt(
    face: type,
    storage: StorageImpl,
    dtype: DType,
    sizes: Ints,
    strides: Ints,
    storage_offset: int,
    requires_grad: bool,
) -> Any:
    """The tensor that was described: a leaf of that class."""
    made: Any = tensor_impl.make(Storage(storage), dtype, sizes, strides, storage_offset)
    made.__class__ = face
    return made.requires_grad_(requires_grad) if requires_grad else made


def save(obj: Any, file: File) -> None:
    """The file holds the object: tensors, and containers and numbers around them.

    Source   torch/serialization.py  save
    """
    if isinstance(file, str | PathLike):
        Path(file).write_bytes(pickle.dumps(obj))
    else:
        pickle.dump(obj, file)


def load(file: File) -> Any:
    """The object that `save` wrote: tensors, containers and numbers; no other class is made.

    Raises   UnpicklingError   the file asks for anything else

    Source   torch/serialization.py  load (weights_only)
    """
    if isinstance(file, str | PathLike):
        with Path(file).open("rb") as opened:
            return load(opened)
    return _WeightsOnly(file).load()


class _WeightsOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"the file asks for {module}.{name}; labkit.load makes tensors and containers only"
        )


_ALLOWED = {
    (__name__, "rebuilt"), ("labkit.core.storage", "storage_of"), ("labkit.core.dtype", "dtype"),
    ("labkit.core.device", "Device"), ("labkit._tensor.tensor", "Tensor"),
    ("labkit._tensor.tensor", "Size"), ("labkit.nn.parameter", "Parameter"),
    ("collections", "OrderedDict"),
}  # fmt: skip
