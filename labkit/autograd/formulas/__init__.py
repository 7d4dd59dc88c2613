"""What formulas of the derivative table may call by name, and the functions they become.

Every public name of the modules listed here is one. They are functions of tensors and numbers,
written in calls of operators, so that they can be differentiated themselves.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

import ast
import builtins
import importlib
import linecache
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from labkit.ops.aten import aten

MODULES = (
    "basics", "views", "reductions", "pointwise", "activation", "copies", "matmul", "joining",
    "indexing", "nn", "losses",
)  # fmt: skip


@cache
def helpers() -> dict[str, Any]:
    """Every name a formula may use, by name; operators come in when a formula first calls them."""
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


def function_of(text: str, parameters: Sequence[str], title: str) -> Callable[..., Any]:
    """The formula as a Python function of what it speaks of; a debugger steps into it.

    title   what the debugger calls its one line: <derivative of mul.Tensor>

    Raises   NameError   it mentions what is neither parameter, helper nor operator
    """
    _add_operators(text, parameters)
    source = f"lambda {', '.join(parameters)}: {text}"
    linecache.cache[title] = (len(source), None, [source], title)
    function: Callable[..., Any] = eval(compile(source, title, "eval"), helpers())
    return function


def _add_operators(text: str, parameters: Sequence[str]) -> None:
    """Names that are no helper are operators: `cos(self)` is aten.cos.default."""
    names = [each for each in ast.walk(ast.parse(text, mode="eval")) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}  # by a comprehension
    for name in sorted({each.id for each in names} - bound - set(parameters)):
        if name in helpers() or hasattr(builtins, name):
            continue
        try:
            packet = getattr(aten, name)
        except AttributeError:
            raise NameError(
                f"the formula {text!r} calls {name}, which is neither in "
                "labkit.autograd.formulas nor an operator of labkit"
            ) from None
        helpers()[name] = packet.default if "default" in packet.overloads() else packet
