"""What formulas of the derivative table may call by name.

Every public name of the modules listed here is one. They are functions of tensors and numbers,
written in calls of operators, so that they can be differentiated themselves.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

import importlib
import math
from functools import cache
from typing import Any

from labkit.ops.aten import aten

MODULES = (
    "basics", "views", "reductions", "pointwise", "copies", "matmul", "joining", "indexing", "nn",
    "norms", "losses",
)  # fmt: skip


@cache
def _names() -> dict[str, Any]:
    found: dict[str, Any] = {"aten": aten, "math": math}
    for name in MODULES:
        module = importlib.import_module(f"labkit.autograd.formulas.{name}")
        found.update(
            {
                key: value
                for key, value in vars(module).items()
                if not key.startswith("_") and getattr(value, "__module__", "") == module.__name__
            }
        )
    return found


def namespace() -> dict[str, Any]:
    """A fresh dictionary of all names a formula may use."""
    return dict(_names())
