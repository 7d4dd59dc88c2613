"""The key sets with which layers let go of a call."""

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet

AFTER_AUTOGRAD = DispatchKeySet.full_after(DispatchKey.AutogradOther)
"""What an autograd kernel redispatches to. Source: c10/core/DispatchKeySet.h
after_autograd_keyset."""

AFTER_ADINPLACEORVIEW = DispatchKeySet.full_after(DispatchKey.ADInplaceOrView)
"""Source: c10/core/DispatchKeySet.h after_ADInplaceOrView_keyset."""

ABOVE_PYTHON = DispatchKeySet(
    *(
        key
        for key in DispatchKey
        if DispatchKey.FuncTorchDynamicLayerBackMode <= key <= DispatchKey.PreDispatch
    )
)
"""What a mode's handler runs without: everything stronger than Python.
Source: aten/src/ATen/core/PythonFallbackKernel.cpp after_Python_keyset."""

MODE_KEYS = DispatchKeySet(DispatchKey.Python, DispatchKey.PythonTLSSnapshot)
"""What an active mode includes. Source: c10/core/DispatchKeySet.h python_ks."""
