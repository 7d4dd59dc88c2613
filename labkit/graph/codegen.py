"""One CUDA kernel for several element-wise operators: what lies between them stays in registers.

The expressions are those of `labkit.ops.cuda.expressions`. Sizes and strides are written into the
text, as the examples of the capture had them.

Source   torch/_inductor/codegen/triton.py
Differs  one floating type per kernel, one element per thread. A half or bfloat16 is rounded after
         each operator, as it would be between two kernels, where Inductor keeps the float
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.graph.storages import arguments, operator_name
from labkit.ops.cuda.elementwise_source import ELEMENTS, HEADERS
from labkit.ops.cuda.expressions import EXPRESSIONS, HELPERS, expression

THREADS = 256  # per block
TYPES = {
    torch.float32: dtypes.float32, torch.float64: dtypes.float64,
    torch.float16: dtypes.float16, torch.bfloat16: dtypes.bfloat16,
}  # fmt: skip
"""Element types that a kernel is written for."""

UNTAGGED = {torch.ops.aten.rsub.Tensor}
"""Element-wise operators that PyTorch does not mark as such."""

_TEMPLATE = """\
{head}// {what}
extern "C" __global__ void {name}({parameters}, {element}* out, long long n) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
{lines}
    out[{place}] = {result};
}}
"""


def why_not_pointwise(node: Node) -> str | None:
    """Why a node cannot be part of a generated kernel, as a clause; None when it can."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not (
        torch.Tag.pointwise in target.tags or target in UNTAGGED
    ):
        return "is not element-wise"
    if target._schema.is_mutable:
        return "writes to its input"
    own = node.meta["val"].dtype
    if own not in TYPES:
        return f"{node.name} is {own}, and kernels are written for {', '.join(map(str, TYPES))}"
    for one in node.all_input_nodes:
        if one.meta["val"].dtype is not own:
            return f"{one.name} is {one.meta['val'].dtype}, and {node.name} is {own}"
    try:
        return None if _text(node) else "has no expression in CUDA C++"
    except KeyError as missing:
        return f"has no expression in CUDA C++ for {missing}"


class PointwiseKernel(torch.nn.Module):  # type: ignore[misc]
    """A generated kernel, as a module of the graph; on the CPU it runs PyTorch's operators.

    inside   the operators: placeholders for what it reads, one result
    """

    def __init__(self, name: str, inside: GraphModule) -> None:
        super().__init__()
        self.name, self.inside = name, inside

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """What the operators make of the inputs."""
        result = self.inside(*inputs)
        assert isinstance(result, torch.Tensor)
        return result

    @property
    def result(self) -> Node:
        """The node that makes the result."""
        (result,) = self.inside.graph.output_node().all_input_nodes
        return result

    @cached_property
    def source(self) -> str:
        """The text of the kernel."""
        nodes = list(self.inside.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        steps = [node for node in nodes if node.op == "call_function"]
        out = self.result.meta["val"]
        dtype = TYPES[out.dtype]
        element, value = ELEMENTS[dtype], _value(dtype)
        loads = [f"{one.name}[{place(one.meta['val'], out.shape)}]" for one in inputs]
        if dtype in HEADERS:
            loads = [f"float({load})" for load in loads]
        lines = [
            f"const {value} {variable(one)} = {load};"
            for one, load in zip(inputs, loads, strict=True)
        ]
        lines += [
            f"const {value} {variable(one)} = {_rounded(_text(one), dtype)};" for one in steps
        ]
        result = variable(self.result)
        return _TEMPLATE.format(
            head=_head(" ".join(lines), dtype),
            what=", ".join(operator_name(one) for one in steps),
            name=self.name,
            parameters=", ".join(f"const {element}* {one.name}" for one in inputs),
            element=element,
            lines="\n".join(f"    {line}" for line in lines),
            place=place(out, out.shape),
            result=f"({element}){result}" if dtype in HEADERS else result,
        )


def _value(dtype: DType) -> str:
    """What is computed in: halves have no arithmetic of their own here."""
    return "float" if dtype in HEADERS else ELEMENTS[dtype]


def _rounded(text: str, dtype: DType) -> str:
    """A number as it is when it has been in memory."""
    return f"float(({ELEMENTS[dtype]})({text}))" if dtype in HEADERS else text


def _head(used: str, dtype: DType) -> str:
    """What stands above a kernel: the header of its type, and the helpers that it calls."""
    head = f"#include <{HEADERS[dtype]}>\n" if dtype in HEADERS else ""
    if "Value(" in used or any(f"{each}(" in used for each in HELPERS):
        head += f"using Value = {_value(dtype)};\nusing Wide = Value;\n"
    head += "".join(f"\n{HELPERS[each]}" for each in HELPERS if f"{each}(" in used)
    return head and head + "\n"


def variable(node: Node) -> str:
    """The register of a node's value; `exp` itself would hide the function."""
    return f"v_{node.name}"


def place(value: torch.Tensor, shape: Sequence[int]) -> str:
    """The element of `value` for thread i, where i counts the elements of `shape` in order.

    A broadcast dimension has no term. Neighbouring dimensions that run on into each other are one.
    """
    aligned = value.expand(shape)
    runs: list[tuple[int, int, int]] = []  # size, stride, elements of `shape` further inside
    inside = 1
    for size, stride in zip(reversed(aligned.shape), reversed(aligned.stride()), strict=True):
        if runs and runs[-1][1] * runs[-1][0] == stride:
            runs[-1] = (runs[-1][0] * size, *runs[-1][1:])
        elif size > 1:
            runs.append((size, stride, inside))
        inside *= size
    terms = [_term(*run, outermost=run[2] * run[0] == inside) for run in runs if run[1]]
    return " + ".join(terms) or "0"


def _term(size: int, stride: int, inside: int, outermost: bool) -> str:
    text = "i" if inside == 1 else f"i / {inside}"
    if not outermost:
        text += f" % {size}"
    return text if stride == 1 else f"{text} * {stride}"


def _text(node: Node) -> str:
    """The operator's expression on the registers of its inputs.

    Raises   KeyError   an argument that no expression knows
    """
    letters = iter("xyz")
    given: dict[str, str | None] = {}
    words: dict[str, str] = {}
    schema = node.target._schema
    values = {argument.name: value for argument, value in arguments(node)}
    for argument in schema.arguments:
        value = values.get(argument.name, argument.default_value)
        if isinstance(argument.type, torch.TensorType) or argument.name == "other":
            letter = next(letters)
            given[argument.name], words[letter] = letter, _word(value, node)
        elif value is None or isinstance(value, str):
            given[argument.name] = value
        else:
            given[argument.name], words[argument.name] = argument.name, _word(value, node)
    name, dtype = operator_name(node), TYPES[node.meta["val"].dtype]
    if name == "rsub":  # `2 - x`
        name, words["x"], words["y"] = "sub", words["y"], words["x"]
    text = expression(name, given, dtype) if name in EXPRESSIONS else None
    if text is None:
        raise KeyError(name)
    text = re.sub(r"\bWide\((\w+)\)", r"\1", text)
    text = re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: words[found[1]], text)
    return re.sub(r"(?<![\w.])1\.0f? \* ", "", text)  # alpha, mostly


def _word(value: Any, node: Node) -> str:
    if isinstance(value, Node):
        return variable(value)
    number = float(value)
    if number != number or number in (float("inf"), -float("inf")):
        raise KeyError(f"the number {number}")
    suffix = "" if node.meta["val"].dtype is torch.float64 else "f"
    return f"{number!r}{suffix}" if number >= 0 else f"({number!r}{suffix})"
