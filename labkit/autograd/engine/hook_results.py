"""What a hook may return in place of a gradient.

Source   torch/csrc/autograd/python_hook.cpp  check_result
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.variables.saved_variable import type_name
from labkit.core.tensor_impl import TensorImpl


def check_grad(hook: Any, result: Any, before: Any) -> Any:
    """The result of a tensor hook.

    Raises   TypeError      not a tensor
             RuntimeError   another shape, element type or device than before, or there was none
    """
    if not isinstance(result, TensorImpl):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    name = getattr(hook, "__name__", "<unknown>")
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if result.dtype is not before.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {type_name(before)} got "
            f"{type_name(result)})"
        )
    if result.device != before.device:
        raise RuntimeError(f"hook '{name}' has changed the type of value")
    if result.sizes != before.sizes:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    return result


def check_grads(hook: Any, results: Any, before: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a node's hook: as many as there were, each a tensor or None.

    Raises   TypeError, RuntimeError   as above; or it is no tuple, or of another length
    """
    if not isinstance(results, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(results).__name__}'")
    if len(results) != len(before):
        name = getattr(hook, "__name__", "<unknown>")
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(results)}, but "
            f"expected {len(before)})"
        )
    return tuple(
        None if result is None else check_grad(hook, result, grad)
        for result, grad in zip(results, before, strict=True)
    )
