"""The shortest way into an operator that is called with nothing but its tensors.

`op(a, b)` takes any arguments there are; a caller that knows it has two tensors and no more can
keep a function of exactly two parameters, which asks fewer questions and dispatches the same.

Source   aten/src/ATen/core/dispatch/Dispatcher.h  TypedOperatorHandle
"""

from collections.abc import Callable
from typing import Any

from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.tls import LOCAL

_PARAMETERS = ("a", "b", "c", "d")


def plain_call(op: OperatorHandle) -> Callable[..., Any]:
    """A function of the operator's tensors; the operator itself where it has other parameters
    without defaults, or more than four tensors.

    Differs  PyTorch's typed handles exist for every signature.
    """
    count = op._plain
    if not 1 <= count <= len(_PARAMETERS):
        return op
    names = _PARAMETERS[:count]
    listed = ", ".join(names)
    source = (
        f"def call({listed}):\n"
        "    try:\n"
        f"        bits = {' | '.join(f'{name}._key_set.raw' for name in names)}\n"
        "    except AttributeError:\n"
        f"        return op({listed})\n"
        "    add, keep = LOCAL.masks\n"
        f"    return on_call[(bits | add) & keep]({listed})\n"
    )
    namespace: dict[str, Any] = {"op": op, "LOCAL": LOCAL, "on_call": op._on_call}
    exec(compile(source, f"<plain call of {op.name}>", "exec"), namespace)
    call: Callable[..., Any] = namespace["call"]
    return call
