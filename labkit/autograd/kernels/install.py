"""Every operator of labkit gets its kernel at the Autograd key.

An operator with a row gets the kernel that records by it. One whose row says "not differentiable"
is skipped on the way down. An operator without a row computes as ever, and is an error when a
gradient has to go through it.

Source   tools/autograd/gen_variable_type.py
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd.derivatives.table import find_row
from labkit.autograd.kernels import fallback
from labkit.autograd.kernels.inplace_or_view import below_autograd_kernel
from labkit.autograd.kernels.no_derivative import (
    not_implemented_kernel,
    out_kernel,
    unlinked_kernel,
)
from labkit.autograd.kernels.recording_kernel import RecordingKernel
from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch.dispatcher import dispatcher
from labkit.dispatch.kernel import fallthrough_kernel
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
        if not op.kernels or _AUTOGRAD in op.kernels or _COMPOSITE in op.kernels:
            continue
        _install(op)
        count += 1
    return count


def _install(op: OperatorHandle) -> None:
    if op.schema.is_mutable or op.schema.is_view:
        _LIBRARY.impl(op, below_autograd_kernel(op), "ADInplaceOrView", with_keyset=True)
    _LIBRARY.impl(op, _kernel_for(op), "Autograd", with_keyset=True)


def _kernel_for(op: OperatorHandle) -> Callable[..., Any]:
    row, schema = find_row(op.name.removeprefix("aten::")), op.schema
    if any(argument.is_write and argument.kwarg_only for argument in schema.arguments):
        return out_kernel(op)
    if row is None:
        takes_tensors = any(argument.type.is_tensor_like for argument in schema.arguments)
        return not_implemented_kernel(op) if takes_tensors else fallthrough_kernel
    if row.node is not None:
        return RecordingKernel(op, row)
    return unlinked_kernel(op) if schema.is_view and not schema.is_mutable else fallthrough_kernel


def kernel_of(operator: str) -> RecordingKernel:
    """The kernel of an operator that records its calls, by its short name.

    Raises   KeyError     there is no such operator
             ValueError   it has no row, or was defined after `install`
    """
    op = dispatcher().find(f"aten::{operator}")
    kernels = op.kernels.get(_AUTOGRAD)
    kernel = kernels[0].function if kernels else None
    if not isinstance(kernel, RecordingKernel):
        raise ValueError(f"{operator} has no derivative: its calls are not recorded")
    return kernel
