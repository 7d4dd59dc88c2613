"""PyTorch's layers, small and really installed: each is a kernel or fallback at its key.

    install(Dispatcher())        # labkit's own dispatcher has them already

    autograd             records what backward needs, then redispatches below
    ad_inplace_or_view   counts versions of what is written, links views to their base
    backend_select       factories: the device argument names the backend
    autocast             casts, then calls again with itself excluded
    functionalize        in-place calls become out-of-place ones on what is wrapped
    vmap                 unwraps a batch: by a rule, or one example at a time
    python_mode          hands the call to a Python object

A layer asks little of a tensor: a `_key_set`, and what its own docstring says.
"""

from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.layers import (
    ad_inplace_or_view,
    autocast,
    autograd,
    backend_select,
    functionalize,
    python_mode,
    vmap,
)
from labkit.dispatch.layers.autocast import Autocast
from labkit.dispatch.layers.functionalize import FunctionalTensorWrapper, functionalized
from labkit.dispatch.layers.python_mode import DispatchMode
from labkit.dispatch.layers.vmap import BatchedTensorImpl
from labkit.dispatch.layers.vmap import vmap as vmap_function
from labkit.dispatch.library import Library


def install(dispatcher: Dispatcher) -> Library:
    """Every operator of the dispatcher runs through the layers; destroy the library to end it.

    The layers that need a kernel per operator (ADInplaceOrView, autocast, BackendSelect) are
    registered for operators with `register_for(library, op)` of their module.
    """
    library = Library("_", "IMPL", dispatcher=dispatcher)
    for module in (autograd, functionalize, vmap, python_mode):
        module.install(library)
    return library


__all__ = [
    "Autocast",
    "BatchedTensorImpl",
    "DispatchMode",
    "FunctionalTensorWrapper",
    "ad_inplace_or_view",
    "autocast",
    "autograd",
    "backend_select",
    "functionalize",
    "functionalized",
    "install",
    "python_mode",
    "vmap",
    "vmap_function",
]
