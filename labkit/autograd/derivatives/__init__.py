"""The derivative table: one row per operator overload, one module per family of operators.

    print(derivatives()["mul.Tensor"])

Source   tools/autograd/derivatives.yaml
"""

from labkit.autograd.derivatives.row import Row, not_differentiable, row
from labkit.autograd.derivatives.table import FAMILIES, derivatives, find_row

__all__ = ["FAMILIES", "Row", "derivatives", "find_row", "not_differentiable", "row"]
