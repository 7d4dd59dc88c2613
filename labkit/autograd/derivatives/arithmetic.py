"""Derivatives of arithmetic: sums, products, quotients, powers."""

from labkit.autograd.derivatives.row import ELEMENTWISE, LINEAR, Row, row

ROWS: list[Row] = [
    row(
        "add.Tensor", "AddBackward0",
        self="grad",
        other="maybe_multiply(grad, conj(alpha))",
        jvp="self_t + maybe_multiply(other_t, alpha)",
    ),
    row("add.Scalar", "AddBackward1", self="grad", jvp=ELEMENTWISE),
    row(
        "sub.Tensor", "SubBackward0",
        self="grad",
        other="maybe_multiply(-grad, conj(alpha))",
        jvp="self_t - maybe_multiply(other_t, alpha)",
    ),
    row("sub.Scalar", "SubBackward1", self="grad", jvp=ELEMENTWISE),
    row(
        "rsub.Tensor", "RsubBackward0",
        self="maybe_multiply(-grad, conj(alpha))",
        other="grad",
        jvp="-maybe_multiply(self_t, alpha) + other_t",
    ),
    row(
        "rsub.Scalar", "RsubBackward1",
        self="maybe_multiply(-grad, conj(alpha))",
        jvp=ELEMENTWISE,
    ),
    row(
        "mul.Tensor", "MulBackward0",
        self="grad * conj(other)",
        other="grad * conj(self)",
        jvp="other_t * self_p + self_t * other_p",
    ),
    row(
        "mul.Scalar", "MulBackward1",
        self="grad * conj(other)",
        jvp=ELEMENTWISE,
    ),
    row(
        "div.Tensor", "DivBackward0",
        self="grad / conj(other)",
        other="-grad * conj((self / other) / other)",
        jvp="(self_t - other_t * result) / other_p",
    ),
    row(
        "div.Scalar", "DivBackward1",
        self="grad / conj(other)",
        jvp=ELEMENTWISE,
    ),
    row(
        "div.Tensor_mode", "DivBackward2",
        self="div_mode_self(grad, other, self.dtype, rounding_mode)",
        other="div_mode_other(grad, self, other, rounding_mode)",
        jvp="div_mode_jvp(self_t, other_t, other_p, result, rounding_mode)",
    ),
    row(
        "div.Scalar_mode", "DivBackward3",
        self="div_mode_self(grad, other, self.dtype, rounding_mode)",
        jvp=ELEMENTWISE,
    ),
    row(
        "pow.Tensor_Scalar", "PowBackward0",
        self="pow_self(grad, self, exponent)",
        jvp=ELEMENTWISE,
    ),
    row(
        "pow.Tensor_Tensor", "PowBackward1",
        self="pow_self_tensor(grad, self, exponent)",
        exponent="pow_exponent(grad, self, exponent, result)",
        jvp="conj(pow_self_tensor(conj(self_t), self_p, exponent_p))"
        " + conj(pow_exponent(conj(exponent_t), self_p, exponent_p, result))",
    ),
    row(
        "pow.Scalar", "PowBackward2",
        exponent="pow_scalar_exponent(grad, self, exponent, result)",
        jvp=ELEMENTWISE,
    ),
    row("neg", "NegBackward0", self="-grad", jvp=LINEAR),
    row(
        "addcmul", "AddcmulBackward0",
        self="grad",
        tensor1="grad * conj(tensor2 * value)",
        tensor2="grad * conj(tensor1 * value)",
        jvp="self_t + maybe_multiply(tensor1_t * tensor2_p, value)"
        " + maybe_multiply(tensor2_t * tensor1_p, value)",
    ),
    row(
        "addcdiv", "AddcdivBackward0",
        self="grad",
        tensor1="grad * conj(value / tensor2)",
        tensor2="-grad * conj((value * tensor1 / tensor2) / tensor2)",
        jvp="self_t + maybe_multiply(tensor1_t / tensor2_p, value)"
        " - maybe_multiply(tensor2_t * (tensor1_p / tensor2_p) / tensor2_p, value)",
    ),
    row(
        "lerp.Scalar", "LerpBackward0",
        self="grad * (1 - conj(weight))",
        end="grad * conj(weight)",
        jvp="self_t + maybe_multiply(end_t - self_t, weight)",
    ),
    row(
        "lerp.Tensor", "LerpBackward1",
        self="grad * conj(1 - weight)",
        end="grad * conj(weight)",
        weight="grad * conj(end - self)",
        jvp="self_t * (1 - weight_p) + end_t * weight_p + weight_t * (end_p - self_p)",
    ),
    row("fmod.Scalar", "FmodBackward0", self="grad", jvp=ELEMENTWISE),
    row(
        "fmod.Tensor", "FmodBackward1",
        self="grad",
        other="-grad * aten.div.Tensor_mode(self, other, rounding_mode='trunc')",
        jvp="self_t - other_t * aten.div.Tensor_mode(self_p, other_p, rounding_mode='trunc')",
    ),
    row("remainder.Scalar", "RemainderBackward0", self="grad", jvp=ELEMENTWISE),
    row(
        "remainder.Tensor", "RemainderBackward1",
        self="grad",
        other="-grad * aten.div.Tensor_mode(self, other, rounding_mode='floor')",
        jvp="self_t - other_t * aten.div.Tensor_mode(self_p, other_p, rounding_mode='floor')",
    ),
    row("reciprocal", "ReciprocalBackward0", self="-grad * conj(result * result)", jvp=ELEMENTWISE),
]  # fmt: skip
