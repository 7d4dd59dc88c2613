"""What the tensors of a step are called in the program that takes it."""

from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any

from labkit.show.names import tensors_in


def named_tensors(step: Callable[[], Any], module: Any, caller: FrameType | None) -> dict[str, Any]:
    """Name -> tensor: parameters and buffers of modules, and the program's variables.

    module  whose parameters have the names they have there; None: of each module that the step's
            code names, with the name of its variable in front where there are several

    Raises   TypeError   `module` is no nn.Module
    """
    if module is not None and not hasattr(module, "named_parameters"):
        raise TypeError(f"module must be an nn.Module, got {type(module).__name__}")
    own = _variables(step)
    found = {**(caller.f_globals | caller.f_locals if caller else {}), **own}
    modules = {"": module} if module is not None else _modules(own)
    named: dict[str, Any] = {}
    for name, one in modules.items():
        prefix = f"{name}." if len(modules) > 1 else ""
        for inner, tensor in (*one.named_parameters(), *one.named_buffers()):
            named[prefix + inner] = tensor
    return tensors_in(found) | named


def _variables(step: Callable[[], Any]) -> dict[str, Any]:
    """The variables that a function's code names, those around it before global ones."""
    if not isinstance(step, FunctionType):
        return {}
    code = step.__code__
    globals_ = {name: step.__globals__[name] for name in code.co_names if name in step.__globals__}
    around = {}
    for name, cell in zip(code.co_freevars, step.__closure__ or (), strict=True):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return globals_ | around


def _modules(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in variables.items()
        if hasattr(value, "named_parameters") and not isinstance(value, type)
    }
