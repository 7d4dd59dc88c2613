"""`aten.mul.Tensor(a, b)`: labkit's operators by PyTorch's names, through the dispatcher.

Source   torch/_ops.py  _OpNamespace
"""

from labkit.dispatch.packet import ops

aten = ops.aten
