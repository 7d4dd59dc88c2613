"""Element-wise operators in CUDA C++: one expression each, on the values of one element.

`x`, `y` and `z` are the operator's tensors in the order of its schema, of type `Value`; a number
among its arguments goes by its own name. `Wide` is unsigned for whole numbers: a signed overflow
has no meaning in C++.

Source   aten/src/ATen/native/cuda/*Kernel.cu
"""

from collections.abc import Callable, Mapping

from labkit.core.dtype import DType

Given = Mapping[str, str | None]
"""A schema's argument -> its name in the expression, its word when it is one, None without it."""

Expression = str | Callable[[Given, DType], str | None]
"""The text; or what makes it of the arguments and of the type computed in, None for no kernel."""


def _rounding(text: str) -> Expression:
    """Whole numbers are round already."""

    def made(given: Given, compute: DType) -> str | None:
        if "decimals" in given:
            return None
        return text if compute.is_floating_point else "x"

    return made


def _absolute(given: Given, compute: DType) -> str:
    if compute.is_floating_point:
        return "fabs(x)"  # of -0.0 too
    return "x < 0 ? -Wide(x) : Wide(x)" if compute.is_signed else "x"


def _quotient(given: Given, compute: DType) -> str | None:
    return "x / y" if given.get("rounding_mode") is None else None


def _clamp(given: Given, compute: DType) -> str:
    text = "x"
    if given.get("min"):
        text = f"larger({text}, {given['min']})"
    if given.get("max"):
        text = f"smaller({text}, {given['max']})"
    return text


def _power(given: Given, compute: DType) -> str:
    exponent = given["exponent"]
    general = f"power({given['self']}, {exponent})"
    if exponent != "exponent" or not compute.is_floating_point:
        return general
    root = f"exponent == Value(0.5) ? sqrt(x) : exponent == -1 ? 1 / x : {general}"
    return f"exponent == 2 ? x * x : {root}"


def _lerp(given: Given, compute: DType) -> str:
    w = given["weight"]
    return f"fabs({w}) < Value(0.5) ? x + {w} * (y - x) : y - (y - x) * (1 - {w})"


def _gelu(given: Given, compute: DType) -> str:
    if given["approximate"] == "tanh":
        return "Value(0.5) * x * (1 + tanh(gelu_inner(x)))"
    return "x * Value(0.5) * (1 + erf(x * Value(0.70710678118654752)))"


def _gelu_backward(given: Given, compute: DType) -> str:
    if given["approximate"] == "tanh":
        return "x * gelu_tanh_slope(y)"
    distribution = "Value(0.5) * (1 + erf(y * Value(0.70710678118654752)))"
    density = "exp(Value(-0.5) * y * y) * Value(0.39894228040143268)"
    return f"x * ({distribution} + y * {density})"


_SIGMOID = "(1 / (1 + exp(-{})))"

EXPRESSIONS: dict[str, Expression] = {
    "copy_": "x", "fill_": "value", "masked_fill_": "x != 0 ? value : y",
    # arithmetic
    "add": "Wide(x) + Wide(alpha) * Wide(y)", "sub": "Wide(x) - Wide(alpha) * Wide(y)",
    "mul": "Wide(x) * Wide(y)", "div": _quotient, "remainder": "floored_remainder(x, y)",
    "fmod": "fmod(x, y)", "neg": "-Wide(x)", "abs": _absolute,
    "sign": "(x > 0) - (x < 0)", "sgn": "(x > 0) - (x < 0)", "pow": _power,
    "maximum": "larger(x, y)", "minimum": "smaller(x, y)",
    "fmax": "x != x || y > x ? y : x", "fmin": "x != x || y < x ? y : x",
    "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp,
    "lerp": _lerp, "where": "x != 0 ? y : z",
    "addcmul": "Wide(x) + Wide(value) * Wide(y) * Wide(z)", "addcdiv": "x + value * y / z",
    "atan2": "atan2(x, y)",
    # comparisons, questions, bits
    "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    "logical_not": "x == 0", "logical_and": "x != 0 && y != 0", "logical_or": "x != 0 || y != 0",
    "logical_xor": "(x != 0) != (y != 0)", "isnan": "x != x", "isinf": "x == x && x - x != 0",
    "isposinf": "x == x && x - x != 0 && x > 0", "isneginf": "x == x && x - x != 0 && x < 0",
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y",
    "bitwise_not": lambda given, compute: "!x" if compute.kind == "bool" else "~x",
    # functions of one number
    **{name: f"{name}(x)" for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    )},
    "rsqrt": "1 / sqrt(x)", "reciprocal": "1 / x", "sigmoid": _SIGMOID.format("x"),
    "frac": "x - trunc(x)",
    "ceil": _rounding("ceil(x)"), "floor": _rounding("floor(x)"), "trunc": _rounding("trunc(x)"),
    "round": _rounding("rint(x)"),
    # activations; `x` is the gradient in those that go backward
    "relu": "larger(x, 0)", "threshold": "x <= threshold ? value : x",
    "threshold_backward": "y <= threshold ? Value(0) : x",
    "leaky_relu": "x > 0 ? x : x * negative_slope",
    "leaky_relu_backward": "y > 0 ? x : x * negative_slope",
    "softplus": "x * beta > threshold ? x : log1p(exp(x * beta)) / beta",
    "softplus_backward": "y * beta > threshold ? x : x * exp(y * beta) / (exp(y * beta) + 1)",
    "gelu": _gelu, "gelu_backward": _gelu_backward,
    "silu": "x / (1 + exp(-x))",
    "silu_backward": f"x * {_SIGMOID.format('y')} * (1 + y * (1 - {_SIGMOID.format('y')}))",
    "sigmoid_backward": "x * ((1 - y) * y)", "tanh_backward": "x * (1 - y * y)",
}  # fmt: skip
"""Operator -> its expression."""

DIVISIONS = {"remainder", "fmod"}
"""Operators whose whole numbers stay on the host, which raises an error for a divisor of 0."""

HELPERS = {
    "floored_remainder": """\
__device__ Value floored_remainder(Value x, Value y) {
    const Value rest = fmod(x, y);  // has the sign of x
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
""",
    "larger": """\
// Each of the two is NaN when either number is.
__device__ Value larger(Value x, Value y) { return x != x || x > y ? x : y; }
""",
    "smaller": """\
__device__ Value smaller(Value x, Value y) { return x != x || x < y ? x : y; }
""",
    "power": """\
template <class T>
__device__ T power(T x, T y) {
    if constexpr (T(0.5) != T(0)) {
        return pow(x, y);
    } else {
        // A negative exponent leaves 1 of 1, a sign of -1, and nothing of any other whole number.
        if (y < 0) return x == 1 ? T(1) : x == T(-1) ? (y % 2 ? T(-1) : T(1)) : T(0);
        Wide result = 1, factor = x;
        for (; y; y /= 2, factor *= factor) {
            if (y % 2) result *= factor;
        }
        return result;
    }
}
""",
    "gelu_inner": """\
__device__ Value gelu_inner(Value x) {
    return Value(0.79788456080286536) * (x + Value(0.044715) * x * x * x);
}
""",
    "gelu_tanh_slope": """\
__device__ Value gelu_tanh_slope(Value x) {
    const Value t = tanh(Value(0.79788456080286536) * (x + Value(0.044715) * x * x * x));
    const Value inner = Value(0.79788456080286536) * (1 + 3 * Value(0.044715) * x * x);
    return Value(0.5) * (1 + t) + Value(0.5) * x * (1 - t * t) * inner;
}
""",
}
"""Function an expression may call -> its definition."""


def expression(name: str, given: Given, compute: DType) -> str | None:
    """The operator's text for these arguments; None when it has none."""
    found = EXPRESSIONS.get(name)
    return found(given, compute) if callable(found) else found
