"""Derivatives of functions of each element: roots, exponentials, circles, activations, choices."""

from labkit.autograd.derivatives.row import Row, row

ZERO = "zeros_like(grad)"


def _each(operator: str, node: str, formula: str) -> Row:
    """A row of an operator with one argument that has a derivative."""
    return row(operator, f"{node}Backward0", self=formula)


FUNCTIONS = [
    _each("abs", "Abs", "grad * sgn(self)"),
    _each("exp", "Exp", "grad * conj(result)"),
    _each("exp2", "Exp2", "grad * conj(result) * math.log(2)"),
    _each("expm1", "Expm1", "grad * (conj(result) + 1)"),
    _each("log", "Log", "grad / conj(self)"),
    _each("log2", "Log2", "grad / (conj(self) * math.log(2))"),
    _each("log10", "Log10", "grad / (conj(self) * math.log(10))"),
    _each("log1p", "Log1P", "grad / conj(self + 1)"),
    _each("sqrt", "Sqrt", "grad / (2 * conj(result))"),
    _each("rsqrt", "Rsqrt", "-0.5 * grad * conj(power(result, 3))"),
    _each("sin", "Sin", "grad * conj(cos(self))"),
    _each("cos", "Cos", "grad * -conj(sin(self))"),
    _each("tan", "Tan", "grad * conj(1 + power(result, 2))"),
    _each("asin", "Asin", "grad * conj(rsqrt(-self * self + 1))"),
    _each("acos", "Acos", "grad * -conj(rsqrt(-self * self + 1))"),
    _each("atan", "Atan", "grad / conj(self * self + 1)"),
    _each("sinh", "Sinh", "grad * conj(cosh(self))"),
    _each("cosh", "Cosh", "grad * conj(sinh(self))"),
    _each("tanh", "Tanh", "tanh_backward(grad, result)"),
    _each("asinh", "Asinh", "grad * conj(rsqrt(power(self, 2) + 1))"),
    _each("acosh", "Acosh", "acosh_self(grad, self)"),
    _each("atanh", "Atanh", "grad * 1 / conj(1 - power(self, 2))"),
    _each("sigmoid", "Sigmoid", "sigmoid_backward(grad, result)"),
    _each("erf", "Erf", "2.0 / math.sqrt(math.pi) * exp(-power(self, 2)) * grad"),
    _each("erfc", "Erfc", "-2.0 / math.sqrt(math.pi) * exp(-power(self, 2)) * grad"),
    _each("sign", "Sign", ZERO),
    _each("floor", "Floor", ZERO),
    _each("ceil", "Ceil", ZERO),
    _each("round", "Round", ZERO),
    _each("trunc", "Trunc", ZERO),
    _each("frac", "Frac", "grad"),
    row("_conj_physical", "ConjPhysicalBackward0", self="conj_physical(grad)"),
    row("sgn", "SgnBackward0", self="sgn_self(grad, self, result)"),
]  # fmt: skip

ACTIVATIONS = [
    _each("relu", "Relu", "threshold_backward(grad, result, 0)"),
    _each("silu", "Silu", "silu_self(grad, self)"),
    _each("gelu", "Gelu", "gelu_backward(grad, self, approximate=approximate)"),
    _each("leaky_relu", "LeakyRelu", "leaky_relu_backward(grad, self, negative_slope, False)"),
    _each("softplus", "Softplus", "softplus_backward(grad, self, beta, threshold)"),
    _each("threshold", "Threshold", "threshold_backward(grad, self, threshold)"),
]  # fmt: skip

BACKWARDS = [
    row("threshold_backward", "ThresholdBackwardBackward0",
        grad_output="threshold_backward(grad, self, threshold)", self=ZERO),
    row("sigmoid_backward", "SigmoidBackwardBackward0",
        grad_output="sigmoid_backward(grad, conj(output))",
        output="conj(grad) * grad_output * (-2 * conj(output) + 1)"),
    row("tanh_backward", "TanhBackwardBackward0",
        grad_output="tanh_backward(grad, conj(output))",
        output="conj(grad) * (-2 * conj(output) * grad_output)"),
    row("leaky_relu_backward", "LeakyReluBackwardBackward0",
        grad_output="leaky_relu_backward(grad, self, negative_slope, False)", self=ZERO),
]  # fmt: skip

CHOICES = [
    row("maximum", "MaximumBackward0",
        self="zero_where(lt(self, other), halved_where(eq(self, other), grad))",
        other="zero_where(gt(self, other), halved_where(eq(self, other), grad))"),
    row("minimum", "MinimumBackward0",
        self="zero_where(gt(self, other), halved_where(eq(self, other), grad))",
        other="zero_where(lt(self, other), halved_where(eq(self, other), grad))"),
    row("fmax", "FmaxBackward0",
        self="zero_where(logical_not(takes_first(self, other, True)), grad)",
        other="zero_where(takes_first(self, other, True), grad)"),
    row("fmin", "FminBackward0",
        self="zero_where(logical_not(takes_first(self, other, False)), grad)",
        other="zero_where(takes_first(self, other, False), grad)"),
    row("clamp", "ClampBackward1", self="clamp_self(grad, self, min, max)"),
    row("clamp.Tensor", "ClampBackward0",
        {"min, max": "clamp_min_max(grad, self, min, max, needs)"},
        self="clamp_self(grad, self, min, max)"),
    row("clamp_min", "ClampMinBackward0",
        self="zero_where(logical_not(ge(self, min)), grad)"),
    row("clamp_max", "ClampMaxBackward0",
        self="zero_where(logical_not(le(self, max)), grad)"),
    row("clamp_min.Tensor", "ClampMinBackward1",
        self="zero_where(logical_not(ge(self, min)), grad)",
        min="zero_where(logical_not(lt(self, min)), grad)"),
    row("clamp_max.Tensor", "ClampMaxBackward1",
        self="zero_where(logical_not(le(self, max)), grad)",
        max="zero_where(logical_not(gt(self, max)), grad)"),
    row("where.self", "WhereBackward0",
        self="zero_where(logical_not(condition), grad)",
        other="zero_where(condition, grad)"),
    row("masked_fill.Scalar", "MaskedFillBackward0", self="zero_where(mask, grad)"),
    row("masked_fill.Tensor", "MaskedFillBackward1", self="zero_where(mask, grad)",
        value="masked_fill_value(grad, mask)"),
]  # fmt: skip

BINARY = [
    row("atan2", "Atan2Backward0", {"self, other": "atan2_backward(grad, self, other, needs)"}),
]  # fmt: skip

ROWS: list[Row] = [*FUNCTIONS, *ACTIVATIONS, *BACKWARDS, *CHOICES, *BINARY]
