"""A formula's arithmetic as direct calls of operators.

`grad * conj(other)` asks Python for `grad.__mul__`, which asks what `other` is. Where a formula's
names already say that both are tensors, the operator is called at once: the same call, sooner.
"""

import ast
from typing import TYPE_CHECKING, Any

from labkit.dispatch.plain_call import plain_call
from labkit.ops.aten import aten

if TYPE_CHECKING:
    from labkit.autograd.formula import Differentiation

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div",
}  # fmt: skip
_KEEPS_TENSORS = {"conj"}
"""Helpers that give a tensor for a tensor."""


def with_direct_calls(
    code: str, differentiation: "Differentiation", namespace: dict[str, Any]
) -> str:
    """The formula with direct calls, which the namespace has from now on."""
    tensors = {"grad"}
    for argument in differentiation.schema.arguments:
        if argument.type.name == "Tensor":
            tensors.add(f"a_{argument.name}")
    tensors |= {f"r_{i}" for i, each in enumerate(differentiation.schema.returns)
                if each.type.name == "Tensor"}  # fmt: skip
    tree = _Direct(tensors, namespace).visit(ast.parse(code, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree))


class _Direct(ast.NodeTransformer):
    def __init__(self, tensors: set[str], namespace: dict[str, Any]) -> None:
        self.tensors = tensors
        self.namespace = namespace

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Tensor with tensor: the operator; a number keeps Python's operator."""
        self.generic_visit(node)
        name = _OPERATORS.get(type(node.op))
        if name is None or not (self._is_tensor(node.left) and self._is_tensor(node.right)):
            return node
        return self._call(f"direct_{name}", getattr(aten, name).Tensor, [node.left, node.right])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """A tensor's negative."""
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and self._is_tensor(node.operand):
            return self._call("direct_neg", aten.neg.default, [node.operand])
        return node

    def _call(self, name: str, op: Any, arguments: list[ast.expr]) -> ast.Call:
        self.namespace[name] = plain_call(op)
        return ast.Call(ast.Name(name, ast.Load()), arguments, [])

    def _is_tensor(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.tensors
        if isinstance(node, ast.BinOp):
            return self._is_tensor(node.left) or self._is_tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_tensor(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in _KEEPS_TENSORS:
                return self._is_tensor(node.args[0])
            return name.startswith("direct_")
        return False
