"""Forward mode: tangents go along with the values, by the rows' `jvp`.

Source   torch/csrc/autograd/forward_grad.h
         tools/autograd/gen_variable_type.py  emit_fw_derivatives
"""

from typing import Any


class _Forward:
    level = 0
    """How many dual levels are open; operators look no further while it is 0."""


FORWARD = _Forward()


def set_tangents(
    op: Any, row: Any, arguments: dict[str, Any], result: Any, original: Any = None
) -> None:
    """The result has the tangent that follows from those of the arguments."""
