"""Every operator of labkit gets its kernel at the Autograd key.

An operator with a row gets the kernel its row describes, generated when it is first called. One
whose row says "not differentiable" is skipped on the way down. An operator without a row computes
as ever, and is an error when a gradient has to go through it.

Source   tools/autograd/gen_variable_type.py
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd import fallback
from labkit.autograd.derivatives.table import find_row
from labkit.autograd.formula import Differentiation
from labkit.autograd.inplace_or_view import below_autograd_kernel
from labkit.autograd.kernels import Generator
from labkit.autograd.no_derivative import not_implemented_kernel, out_kernel, unlinked_kernel
from labkit.autograd.node import Node
from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch.default import dispatcher
from labkit.dispatch.kernel import Kernel, fallthrough_kernel
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle

_LIBRARY = Library("aten", "IMPL")
_COMPOSITE = DispatchKey.CompositeImplicitAutograd
_AUTOGRAD = DispatchKey.Autograd


def install() -> int:
    """All operators that are defined by now have an Autograd kernel; how many got one now.

    Operators that are composites, made of others, need none.
    """
    fallback.install()
    count = 0
    for op in list(dispatcher().operators.values()):
        if not op.name.startswith("aten::") or not op.has_schema:
            continue
        if _AUTOGRAD in op.registrations or _COMPOSITE in op.registrations:
            continue
        if not op.registrations:
            continue
        _install(op)
        count += 1
    return count


def _install(op: OperatorHandle) -> None:
    if op.schema.is_mutable or op.schema.is_view:
        _LIBRARY.impl(op, below_autograd_kernel(op), "ADInplaceOrView", with_keyset=True)
    short = op.name.removeprefix("aten::")
    row = find_row(short)
    schema = op.schema
    if any(argument.is_write and argument.kwarg_only for argument in schema.arguments):
        _LIBRARY.impl(op, out_kernel(op), "Autograd", with_keyset=True)
        return
    if row is None:
        if not any(argument.type.is_tensor_like for argument in schema.arguments):
            _LIBRARY.impl(op, fallthrough_kernel, "Autograd")
        else:
            _LIBRARY.impl(op, not_implemented_kernel(op), "Autograd", with_keyset=True)
        return
    if row.node is None:
        if schema.is_view and not schema.is_mutable:
            _LIBRARY.impl(op, unlinked_kernel(op), "Autograd", with_keyset=True)
        else:
            _LIBRARY.impl(op, fallthrough_kernel, "Autograd")
        return

    def generate_first(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return _generated(op)(keys, *args, **kwargs)

    _LIBRARY.impl(op, generate_first, "Autograd", with_keyset=True)


def _generated(op: OperatorHandle) -> Callable[..., Any]:
    """The operator's kernel, which from now on is called directly."""
    row = find_row(op.name.removeprefix("aten::"))
    assert row is not None
    function = Generator(op, Differentiation(row, op.schema)).build()
    kernel: Kernel = op.registrations[_AUTOGRAD][0]
    object.__setattr__(kernel, "function", function)
    op.forget_bound_kernels()
    return function


def kernel_of(operator: str) -> Callable[..., Any]:
    """The generated kernel of an operator, by its short name; `kernel.source` is its text.

    Raises   KeyError     there is no such operator
             ValueError   it has no row to generate a kernel from
    """
    op = dispatcher().find(f"aten::{operator}")
    row = find_row(operator)
    if row is None or row.node is None:
        raise ValueError(f"{operator} has no derivative: no kernel is generated for it")
    kernels = op.registrations.get(_AUTOGRAD)
    if not kernels:
        raise ValueError(f"{operator} is made of other operators, or was defined after install()")
    function = kernels[0].function
    return function if hasattr(function, "source") else _generated(op)  # type: ignore[return-value]


def node_class_of(operator: str) -> type[Node]:
    """The class of an operator's nodes."""
    found: type[Node] = kernel_of(operator).node_class  # type: ignore[attr-defined]
    return found
