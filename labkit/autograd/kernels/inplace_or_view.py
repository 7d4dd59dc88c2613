"""The ADInplaceOrView key: what inference mode still has to know about writes and views.

Calls that no Autograd kernel took get here: those on inference tensors, those in inference mode,
and writes of operators without a derivative, such as eq_, whose Autograd cell is a fallthrough.

Source   tools/autograd/gen_inplace_or_view_type.py
Differs  PyTorch's Autograd kernels of writes and views redispatch to this key, which raises
         versions and links views. Here they link views themselves and redispatch below it; the
         kernel that writes raises the version.
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd.state import STATE
from labkit.autograd.variables import views
from labkit.autograd.variables.variable import is_inference
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.operator import OperatorHandle


def below_autograd_kernel(op: OperatorHandle) -> Callable[..., Any]:
    """The kernel of an operator that writes an argument or returns a view of one."""
    redispatch = op._on_redispatch
    mask = AFTER_ADINPLACEORVIEW.raw
    if op.schema.is_mutable:

        def write(keys: Any, *args: Any, **kwargs: Any) -> Any:
            for written in (args[0], kwargs.get("out")) if args else (kwargs.get("out"),):
                if isinstance(written, TensorImpl):
                    check_write(written)
            return redispatch[keys.raw & mask](*args, **kwargs)

        return write

    def view(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = redispatch[keys.raw & mask](*args, **kwargs)
        parent = args[0]
        if not is_inference(parent):
            if isinstance(result, list | tuple):
                views.link_list(parent, result, None)
            elif result.base is not None:
                views.link(parent, result, None)
        return result

    return view


def check_write(tensor: TensorImpl) -> None:
    """Nothing, unless an inference tensor is written outside inference mode.

    Raises   RuntimeError   it is
    Source   c10/core/TensorImpl.h  TensorImpl::bump_version, VariableVersion::bump
    """
    if is_inference(tensor) and not STATE.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make "
            "a clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )
