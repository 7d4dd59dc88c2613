"""Two of PyTorch's layers, small and real: each is a kernel at its key.

    autocast       casts, then calls again with itself excluded; `labkit.amp` registers it
    python_mode    hands the call to a Python object; a fallback that `labkit.dispatch` registers
    layer          what both share: the contract that a kernel declares

Autograd's kernels are in `labkit.autograd.kernels`. A layer asks little of a tensor: a `_key_set`,
and what its own docstring says.
"""

from labkit.dispatch.layers.autocast import Autocast
from labkit.dispatch.layers.python_mode import DispatchMode

__all__ = ["Autocast", "DispatchMode"]
