"""The CUDA C++ text of an element-wise operator, for given element types and dimensions.

Sizes and strides are arguments of the kernel, so one text serves every shape of as many dimensions:
a stride of 0 bytes is a broadcast. Operands of another element type are cast as they are loaded.

Source   aten/src/ATen/native/cuda/CUDALoops.cuh  gpu_kernel_impl_nocast
         aten/src/ATen/cuda/detail/OffsetCalculator.cuh
Differs  one element per thread, where PyTorch gives each thread four; plain division, where
         PyTorch multiplies by a magic number
"""

from collections.abc import Sequence

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType

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

_HEADERS = {dtypes.float16: "cuda_fp16.h", dtypes.bfloat16: "cuda_bf16.h"}

COMPARISONS = {"eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y",
               "ge": "x >= y"}  # fmt: skip
EXPRESSIONS: dict[str, str] = {
    "add": "Wide(x) + Wide(y)", "sub": "Wide(x) - Wide(y)", "mul": "Wide(x) * Wide(y)",
    "div": "x / y", "remainder": "floored_remainder(x, y)",
    **COMPARISONS,
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y",
    "neg": "-Wide(x)", "bitwise_not": "~x", "abs": "x < 0 ? -Wide(x) : Wide(x)",
}  # fmt: skip
"""Operator -> C++ on the values `x` and `y`."""

_HELPERS = {
    "remainder": """\
__device__ Value floored_remainder(Value x, Value y) {
    const Value rest = fmod(x, y);  // has the sign of x
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

"""
}

_TEMPLATE = """\
{includes}using Out = {out};
using Value = {value};  // what operands are loaded as
using Wide = {wide};  // unsigned for whole numbers: a signed overflow has no meaning in C++

struct Walk {{  // dimension 0 is the fastest; steps are bytes, of the output first
    long long sizes[{ndim}];
    long long steps[{count}][{ndim}];
}};

template <class Element>
__device__ Element& at(Element* first, long long bytes) {{
    return *(Element*)((char*)first + bytes);
}}

{helper}extern "C" __global__ void {name}(Out* out, {parameters},
                                  long long n, Walk walk) {{
    long long rest = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (rest >= n) return;
    long long offset[{count}] = {{}};
    for (int d = 0; d < {ndim}; ++d) {{
        const long long index = rest % walk.sizes[d];
        rest /= walk.sizes[d];
        for (int operand = 0; operand < {count}; ++operand) {{
            offset[operand] += index * walk.steps[operand][d];
        }}
    }}
{loads}
    at(out, offset[0]) = {result};
}}
"""


def kernel_name(name: str) -> str:
    """What the kernel of an operator is called."""
    return f"lab_{name}"


def source(name: str, compute: DType, types: Sequence[DType], ndim: int) -> str:
    """The text of one kernel: `out = name(x)` or `out = name(x, y)`.

    compute  the element type of the arithmetic
    types    the element types in memory, of the output first
    ndim     dimensions of the loop, at least 1
    """
    out, *inputs = types
    named = list(zip("xy", inputs, strict=False))
    loads = [
        f"    const Value {x} = {_value(f'at({x}s, offset[{position}])', dtype, compute)};"
        for position, (x, dtype) in enumerate(named, 1)
    ]
    answers = dtypes.bool_ if name in COMPARISONS else compute
    result = _element(f"({_expression(name, compute)})", answers)
    return _TEMPLATE.format(
        includes="".join(
            f"#include <{_HEADERS[dtype]}>\n" for dtype in _HEADERS if dtype in (compute, *types)
        ),
        out=ELEMENTS[out],
        value="float" if compute in _HEADERS else ELEMENTS[compute],
        wide=_wide(compute),
        helper=_HELPERS.get(name, ""),
        name=kernel_name(name),
        ndim=ndim,
        count=len(types),
        parameters=", ".join(f"const {ELEMENTS[dtype]}* {x}s" for x, dtype in named),
        loads="\n".join(loads),
        result=result if out is answers else _element(_number(result, answers), out),
    )


def _expression(name: str, compute: DType) -> str:
    if name == "bitwise_not" and compute.kind == "bool":
        return "!x"
    if name == "abs" and not compute.is_signed:
        return "x"
    if name == "abs" and compute.is_floating_point:
        return "fabs(x)"  # of -0.0 too
    return EXPRESSIONS[name]


def _wide(compute: DType) -> str:
    if compute.is_floating_point:
        return "Value"
    if compute.kind == "bool":
        return "int"
    return "unsigned long long" if compute.itemsize == 8 else "unsigned int"


def _number(element: str, dtype: DType) -> str:
    """An element as something C++ computes with."""
    return f"float({element})" if dtype in _HEADERS else element


def _element(number: str, dtype: DType) -> str:
    """A number rounded to an element type; to a half by way of float, as `c10::convert` goes."""
    inner = f"float({number})" if dtype in _HEADERS else number
    return f"({ELEMENTS[dtype]})({inner})"


def _value(element: str, dtype: DType, compute: DType) -> str:
    """An element in memory as a `Value`: cast to `compute` first, which may round it."""
    number = _number(element, dtype)
    return number if dtype is compute else _number(_element(number, compute), compute)
