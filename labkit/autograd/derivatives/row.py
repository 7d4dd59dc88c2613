"""One row of the derivative table: an operator, its node, a formula per argument.

    row("mul.Tensor", "MulBackward0",
        self="grad * conj(other)",
        other="grad * conj(self)")

A formula is one or two lines of Python over tensors. The names it may use:

    grad, grads          the gradient of the first differentiable output; of all of them, in order
    grad_values          the gradient of the output that the schema names `values`
    self, other, dim     the operator's arguments, by their schema names; tensors are saved
    result, result1      outputs, by number or by their schema names; saved
    self.sizes           `sizes`, `strides`, `dtype`, `device`, `dim()`, `numel()`,
                         `storage_offset()` of an argument: only the number is saved
    needs                (with a formula for several arguments) one bool per argument
    anything in `labkit.autograd.formulas`: reductions back, masks, what two rows share
    cos(self)            any other name is an operator, the overload without a name
    aten.sum.dim_IntList(...)     any operator, by name and overload

A gradient need not have the argument's shape: what broadcasting stretched, the engine sums, and
what promotion cast, it casts back. Formulas call operators, so they can be differentiated again.

A row speaks of the functional overload. The in-place overload (`mul_.Tensor`) follows from it.

Source   tools/autograd/derivatives.yaml
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """How one operator overload is differentiated.

    operator   name and overload, without namespace: "mul.Tensor", "exp"
    node       class name of its node, PyTorch's; None: no output is differentiable
    formulas   argument names -> formula. "input, weight, bias" stands for three arguments, whose
               formula gives three gradients; "" says that the argument has no derivative
    differentiable_outputs   which outputs are; None: those of a differentiable type
    """

    operator: str
    node: str | None
    formulas: Mapping[str, str] = field(default_factory=dict)
    differentiable_outputs: tuple[bool, ...] | None = None

    def __str__(self) -> str:
        if self.node is None:
            return f"{self.operator}: not differentiable"
        parts = [f"{names}: {text}" for names, text in self.formulas.items()]
        return f"{self.operator}: {self.node}\n  " + "\n  ".join(parts)


def row(
    operator: str,
    node: str,
    together: Mapping[str, str] | None = None,
    /,
    *,
    differentiable_outputs: tuple[bool, ...] | None = None,
    **formulas: str,
) -> Row:
    """A row; each keyword is an argument's name.

    together   formulas that give the gradients of several arguments at once,
               {"input, weight, bias": "convolution_backward(grad, input, weight, ..., needs)"}
    """
    given = {**formulas, **(together or {})}
    return Row(operator, node, given, differentiable_outputs)


def not_differentiable(*operators: str) -> list[Row]:
    """Rows of operators whose results never require grad: comparisons, indices, counts."""
    return [Row(operator, None) for operator in operators]
