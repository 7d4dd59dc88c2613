"""All rows of all families, by operator.

Source   tools/autograd/load_derivatives.py
"""

import importlib
from functools import cache

from labkit.autograd.derivatives.row import Row

FAMILIES = (
    "arithmetic", "pointwise", "comparison", "reductions", "views", "copies", "matmul", "nn",
    "losses", "indexing", "joining", "creation",
)  # fmt: skip
"""Modules of this package; each has a list `ROWS`."""


_OTHER_OVERLOADS = {
    "pow_.Scalar": "pow.Tensor_Scalar",
    "pow_.Tensor": "pow.Tensor_Tensor",
}
"""In-place overloads whose functional one has another overload name."""


@cache
def derivatives() -> dict[str, Row]:
    """Every row by the name of its operator: "mul.Tensor", "exp".

    Raises   ValueError   two rows for one operator
    """
    table: dict[str, Row] = {}
    for family in FAMILIES:
        module = importlib.import_module(f"labkit.autograd.derivatives.{family}")
        for row in module.ROWS:
            if row.operator in table:
                raise ValueError(f"{row.operator} has two rows; the second is in {family}.py")
            table[row.operator] = row
    return table


def find_row(operator: str) -> Row | None:
    """The row of an overload; an in-place one ("mul_.Tensor") finds its functional row."""
    table = derivatives()
    found = table.get(_OTHER_OVERLOADS.get(operator, operator))
    if found is not None:
        return found
    name, point, overload = operator.partition(".")
    if name.endswith("_") and not name.endswith("__"):
        return table.get(name[:-1] + point + overload)
    return None
