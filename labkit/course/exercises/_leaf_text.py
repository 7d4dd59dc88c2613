"""The programs of `leaf_or_not` as lines of Python."""

import itertools
from typing import Any

Statement = tuple[Any, ...]
"""The name that is bound or "", the operation, its arguments."""


def in_python(program: list[Statement]) -> str:
    """The program as lines of Python; a product that comes many times in a row as a loop."""
    lines, depth = [], 0
    runs = _runs(program)
    for number, ((target, op, *arguments), times) in enumerate(runs):
        if op == "end":
            depth -= 1
            continue
        loop = f"for _ in range({times}): " if times > 1 else ""
        lines.append("    " * depth + loop + _line(target, op, arguments))
        depth += op in ("no_grad", "enable_grad")
        if runs[number + 1 : number + 2] == [(("", "end"), 1)] and lines[-1].endswith(":"):
            lines.append("    " * depth + "pass")
    return "\n" + "\n".join(lines)


def _runs(program: list[Statement]) -> list[tuple[Statement, int]]:
    """The statements, a product of three times or more once, with how often it comes in a row."""
    found: list[tuple[Statement, int]] = []
    for statement, equal in itertools.groupby(program):
        times = len(list(equal))
        many = statement[1] == "mul" and times > 2
        found += [(statement, times)] if many else [(statement, 1)] * times
    return found


def _line(target: str, op: str, arguments: list[Any]) -> str:
    if op in ("no_grad", "enable_grad"):
        return f"with torch.{op}():"
    if op == "tensor":
        call = f"torch.ones(2, dtype=torch.{arguments[0]}, requires_grad={arguments[1]})"
    elif op == "Parameter":
        call = f"nn.Parameter({arguments[0]}, requires_grad={arguments[1]})"
    elif op in ("mul", "greater"):
        call = f"{arguments[0]} {'*' if op == 'mul' else '>'} {arguments[1]}"
    elif op == "backward":
        call = f"{arguments[0]}.backward(ones, retain_graph=True)"
    elif op == "view":
        call = f"{arguments[0]}.view(2)"
    else:
        inside = ", ".join(f"torch.{a}" if op == "to" else str(a) for a in arguments[1:])
        call = f"{arguments[0]}.{op}({inside})"
    return f"{target} = {call}" if target else call
