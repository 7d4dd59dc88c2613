"""The CUDA C++ text of an element-wise operator, for given element types.

Sizes, strides and numbers are arguments of the kernel, so one text serves every shape: a stride of
0 bytes is a broadcast. Operands of another element type are cast as they are loaded.

Source   aten/src/ATen/native/cuda/CUDALoops.cuh  gpu_kernel_impl_nocast
         aten/src/ATen/cuda/detail/OffsetCalculator.cuh
Differs  one element per thread, where PyTorch gives each thread four; plain division, where
         PyTorch multiplies by a magic number
"""

import functools
from typing import NamedTuple

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.ops.cuda.expressions import HELPERS, expression

ELEMENTS: dict[DType, str] = {
    dtypes.bool_: "bool",
    dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short",
    dtypes.uint32: "unsigned int", dtypes.uint64: "unsigned long long",
    dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int",
    dtypes.int64: "long long",
    dtypes.float16: "__half", dtypes.bfloat16: "__nv_bfloat16",
    dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
"""Element type -> its name in CUDA C++."""

HEADERS = {dtypes.float16: "cuda_fp16.h", dtypes.bfloat16: "cuda_bf16.h"}
"""Element type -> the header that defines it, for those that are no C++."""

MAX_DIMS = 25
"""Dimensions a kernel loops over at most, after those that run on into each other are one."""

_TEMPLATE = """\
{includes}using Out = {out};
using Value = {value};  // what operands are loaded as
using Wide = {wide};  // unsigned for whole numbers: a signed overflow has no meaning in C++

struct Walk {{  // dimension 0 is the fastest; steps are bytes, of the output first
    long long dims;
    long long sizes[{max_dims}];
    long long steps[{max_dims}][{count}];
}};

template <class Element>
__device__ Element& at(Element* first, long long bytes) {{
    return *(Element*)((char*)first + bytes);
}}

{helpers}extern "C" __global__ void lab_{name}({parameters}, long long n, Walk walk) {{
    long long rest = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (rest >= n) return;
    long long offset[{count}] = {{}};
    for (int d = 0; d < walk.dims; ++d) {{
        const long long size = walk.sizes[d], index = d + 1 < walk.dims ? rest % size : rest;
        rest /= size;
        for (int operand = 0; operand < {count}; ++operand) {{
            offset[operand] += index * walk.steps[d][operand];
        }}
    }}
{loads}
    at(out, offset[0]) = {result};
}}
"""


class Call(NamedTuple):
    """What the text of a kernel depends on.

    name      of the operator
    compute   the element type of the arithmetic
    answers   the element type of its answer, before that is written
    types     the element types in memory, of the output first
    given     the schema's arguments in order, as an `expressions.Given`
    numbers   those among them that are numbers
    """

    name: str
    compute: DType
    answers: DType
    types: tuple[DType, ...]
    given: tuple[tuple[str, str | None], ...]
    numbers: tuple[str, ...] = ()

    @property
    def expression(self) -> str | None:
        """The C++ that makes the answer; None when there is none."""
        return expression(self.name, dict(self.given), self.compute)


@functools.lru_cache(maxsize=1024)
def source(call: Call) -> str:
    """The text of the kernel that serves a call, and any of the same types and arguments.

    Raises   ValueError   the call has no expression
    """
    text = call.expression
    if text is None:
        raise ValueError(f"{call.name} has no expression for {call.compute} and {call.given}")
    out, *inputs = call.types
    letters = [letter for letter in "xyz" if letter not in call.numbers]
    operands = list(zip(letters, inputs, strict=False))
    loads = [
        f"    const Value {x} = {_value(f'at({x}s, offset[{place}])', dtype, call.compute)};"
        for place, (x, dtype) in enumerate(operands, 1)
    ]
    loads += [f"    const Value {number} = Value({number}_);" for number in call.numbers]
    number_type = "double" if call.compute.is_floating_point else "long long"
    result = _element(f"({text})", call.answers)
    return _TEMPLATE.format(
        includes="".join(
            f"#include <{HEADERS[dtype]}>\n"
            for dtype in HEADERS
            if dtype in (call.compute, call.answers, *call.types)
        ),
        out=ELEMENTS[out],
        value="float" if call.compute in HEADERS else ELEMENTS[call.compute],
        wide=_wide(call.compute),
        helpers="".join(f"{HELPERS[each]}\n" for each in HELPERS if f"{each}(" in text),
        name=call.name,
        max_dims=MAX_DIMS,
        count=len(call.types),
        parameters=", ".join(
            ["Out* out"]
            + [f"const {ELEMENTS[dtype]}* {x}s" for x, dtype in operands]
            + [f"{number_type} {number}_" for number in call.numbers]
        ),
        loads="\n".join(loads),
        result=result if out is call.answers else _element(_number(result, call.answers), out),
    )


def _wide(compute: DType) -> str:
    if compute.is_floating_point:
        return "Value"
    if compute.kind == "bool":
        return "int"
    return "unsigned long long" if compute.itemsize == 8 else "unsigned int"


def _number(element: str, dtype: DType) -> str:
    """An element as something C++ computes with."""
    return f"float({element})" if dtype in HEADERS else element


def _element(number: str, dtype: DType) -> str:
    """A number rounded to an element type; to a half by way of float, as `c10::convert` goes."""
    inner = f"float({number})" if dtype in HEADERS else number
    return f"({ELEMENTS[dtype]})({inner})"


def _value(element: str, dtype: DType, compute: DType) -> str:
    """An element in memory as a `Value`: cast to `compute` first, which may round it."""
    number = _number(element, dtype)
    return number if dtype is compute else _number(_element(number, compute), compute)
