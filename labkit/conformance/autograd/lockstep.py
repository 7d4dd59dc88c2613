"""Every PyTorch call of a piece of code, made on labkit as well, in the same moment.

A function mode sees each call that user code makes: torch.add, Tensor.sum, F.conv2d. labkit's
function of the same name is called with the labkit twins of its arguments, and the results become
twins of PyTorch's.

Source   torch/overrides.py  TorchFunctionMode, resolve_name
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

import labkit as lab
from labkit.conformance.sides import LABKIT_DTYPES
from labkit.core import tensor_impl
from labkit.core.device import device
from labkit.core.generator import default_generator
from labkit.core.memory_format import MemoryFormat
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch import torch_operator
from labkit.dispatch.dispatcher import dispatcher
from labkit.nn import functional

_ROOTS = {
    "torch.Tensor.": lab.Tensor,
    "torch.nn.functional.": functional,
    "torch._C._nn.": functional,
    "torch.special.": lab,
    "torch.functional.": lab,
    "torch.": lab,
}
_OBSERVED = (
    "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "layout", "grad_fn", "is_cuda",
    "is_sparse", "is_mkldnn", "is_quantized", "is_meta", "is_nested", "names", "_version",
    "itemsize", "nbytes", "grad", "_base", "output_nr", "_backward_hooks", "is_cpu", "data",
)  # fmt: skip
_READ_ONLY = {
    "size", "stride", "dim", "numel", "is_contiguous", "is_floating_point", "is_complex",
    "storage_offset", "element_size", "data_ptr", "__len__", "__repr__", "__format__", "__bool__",
    "__int__", "__float__", "__index__", "item", "tolist", "is_signed", "untyped_storage",
    "get_device", "is_inference", "has_names", "numpy", "__array__", "is_same_size", "is_conj",
    "is_neg", "is_tensor", "is_grad_enabled", "result_type", "can_cast", "promote_types",
    "broadcast_shapes", "nelement", "ndimension", "allclose", "equal",
}  # fmt: skip
"""Calls that answer something other than tensors: PyTorch's answer steers both."""


class Unsupported(Exception):
    """labkit has no such function, or says that it does not do this."""


class Unequal(Exception):
    """The two sides answered differently; the text says how."""


def twin_of(value: torch.Tensor) -> TensorImpl:
    """A labkit tensor of the same bytes, strides, offset and (for a leaf) `requires_grad`.

    Raises   Unsupported   another layout, or an element type that labkit has not
    """
    if value.layout is not torch.strided or value.dtype not in LABKIT_DTYPES:
        raise Unsupported(f"a tensor of layout {value.layout} and type {value.dtype}")
    plain = value.detach()
    if plain.is_conj() or plain.is_neg():
        raise Unsupported("a lazy conjugate or negative view")
    raw = torch.empty(0, dtype=torch.uint8).set_(plain.untyped_storage()).numpy()
    storage = Storage.allocate(raw.size)
    if raw.size:
        storage.bytes(True)[:] = raw
    made = tensor_impl.make(
        storage, LABKIT_DTYPES[value.dtype], tuple(value.shape), tuple(value.stride()),
        value.storage_offset(),
    )  # fmt: skip
    if value.requires_grad:
        made.requires_grad_()  # type: ignore[attr-defined]
    return made


@dataclass
class Lockstep(TorchFunctionMode):  # type: ignore[misc]
    """Inside the `with`, labkit follows every call.

    calls    the names of the functions followed, in order
    refused  True once both sides have refused a call
    """

    calls: list[str] = field(default_factory=list)
    refused: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self._twins: dict[int, tuple[torch.Tensor, TensorImpl]] = {}

    def twin(self, value: torch.Tensor) -> TensorImpl:
        """Labkit's side of a tensor; made from it when it is met for the first time."""
        found = self._twins.get(id(value))
        if found is None:
            if value.grad_fn is not None:
                raise Unsupported("a tensor that a call labkit did not see has made")
            found = value, twin_of(value)
            self._twins[id(value)] = found
        return found[1]

    def pair(self, theirs: Any, ours: Any) -> None:
        """From now on `ours` stands for `theirs`.

        Raises   Unequal   a tensor on one side only, or another number of results
        """
        if isinstance(theirs, torch.Tensor):
            if not isinstance(ours, TensorImpl):
                raise Unequal(f"torch answers a tensor, labkit {type(ours).__name__} {ours!r}")
            self._twins[id(theirs)] = theirs, ours
        elif isinstance(theirs, list | tuple):
            if not isinstance(ours, list | tuple) or len(ours) != len(theirs):
                raise Unequal(f"torch answers {len(theirs)} values, labkit {ours!r}")
            for a, b in zip(theirs, ours, strict=True):
                self.pair(a, b)

    def translate(self, value: Any) -> Any:
        """An argument as labkit takes it.

        Raises   Unsupported   there is no such thing in labkit
        """
        if isinstance(value, torch.Tensor):
            return self.twin(value)
        if isinstance(value, torch.dtype):
            if value not in LABKIT_DTYPES:
                raise Unsupported(f"{value}")
            return LABKIT_DTYPES[value]
        if isinstance(value, torch.device):
            return device(str(value))
        if isinstance(value, torch.memory_format):
            return MemoryFormat[str(value).removeprefix("torch.")]
        if isinstance(value, torch.Size):
            return tuple(value)
        if isinstance(value, torch.Generator):
            raise Unsupported("a generator of its own")
        if isinstance(value, list | tuple):
            made = [self.translate(each) for each in value]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, dict):
            return {key: self.translate(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*[self.translate(x) for x in (value.start, value.stop, value.step)])
        if value is torch.strided:
            return None
        if callable(value):
            raise Unsupported("a function as an argument: it would be called with torch's tensors")
        return value

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name: str = resolve_name(func) or getattr(func, "__name__", repr(func))
        short = name.rpartition(".")[2]
        if name.endswith(".__get__"):
            attribute = name.split(".")[-2]
            if attribute in _OBSERVED:
                return func(*args, **kwargs)
            if not hasattr(lab.Tensor, attribute):
                raise Unsupported(f"labkit has no Tensor.{attribute}")
            return self._both(attribute, func, lambda x: getattr(x, attribute), args, kwargs)
        if name.endswith(".__set__"):
            raise Unsupported(f"setting {name}")
        if short in _READ_ONLY or name.startswith("torch.jit"):
            return func(*args, **kwargs)
        ours = self._find(name)
        if ours is None:
            raise Unsupported(f"labkit has no {name.removeprefix('torch.')}")
        return self._both(name, func, ours, args, kwargs)

    def _find(self, name: str) -> Callable[..., Any] | None:
        for prefix, root in _ROOTS.items():
            if name.startswith(prefix):
                found: Any = root
                for part in name.removeprefix(prefix).split("."):
                    found = getattr(found, part, None)
                return found  # type: ignore[no-any-return]
        return None

    def _both(self, name: str, func: Any, ours: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append(name)
        my_args, my_kwargs = self.translate(list(args)), self.translate(kwargs)
        failure: Exception | None = None
        answer: Any = None
        random_state = torch.get_rng_state()
        try:
            theirs = func(*args, **kwargs)
        except Exception as error:
            failure = error
        _set_random_state(random_state)
        try:
            answer = ours(*my_args, **my_kwargs)
        except NotImplementedError as refusal:
            if failure is not None:
                self.refused = True
                raise failure from None
            raise Unsupported(f"{name}: {str(refusal).partition(chr(10))[0]}") from refusal
        except Exception as error:
            if failure is not None and _same_class(failure, error):
                self.refused = True
                raise failure from None
            if isinstance(error, TypeError):
                _refuse_missing_overload(name.rpartition(".")[2], args, kwargs)
            raise Unequal(
                f"{name}: torch {_outcome(failure)}, labkit raises {type(error).__name__}: {error}"
            ) from error
        if failure is not None:
            raise Unequal(f"{name}: torch {_outcome(failure)}, labkit answers {_short(answer)}")
        self.pair(theirs, answer)
        return theirs


def _set_random_state(state: torch.Tensor) -> None:
    """Labkit draws the numbers PyTorch drew."""
    default_generator().load_state_bytes(state.numpy())


def _refuse_missing_overload(name: str, args: Any, kwargs: Any) -> None:
    """Pass unless PyTorch's overload for these arguments is one that labkit has not.

    Raises   Unsupported
    """
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return
    try:
        overload = torch_operator.resolve(packet, tuple(args), kwargs)
    except RuntimeError:  # its Python binding makes other arguments of them
        return
    if overload.name() not in dispatcher().operators:
        raise Unsupported(f"labkit has no {overload.name()}")


def _same_class(theirs: Exception, ours: Exception) -> bool:
    return isinstance(ours, type(theirs)) or isinstance(theirs, type(ours))


def _outcome(failure: Exception | None) -> str:
    if failure is None:
        return "answers"
    return f"raises {type(failure).__name__}: {_short(failure)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."
