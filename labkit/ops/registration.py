"""Operators join labkit's dispatcher here: PyTorch's schema, and a kernel at a key.

    @kernel("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor")
    def cumsum(self, dim, *, dtype=None): ...        # host memory, NumPy: the key is CPU

    @kernel("view(Tensor(a) self, SymInt[] size) -> Tensor(a)", "CompositeExplicitAutograd")
    def view(self, size): ...                        # the same for every device

    @kernel("cumsum", "CUDA")                        # one more key of an operator
    def cumsum_cuda(self, dim, *, dtype=None): ...

    @composite("var(Tensor self, bool unbiased=True) -> Tensor")
    def var(self, unbiased=True):                    # made of other operators, which autograd sees
        return aten.var.correction(self, None, correction=int(unbiased))

A kernel runs below autograd: it calls other kernels as plain functions, never through the
dispatcher. A composite calls operators by name, `aten.mul.Tensor(a, b)`. Either decorator gives the
function back unchanged. What the schema calls Tensor[] is returned as a list, several results as a
tuple. `sizes`, `strides` and `dtype` of a tensor are attributes, `dim()`,
`numel()` and `storage_offset()` methods, as in `labkit.core.tensor_impl`.

Source   aten/src/ATen/native/native_functions.yaml
"""

from collections.abc import Callable
from typing import Any, TypeVar

from labkit.dispatch.library import SPEAK_FOR_OTHERS, Library
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema import Schema

Function = TypeVar("Function", bound=Callable[..., Any])

LIBRARY = Library("aten", "DEF")
FUNCTION, METHOD = "function", "method"
DEVICES = ("CUDA", "PrivateUse1")
"""The keys of backends other than the host."""
_faces: dict[str, set[str]] = {}
SPEAK_FOR_OTHERS.add(__file__)


def kernel(
    operator: str, key: str = "CPU", *, variants: str = "function, method"
) -> Callable[[Function], Function]:
    """The function is the operator's kernel at the key.

    operator  a schema, which defines the operator; or the name of a defined one, "add.Tensor"
    key       a dispatch key or alias
    variants  the Python faces: "function" is lab.name(...), "method" is x.name(...); with neither,
              the operator can be called by name only. Used where the operator is defined

    Raises   SchemaError    the schema cannot be parsed
             RuntimeError   the operator is already defined
    """

    def register(function: Function) -> Function:
        name = define(operator, variants).name if "(" in operator else operator
        LIBRARY.impl(name, function, key)
        return function

    return register


def composite(schema: str, *, variants: str = "function, method") -> Callable[[Function], Function]:
    """The function is the operator on every device, for autograd included: it calls others.

    Raises   as `kernel`
    """
    return kernel(schema, "CompositeImplicitAutograd", variants=variants)


def define(schema: str, variants: str = "function, method") -> OperatorHandle:
    """The operator exists, with these Python faces.

    Raises   as `kernel`; and ValueError for faces there are not
    """
    wanted = set(variants.replace(" ", "").split(",")) - {""}
    if not wanted <= {FUNCTION, METHOD}:
        raise ValueError(f"variants are {FUNCTION!r} and {METHOD!r}, got {variants!r}")
    handle = LIBRARY.define(schema)
    base = base_name(handle.schema)
    _faces.setdefault(base, set()).update(wanted)
    return handle


def base_name(schema: Schema) -> str:
    """The operator's name without namespace and overload: "add" of aten::add.Tensor."""
    return schema.name.partition("::")[2]


def names_of(variant: str) -> list[str]:
    """The base names of all operators with that Python face."""
    return sorted(name for name, faces in _faces.items() if variant in faces)
